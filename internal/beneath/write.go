package beneath

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Make opens a folder below after making what is missing of it, each one durable in its own parent.
func (f *Folder) Make(name string) (*Folder, error) {
	name, err := local(name)
	if err != nil {
		return nil, err
	}
	at, err := f.Folder(".")
	if err != nil || name == "." {
		return at, err
	}
	for part := range strings.SplitSeq(name, "/") {
		next, err := at.makeOne(part)
		_ = at.Close()
		if err != nil {
			return nil, within(f, at, err)
		}
		at = next
	}
	return at, nil
}

// makeOne opens a folder directly in this one, and makes it if it is missing.
func (f *Folder) makeOne(name string) (*Folder, error) {
	next, err := f.Folder(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return next, err
	}
	if err := unix.Mkdirat(f.fd(), name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, &fs.PathError{Op: "make folder", Path: name, Err: err}
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	return f.Folder(name)
}

// within names the path of an error as seen from the folder at which it began.
func within(top, at *Folder, err error) error {
	e, ok := errors.AsType[*fs.PathError](err)
	rel, rerr := filepath.Rel(top.name, at.name)
	if !ok || rerr != nil {
		return err
	}
	return &fs.PathError{Op: e.Op, Path: path.Join(rel, e.Path), Err: e.Err}
}

// Create makes a file directly in the folder, to be written. One of that name must not exist, not even as a link.
func (f *Folder) Create(name string, perm fs.FileMode) (*os.File, error) {
	if err := entry(name); err != nil {
		return nil, err
	}
	return f.open(name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, uint32(perm.Perm()))
}

// Append opens a regular file directly in the folder to be read and added to, and makes it if it is missing.
func (f *Folder) Append(name string, perm fs.FileMode) (*os.File, error) {
	if err := entry(name); err != nil {
		return nil, err
	}
	file, err := f.open(name, unix.O_CREAT|unix.O_RDWR|unix.O_APPEND|unix.O_NONBLOCK|unix.O_NOCTTY, uint32(perm.Perm()))
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = file.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	return file, nil
}

// Rename gives something directly in the folder another name there, whose place it takes. A link is not followed: it is
// replaced itself.
func (f *Folder) Rename(old, name string) error {
	if err := errors.Join(entry(old), entry(name)); err != nil {
		return err
	}
	if err := unix.Renameat(f.fd(), old, f.fd(), name); err != nil {
		return &os.LinkError{Op: "rename", Old: old, New: name, Err: err}
	}
	return nil
}

// Remove removes a file directly in the folder; one that is gone was removed.
func (f *Folder) Remove(name string) error { return f.remove(name, 0) }

// RemoveFolder removes an empty folder directly in this one; one that is gone was removed.
func (f *Folder) RemoveFolder(name string) error { return f.remove(name, unix.AT_REMOVEDIR) }

func (f *Folder) remove(name string, flags int) error {
	if err := entry(name); err != nil {
		return err
	}
	if err := unix.Unlinkat(f.fd(), name, flags); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

// Sync makes sure that what is in the folder now is in it after a loss of power.
func (f *Folder) Sync() error {
	if err := f.file.Sync(); err != nil {
		return &fs.PathError{Op: "sync", Path: f.name, Err: err}
	}
	return nil
}

// Replace gives a file directly in the folder its content at one instant, and returns when that is durable. temp is where
// the content is written first, in the same folder; whatever a crash left there goes.
func (f *Folder) Replace(name, temp string, content []byte, perm fs.FileMode) error {
	file, err := f.CreateAnew(temp, perm)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = f.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, f.Remove(temp))
	}
	return f.Sync()
}

// CreateAnew is Create after removing what has the name.
func (f *Folder) CreateAnew(name string, perm fs.FileMode) (*os.File, error) {
	file, err := f.Create(name, perm)
	if !errors.Is(err, fs.ErrExist) {
		return file, err
	}
	if err := f.Remove(name); err != nil {
		return nil, err
	}
	return f.Create(name, perm)
}
