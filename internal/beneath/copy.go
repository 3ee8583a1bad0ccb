package beneath

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Readlink is where a symbolic link directly in the folder leads, as it says itself.
func (f *Folder) Readlink(name string) (string, error) {
	if err := entry(name); err != nil {
		return "", err
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(f.fd(), name, buf)
	if err != nil {
		return "", &fs.PathError{Op: "read link", Path: name, Err: err}
	}
	return string(buf[:n]), nil
}

// Symlink makes a symbolic link directly in the folder.
func (f *Folder) Symlink(target, name string) error {
	if err := entry(name); err != nil {
		return err
	}
	if err := unix.Symlinkat(target, f.fd(), name); err != nil {
		return &os.LinkError{Op: "link", Old: target, New: name, Err: err}
	}
	return nil
}

// Copy copies something directly in the folder, with all that is in it, to a name in another folder that is not taken
// there. Links are copied as links; what is neither a file, a folder nor a link is left out.
func (f *Folder) Copy(name string, to *Folder, as string) error {
	info, err := f.Lstat(name)
	if err != nil {
		return err
	}
	switch {
	case info.Mode().IsRegular():
		return f.copyFile(name, to, as)
	case info.IsDir():
		return f.copyFolder(name, to, as)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := f.Readlink(name)
		if err != nil {
			return err
		}
		return to.Symlink(target, as)
	}
	return nil
}

func (f *Folder) copyFile(name string, to *Folder, as string) error {
	in, info, err := f.File(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := to.Create(as, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, info.Size())) // it may grow without end
	return errors.Join(err, out.Close())
}

func (f *Folder) copyFolder(name string, to *Folder, as string) error {
	from, err := f.Folder(name)
	if err != nil {
		return err
	}
	defer from.Close()
	all, err := from.ReadDir(".")
	if err != nil {
		return err
	}
	into, err := to.makeOne(as)
	if err != nil {
		return err
	}
	defer into.Close()
	for _, e := range all {
		if err := from.Copy(e.Name(), into, e.Name()); err != nil {
			return within(f, from, err)
		}
	}
	return nil
}

// RemoveAll removes something directly in the folder, with all that is in it; what is gone was removed.
func (f *Folder) RemoveAll(name string) error {
	err := f.Remove(name)
	if !errors.Is(err, unix.EISDIR) {
		return err
	}
	dir, err := f.Unlocked(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	_ = dir.Unlock() // if it cannot be changed, what is in it cannot be removed
	all, err := dir.ReadDir(".")
	if err != nil {
		return err
	}
	for _, e := range all {
		if err := dir.RemoveAll(e.Name()); err != nil {
			return within(f, dir, err)
		}
	}
	return f.RemoveFolder(name)
}
