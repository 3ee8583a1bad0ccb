package beneath

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ReadDir lists what is in a folder below, sorted by name. What could be read before an error is returned with it.
func (f *Folder) ReadDir(name string) ([]fs.DirEntry, error) {
	dir, err := f.open(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	all, err := dir.ReadDir(-1)
	for i, d := range all {
		all[i] = listed{d, f, path.Join(name, d.Name())}
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	if err != nil {
		err = &fs.PathError{Op: "list", Path: name, Err: errors.Unwrap(err)}
	}
	return all, err
}

// listed is an entry that is looked at again from the folder it was listed by.
type listed struct {
	fs.DirEntry
	in   *Folder
	path string
}

// Info is what the entry is now.
func (l listed) Info() (fs.FileInfo, error) { return l.in.Lstat(l.path) }

// Walk visits what is below a name, and it itself, in lexical order, as fs.WalkDir does. Links are visited, not followed,
// and a folder that became one meanwhile is visited with ErrLink.
func (f *Folder) Walk(name string, visit fs.WalkDirFunc) error {
	return fs.WalkDir(tree{f}, name, visit)
}

// tree is the folder as package io/fs sees it.
type tree struct{ f *Folder }

func (t tree) Open(name string) (fs.File, error) {
	file, _, err := t.f.File(name)
	if err != nil {
		return nil, err // not a file that is nil
	}
	return file, nil
}

func (t tree) Stat(name string) (fs.FileInfo, error)      { return t.f.Lstat(name) }
func (t tree) ReadDir(name string) ([]fs.DirEntry, error) { return t.f.ReadDir(name) }

// Same reports whether two are the same folder, whatever their names.
func (f *Folder) Same(other *Folder) bool {
	one, err := f.file.Stat()
	two, err2 := other.file.Stat()
	return err == nil && err2 == nil && os.SameFile(one, two)
}

// maxClimb is deeper than a path can name.
const maxClimb = 4096

// Climb visits the folder, what it lies in, and so on up to top: by what they are, whatever their names say. It fails if
// the folder is not below top any more.
func (f *Folder) Climb(top *Folder, visit func(*Folder) error) error {
	at := f
	defer func() {
		if at != f {
			_ = at.Close()
		}
	}()
	for range maxClimb {
		if err := visit(at); err != nil {
			return err
		}
		if at.Same(top) {
			return nil
		}
		fd, err := retry(func() (int, error) { return unix.Openat(at.fd(), "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
		if err != nil {
			return &fs.PathError{Op: "open", Path: path.Dir(at.name), Err: err}
		}
		up := &Folder{file: folderOf(fd), name: path.Dir(at.name)}
		if up.Same(at) {
			_ = up.Close()
			break // the root of the file system
		}
		if at != f {
			_ = at.Close()
		}
		at = up
	}
	return &fs.PathError{Op: "open", Path: f.name, Err: errors.New("is not in " + top.name + " any more")}
}
