package worktree

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"

	"taskdaemon/internal/beneath"
)

// copyTree copies a file or a folder of the repository into a worktree of it. What is not there is not copied, and what is
// there already is left as it is. A repository can hold symbolic links: none is followed, on the way to what is copied or
// to where it goes. What is a link itself stays one, to the same place, so that nothing beyond it comes into the worktree.
func copyTree(repo, worktree, name string) error {
	from, err := openParent(repo, name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	base := path.Base(name)
	info, err := from.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	to, err := openParent(worktree, name, true)
	if err != nil {
		return err
	}
	defer to.Close()
	if _, err := to.Lstat(base); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := from.Readlink(base)
		if err != nil {
			return err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(from.Name(), target)
		}
		return to.Symlink(target, base)
	}
	draft := base + ".taskdaemon-copy"
	if err := to.RemoveAll(draft); err != nil { // left by a crash
		return err
	}
	err = from.Copy(base, to, draft)
	if err == nil {
		err = to.Rename(draft, base)
	}
	if err != nil {
		return errors.Join(err, to.RemoveAll(draft))
	}
	return nil
}

// openParent opens the folder that a path below dir is in, and makes it if that is wanted.
func openParent(dir, name string, create bool) (*beneath.Folder, error) {
	root, err := beneath.Open(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if create {
		return root.Make(path.Dir(name))
	}
	return root.Folder(path.Dir(name))
}
