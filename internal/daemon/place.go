package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/td"
)

// A file beside the state folder says that tasks were kept in it: it is still there when the folder was moved or removed while no daemon ran. Who
// began an empty journal in such a place would say that all is well, and do again what is done.

const placeText = "taskdaemon keeps the records of its tasks in the folder that this file is named after.\n" +
	"If you remove that folder, remove this file as well: until then no empty one is begun in its place.\n"

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

// notePlace makes the file, durably. Where none can be made there is no such protection.
func notePlace(stateDir string) error {
	path := placeFile(stateDir)
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.OpenFile(filepath.Base(path), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(placeText)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return disk.SyncFolder(root, ".")
}

// noted reports whether tasks were kept in a state folder once. Anybody may have made a file in a shared folder: only one's own counts.
func noted(stateDir string) bool {
	info, err := os.Lstat(placeFile(stateDir))
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Getuid()
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
