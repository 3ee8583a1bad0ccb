package beneath

import (
	"crypto/rand"
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

// RemoveAll removes something directly in the folder, with all that is in it; what is gone was removed. Folders may be deeper than there are descriptors: those that are too deep
// are moved up first, under names that nobody can know.
func (f *Folder) RemoveAll(name string) error {
	if err := f.Remove(name); !errors.Is(err, unix.EISDIR) {
		return err
	}
	for todo := []string{name}; len(todo) > 0; todo = todo[1:] {
		deep, err := f.removeBelow(f, todo[0], 0)
		if err != nil {
			return err
		}
		todo = append(todo, deep...)
	}
	return nil
}

// mostHeld is how many folders are held open at a time, one in the other.
const mostHeld = 64

// removeBelow removes a folder. It returns the names in top under which it put those that are too deep.
func (f *Folder) removeBelow(top *Folder, name string, depth int) (deep []string, err error) {
	dir, err := f.Unlocked(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	_ = dir.Unlock() // if it cannot be changed, what is in it cannot be removed
	if depth == mostHeld {
		up := "removed-" + rand.Text()
		if err := unix.Renameat2(f.fd(), name, top.fd(), up, unix.RENAME_NOREPLACE); err != nil {
			return nil, &fs.PathError{Op: "move", Path: name, Err: err}
		}
		return []string{up}, nil
	}
	all, err := dir.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		err := dir.Remove(e.Name())
		if errors.Is(err, unix.EISDIR) {
			var more []string
			more, err = dir.removeBelow(top, e.Name(), depth+1)
			deep = append(deep, more...)
		}
		if err != nil {
			return deep, within(f, dir, err)
		}
	}
	return deep, f.RemoveFolder(name)
}
