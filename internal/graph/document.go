package graph

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"taskdaemon/internal/beneath"
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
		return s.inFolder(func(root *beneath.Folder) error {
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
		return nil, s.inFolder(func(root *beneath.Folder) error {
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
func (s *Store) inFolder(f func(*beneath.Folder) error) error {
	root, err := beneath.OpenResolved(s.root)
	if err != nil {
		return fileError("open", s.root, err)
	}
	defer root.Close()
	return f(root)
}

func readDocument(root *beneath.Folder, file string) (text string, there bool, err error) {
	raw, _, err := root.Read(file, maxDocument)
	switch {
	case err == nil:
		return strings.ToValidUTF8(string(raw), "\uFFFD"), true, nil
	case errors.Is(err, fs.ErrNotExist):
		return "", false, nil
	case errors.Is(err, beneath.ErrTooLarge):
		return "", true, td.Errorf(td.Invalid, "%s has more than %d KiB", file, maxDocument>>10).WithHint("make it shorter")
	}
	return "", true, fileError("read", file, err)
}

// placeDocument gives a document its text at one instant, which stays after a loss of power.
func placeDocument(root *beneath.Folder, file, text string) error {
	fpDocument.Hit()
	dir, err := root.Make(path.Dir(file))
	if err != nil {
		return fileError("make", path.Dir(file), err)
	}
	defer dir.Close()
	name := path.Base(file)
	temp := "." + name + ".tmp" // the end of its name keeps it out of commits
	f, err := dir.CreateAnew(temp, 0o644)
	if err != nil {
		return fileError("write", file, err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		fpDocumentWritten.Hit()
		err = dir.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(fileError("write", file, err), dir.Remove(temp))
	}
	fpDocumentPlaced.Hit()
	if err := dir.Sync(); err != nil {
		return fileError("write", file, err)
	}
	return nil
}

// removeDocuments removes a PRD's folder. What is no plain file in it stays, and so does the folder then.
func (s *Store) removeDocuments(slug string) error {
	return s.inFolder(func(root *beneath.Folder) error {
		at := path.Join(Folder, PRDFolder)
		all, err := root.Folder(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fileError("open", at, err)
		}
		defer all.Close()
		dir, err := all.Folder(slug)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fileError("open", path.Join(at, slug), err)
		}
		defer dir.Close()
		for _, name := range entries(dir, ".") {
			if info, err := dir.Lstat(name); err != nil || !info.Mode().IsRegular() {
				continue
			}
			if err := dir.Remove(name); err != nil {
				return fileError("remove", path.Join(at, slug, name), err)
			}
		}
		if all.RemoveFolder(slug) != nil {
			err = dir.Sync()
		} else {
			err = all.Sync()
		}
		if err != nil {
			return fileError("remove", path.Join(at, slug), err)
		}
		return nil
	})
}

// entries are the names in a folder; of one that cannot be read, none.
func entries(root *beneath.Folder, dir string) (names []string) {
	all, _ := root.ReadDir(dir) // those that could be read
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}
