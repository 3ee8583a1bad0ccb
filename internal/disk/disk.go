// Package disk makes and removes what must still be so after the host has lost its power. All of that happens within a
// root, so that a symlink cannot lead elsewhere. RemoveAll alone is for what nobody will miss.
package disk

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/td"
)

// MakeFolder makes the folders that are missing, each one durable in its own parent.
func MakeFolder(root *os.Root, dir string) error {
	if _, err := root.Stat(dir); err == nil {
		return nil
	}
	if err := MakeFolder(root, path.Dir(dir)); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return td.Errorf(td.Storage, "make folder %s: %w", dir, err)
	}
	return SyncFolder(root, path.Dir(dir))
}

// SyncFolder makes sure that what is in a folder now is in it after a crash of the host.
func SyncFolder(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err != nil {
		return td.Errorf(td.Storage, "open folder %s: %w", dir, err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return td.Errorf(td.Storage, "sync folder %s: %w", dir, err)
	}
	return nil
}

// Remove removes a file; one that is gone was removed.
func Remove(root *os.Root, name string) error {
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// RemoveAll removes a folder and all in it, also where folders in it were made read-only, as module caches are, and however deep they lie in each other.
func RemoveAll(dir string) error {
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	around, err := beneath.Open(parent)
	if err != nil {
		return err
	}
	defer func() { _ = around.Close() }()
	if err := around.RemoveAll(filepath.Base(dir)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ownError is an error of a file that is the daemon's own.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }

// Own marks an error of a file that is the daemon's own. A disk that fails under such a file tells nothing of a command; one that fails under
// a file of the workspace is what a tool has found there.
func Own(err error) error {
	if err == nil {
		return nil
	}
	return ownError{err}
}

// Trouble reports whether an error says that this machine has run short of something, or that the disk failed under a file of the daemon's own. It
// tells nothing of what was being done, and passes.
func Trouble(err error) bool {
	says := func(errnos ...syscall.Errno) bool {
		return slices.ContainsFunc(errnos, func(e syscall.Errno) bool { return errors.Is(err, e) })
	}
	if _, own := errors.AsType[ownError](err); own && says(syscall.EIO, syscall.EROFS) {
		return true
	}
	return says(syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN)
}
