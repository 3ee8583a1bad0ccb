package rebuild

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/store/mirror"
	"taskdaemon/internal/store/sqlite"
	"taskdaemon/internal/td"
)

const (
	journalFile = "journal.db"
	markFile    = "journal.mark"
)

// keepLog copies the log of a journal that has lost its end: what is behind the damage may yet be of use to somebody.
func (b *builder) keepLog() error {
	raw, err := os.ReadFile(filepath.Join(b.StateDir, journalFile+"-wal"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(raw) == 0 {
		return nil
	}
	if err != nil {
		return td.Errorf(td.Storage, "keep the journal's log: %w", err)
	}
	to := filepath.Join(b.StateDir, journalFile+b.stamp()+"-wal")
	if err := os.WriteFile(to, raw, 0o600); err != nil {
		return td.Errorf(td.Storage, "keep the journal's log: %w", err).WithHint("make room on the disk of %s and try again: nothing was changed", b.StateDir)
	}
	b.report.Aside = append(b.report.Aside, to)
	return nil
}

// counted is how far the journal that was there is known to have been.
func (b *builder) counted() (uint64, error) {
	raw, err := os.ReadFile(filepath.Join(b.StateDir, markFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, td.Errorf(td.Storage, "read how far the journal was: %w", err)
	}
	return max(b.Marked, sqlite.ParseMark(raw)), nil
}

// stamp is what the names of files that are kept aside end in.
func (b *builder) stamp() string { return ".before-" + b.Now().UTC().Format("20060102T150405.000") }

// copy copies the journal that was there. It was closed in order: there is nothing in its log.
func (b *builder) copy() error {
	from := filepath.Join(b.StateDir, journalFile)
	if info, err := os.Stat(from + "-wal"); err == nil && info.Size() > 0 {
		return td.Errorf(td.Locked, "somebody has written to %s meanwhile", from).WithHint("taskdaemon daemon stop, then again")
	}
	in, err := os.Open(from)
	if err != nil {
		return td.Errorf(td.Storage, "copy the journal: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(filepath.Join(b.at, journalFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return td.Errorf(td.Storage, "copy the journal: %w", err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return td.Errorf(td.Storage, "copy the journal: %w", err).WithHint("make room on the disk of %s and try again: nothing was changed", b.StateDir)
	}
	return nil
}

// place puts the new journal into its place. Each step may be the last before a death: until the new file has its name,
// the old journal is there, or, if that was damaged, none, which the next try takes up.
func (b *builder) place() error {
	root, err := os.OpenRoot(b.StateDir)
	if err != nil {
		return td.Errorf(td.Storage, "open the state folder: %w", err)
	}
	defer root.Close()
	if err := b.blobs(root); err != nil {
		return err
	}
	fpBlobs.Hit()
	if err := mirror.StartOver(b.Repo); err != nil { // it follows another journal from now on
		return err
	}
	fpMirror.Hit()
	if err := b.aside(root); err != nil {
		return err
	}
	fpAside.Hit()
	if err := root.Rename(filepath.Join(folder, journalFile), journalFile); err != nil {
		return td.Errorf(td.Storage, "put the new journal into its place: %w", err)
	}
	fpRenamed.Hit()
	// Until here the old mark says that the journal is not to be gone on with.
	if err := root.Rename(filepath.Join(folder, markFile), markFile); err != nil {
		return td.Errorf(td.Storage, "mark how far the new journal is: %w", err)
	}
	if err := disk.SyncFolder(root, "."); err != nil {
		return err
	}
	fpPlaced.Hit()
	return nil
}

// aside keeps what was there under another name. A journal that is sound stays in its place until the new one takes it.
// Its log has a say in what it is, unless there is nothing in it; shared memory of processes that are gone has none.
func (b *builder) aside(root *os.Root) error {
	keep := root.Link
	if b.damaged {
		keep = root.Rename
	}
	mark := b.stamp()
	if err := b.move(keep, journalFile, journalFile+mark); err != nil {
		return err
	}
	const log = journalFile + "-wal"
	if info, err := root.Stat(log); err == nil && info.Size() > 0 {
		if err := b.move(root.Rename, log, journalFile+mark+"-wal"); err != nil {
			return err
		}
	}
	for _, worthless := range []string{log, journalFile + "-shm"} {
		if err := disk.Remove(root, worthless); err != nil {
			return td.Errorf(td.Storage, "remove %s: %w", worthless, err)
		}
	}
	return disk.SyncFolder(root, ".")
}

// move gives a file of the old journal another name, if it is there.
func (b *builder) move(how func(from, to string) error, from, to string) error {
	if err := how(from, to); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return td.Errorf(td.Storage, "keep %s aside: %w", from, err)
	}
	b.report.Aside = append(b.report.Aside, filepath.Join(b.StateDir, to))
	return nil
}

// blobs moves large bodies to those of the old journal. They are named by what is in them: one that is there already is
// the same.
func (b *builder) blobs(root *os.Root) error {
	from := filepath.Join(folder, "blobs")
	err := fs.WalkDir(root.FS(), from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		to := filepath.Join("blobs", rel)
		if err := disk.MakeFolder(root, filepath.Dir(to)); err != nil {
			return err
		}
		if err := root.Rename(path, to); err != nil {
			return err
		}
		return disk.SyncFolder(root, filepath.Dir(to))
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return td.Errorf(td.Storage, "keep large bodies: %w", fmt.Errorf("%s: %w", from, err))
	}
	return nil
}
