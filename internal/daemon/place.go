package daemon

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/store/sqlite"
	"taskdaemon/internal/td"
)

// A file beside the state folder says that tasks were kept in it, and how far its journal was: it is still there when the folder was moved, removed or put back to
// an older copy while no daemon ran. Who began an empty journal in such a place, or went on with an old one, would say that all is well, and do again what is done.

const placeText = "taskdaemon keeps the records of its tasks in the folder that this file is named after, and counts in the first line what it wrote there.\n" +
	"If you remove that folder, remove this file as well: until then no empty one is begun in its place, and no older copy is gone on with.\n"

// statePath is the path of a state folder with the links on the way to it followed, but not the folder itself, which may be gone.
func statePath(stateDir string) string {
	dir, err := filepath.Abs(stateDir)
	if err != nil {
		dir = stateDir
	}
	if parent, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
		dir = filepath.Join(parent, filepath.Base(dir))
	}
	return dir
}

// placeFile is that file of a state folder.
func placeFile(stateDir string) string {
	dir := statePath(stateDir)
	return filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".place")
}

// notePlace makes the file, durably, if it is not there, and returns it for the journal to mark. Where none can be made there is no such protection.
func notePlace(stateDir string) (*os.File, error) {
	path := placeFile(stateDir)
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := openPlace(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteAt([]byte(placeText), sqlite.MarkSize)
	err = errors.Join(err, f.Truncate(int64(sqlite.MarkSize+len(placeText))), f.Sync(), disk.SyncFolder(root, "."))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// markPlace has the journal say in that file how far it is, from now on.
func (d *Daemon) markPlace() {
	f, err := notePlace(d.o.StateDir)
	if err == nil {
		err = d.markIn(f)
	}
	if err != nil {
		d.o.Log.Warn("note beside the state folder that it has tasks; an older copy of it will not be noticed", "err", err)
	}
}

// openPlace opens such a file. Anybody may have made one in a shared folder, or a link that leads to something else: only one's own counts.
func openPlace(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		owner, ok := info.Sys().(*syscall.Stat_t)
		// What has another name, too, may be anything: it is not written to.
		if info.Mode().IsRegular() && ok && int(owner.Uid) == os.Getuid() && (flags == os.O_RDONLY || owner.Nlink == 1) {
			return f, nil
		}
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("it is not a file of this user alone")}
	}
	return nil, errors.Join(err, f.Close())
}

// noted reports whether tasks were kept in a state folder once.
func noted(stateDir string) bool {
	f, err := openPlace(placeFile(stateDir), os.O_RDONLY)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// Marked is how far the journal of a state folder was when its daemon last wrote to it, whatever is in the folder now; 0: not known.
func Marked(stateDir string) uint64 {
	f, err := openPlace(placeFile(stateDir), os.O_RDONLY)
	if err != nil {
		return 0
	}
	defer f.Close()
	raw := make([]byte, sqlite.MarkSize)
	if _, err := io.ReadFull(f, raw); err != nil {
		return 0
	}
	return sqlite.ParseMark(raw)
}

// CheckPlace refuses a state folder that is not where it was: one whose daemon still lives, and whose tasks are elsewhere, and one that had tasks and
// is gone. It makes nothing there, so that the folder can be moved back.
func CheckPlace(stateDir string) error {
	if pid := present(stateDir); pid != 0 {
		if raw, err := os.ReadFile(filepath.Join(stateDir, "run", "journal.lock")); err == nil && strings.TrimSpace(string(raw)) == strconv.Itoa(pid) {
			return nil // it is in its place
		}
		return moved(stateDir, pid)
	}
	if !noted(stateDir) {
		return nil
	}
	// With any of these it is the journal that says what it lacks.
	for _, kept := range []string{"journal.db", "journal.db-wal", "journal.mark", filepath.Base(RepoPath(stateDir))} {
		if _, err := os.Lstat(filepath.Join(stateDir, kept)); !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return td.Errorf(td.Storage, "the state folder %s had tasks and is gone or empty", stateDir).
		WithHint("move it back, or name its new place with --state. If it is lost and you want to begin without those tasks: rm %s", placeFile(stateDir))
}

func moved(stateDir string, pid int) error {
	return td.Errorf(td.Conflict, "the state folder %s was moved or removed while its daemon (pid %d) ran", stateDir, pid).
		WithHint("that daemon stops by itself; then move the folder back, or name its new place with --state")
}
