package graph

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

// PRDFolder is where the documents of PRDs are, in Folder: each PRD has a folder of its own there.
const PRDFolder = "prds"

// maxDocument is the most a document may have, in bytes: agents are given it whole.
const maxDocument = 1 << 20

var (
	fpDocument        = failpoint.New("graph.document.before_write")
	fpDocumentWritten = failpoint.New("graph.document.before_rename")
	fpDocumentPlaced  = failpoint.New("graph.document.after_rename")
	fpDocumentsGone   = failpoint.New("graph.document.after_remove")
)

// DocumentPath is where a document of a PRD is, or would be.
func (s *Store) DocumentPath(slug string, name td.DocName) string {
	return filepath.Join(s.root, Folder, PRDFolder, slug, name.File())
}

func documentFile(slug string, name td.DocName) string {
	return path.Join(Folder, PRDFolder, slug, name.File())
}

// Document is the text of a PRD's document; there is false where it has none.
func (s *Store) Document(ctx context.Context, id td.TaskID, name td.DocName) (text string, there bool, err error) {
	err = s.with(ctx, func() error {
		prd, err := s.prd(id)
		if err != nil {
			return err
		}
		return s.inFolder(func(root *os.Root) error {
			text, there, err = readDocument(root, documentFile(prd.Slug, name))
			return err
		})
	})
	return text, there, err
}

// WriteDocument gives a PRD a document, on disk when it returns. One that says something else is replaced only by force;
// one that says nothing counts as not there.
func (s *Store) WriteDocument(ctx context.Context, id td.TaskID, name td.DocName, text string, force bool) error {
	if err := CheckDocument(name, text); err != nil {
		return err
	}
	text = s.secrets.String(text)
	return s.write(ctx, "", func() ([]change, error) {
		prd, err := s.prd(id)
		if err != nil {
			return nil, err
		}
		file := documentFile(prd.Slug, name)
		return nil, s.inFolder(func(root *os.Root) error {
			before, there, err := readDocument(root, file)
			switch {
			case err != nil && !force:
				return err
			case there && before == text:
				return nil
			case there && strings.TrimSpace(before) != "" && !force:
				return td.Errorf(td.Conflict, "%s has a %s already, which says something else", prd.Handle, name).
					WithHint("taskdaemon prd show %s --%s, and --force to replace it", prd.Handle, name)
			}
			return placeDocument(root, file, text)
		})
	})
}

// CheckDocument fails unless a text may be a document.
func CheckDocument(name td.DocName, text string) error {
	switch {
	case !slices.Contains(td.DocNames, name):
		return td.Errorf(td.Invalid, "a PRD has no document %q", string(name)).WithHint("spec or plan")
	case strings.TrimSpace(text) == "":
		return td.Errorf(td.Invalid, "the %s is empty", name)
	case len(text) > maxDocument:
		return td.Errorf(td.Invalid, "the %s has %d KiB; %d are allowed", name, (len(text)+1023)>>10, maxDocument>>10).
			WithHint("keep what is needed to decide and to build it, and put the rest into files of the project")
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return td.Errorf(td.Invalid, "the %s has bytes that are no text", name)
	}
	return nil
}

// inFolder lets f work in the project, and nowhere else.
func (s *Store) inFolder(f func(*os.Root) error) error {
	root, err := os.OpenRoot(s.root)
	if err != nil {
		return fileError("open", s.root, err)
	}
	defer root.Close()
	return f(root)
}

// direct fails if what is on the way to a folder, or at its place, is no folder. A symbolic link might lead to what is not
// to be shown, or to be kept.
func direct(root *os.Root, dir string) error {
	for at := dir; at != "."; at = path.Dir(at) {
		info, err := root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fileError("look at", at, err)
		case info.Mode()&fs.ModeSymlink != 0:
			return fileError("open", at, syscall.ELOOP)
		case !info.IsDir():
			return td.Errorf(td.Invalid, "%s is no folder", at).WithHint("move it away")
		}
	}
	return nil
}

func readDocument(root *os.Root, file string) (text string, there bool, err error) {
	if err := direct(root, path.Dir(file)); err != nil {
		return "", false, err
	}
	switch info, err := root.Lstat(file); {
	case errors.Is(err, fs.ErrNotExist):
		return "", false, nil
	case err != nil:
		return "", false, fileError("look at", file, err)
	case !info.Mode().IsRegular():
		return "", true, td.Errorf(td.Invalid, "%s is no plain file", file).WithHint("put the file itself there")
	}
	f, err := root.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe by now
	if err != nil {
		return "", false, fileError("open", file, err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err != nil {
		return "", false, fileError("read", file, err)
	}
	if len(raw) > maxDocument {
		return "", true, td.Errorf(td.Invalid, "%s has more than %d KiB", file, maxDocument>>10).WithHint("make it shorter")
	}
	return strings.ToValidUTF8(string(raw), "\uFFFD"), true, nil
}

// placeDocument gives a document its text at one instant, which stays after a loss of power.
func placeDocument(root *os.Root, file, text string) error {
	if err := direct(root, path.Dir(file)); err != nil {
		return err
	}
	fpDocument.Hit()
	if err := disk.MakeFolder(root, path.Dir(file)); err != nil {
		return err
	}
	temp := path.Join(path.Dir(file), "."+path.Base(file)+".tmp") // the end of its name keeps it out of commits
	if err := disk.Remove(root, temp); err != nil {               // left by a crash
		return fileError("write", file, err)
	}
	f, err := root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fileError("write", file, err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(fileError("write", file, err), disk.Remove(root, temp))
	}
	fpDocumentWritten.Hit()
	if err := root.Rename(temp, file); err != nil {
		return errors.Join(fileError("write", file, err), disk.Remove(root, temp))
	}
	fpDocumentPlaced.Hit()
	return disk.SyncFolder(root, path.Dir(file))
}

// removeDocuments removes a PRD's folder. What is no plain file in it stays, and so does the folder then.
func (s *Store) removeDocuments(slug string) error {
	return s.inFolder(func(root *os.Root) error {
		dir := path.Join(Folder, PRDFolder, slug)
		if err := direct(root, dir); err != nil {
			return err
		}
		if _, err := root.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		for _, name := range entries(root, dir) {
			file := path.Join(dir, name)
			if info, err := root.Lstat(file); err != nil || !info.Mode().IsRegular() {
				continue
			}
			if err := disk.Remove(root, file); err != nil {
				return fileError("remove", file, err)
			}
		}
		if root.Remove(dir) != nil {
			return disk.SyncFolder(root, dir)
		}
		return disk.SyncFolder(root, path.Dir(dir))
	})
}

// entries are the names in a folder; of one that cannot be read, none.
func entries(root *os.Root, dir string) []string {
	d, err := root.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1) // those that could be read
	slices.Sort(names)
	return names
}
