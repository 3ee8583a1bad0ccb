package sandbox

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Landlock has no right for the mode, owner, times and attributes of a file: a command could change those of all that its user
// owns. So the whole tree is read-only in the command's mount namespace, but for copies of the mounts of what it may write. They are
// copied before and put back afterwards: a mount that was read-only before stays so, and no flag has to be taken back, which the
// kernel does not let everybody do.

// tree is a copy of the mounts at a path that is mounted nowhere.
type tree struct {
	path string
	fd   int
}

func closeTrees(trees []tree) {
	for _, t := range trees {
		_ = unix.Close(t.fd)
	}
}

// cloneTree copies the mounts at a path, no part of which may be a symbolic link.
func cloneTree(path string) (int, error) {
	at, err := openReal(path, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	return unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
}

// cloneWritable copies the mounts at those of the paths that are there, once where one holds another.
func (t *trailer) cloneWritable(paths []string) (trees []tree, err error) {
	var real []string
	for _, path := range paths {
		if path == "" {
			continue
		}
		if at, ok := t.trail(path); ok {
			if _, err := os.Lstat(at); err == nil {
				real = append(real, at)
			}
		}
	}
	slices.Sort(real) // a folder before what is in it
	var done []string
	for _, path := range real {
		if covered(path, done) {
			continue
		}
		fd, err := cloneTree(path)
		if gone(err) && !slices.Contains(t.strict, path) {
			continue
		}
		if err != nil {
			closeTrees(trees)
			return nil, fmt.Errorf("clone mounts of %s: %w", path, err)
		}
		trees, done = append(trees, tree{path, fd}), append(done, path)
	}
	return trees, nil
}

// attach mounts the tree over its path, no part of which may be a symbolic link.
func (t tree) attach() error {
	at, err := openReal(t.path, 0)
	if err == nil {
		err = unix.MoveMount(t.fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
		_ = unix.Close(at)
	}
	if err != nil {
		return fmt.Errorf("mount %s: %w", t.path, err)
	}
	return nil
}

// stack mounts a layer over its path. In a folder that the task's commands fill there may be nothing yet, or what one of them put there.
func (t tree) stack() error {
	if !isDir(t.path) {
		_ = os.Remove(t.path)
		if os.Mkdir(t.path, 0o755) != nil {
			return nil // nobody looks for a cache where there is no folder for it
		}
	}
	return t.attach()
}

// freeze makes everything read-only that is mounted.
func freeze() error {
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("make everything read-only: %w", err)
	}
	return nil
}
