package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// A cache that builds share is a way out of the sandbox: what a command puts into the module cache is compiled into the person's
// next program, and what it puts into ~/.cache may be sourced by their shell. So a command changes a layer of its task's own, by
// overlayfs: it reads what is in the person's cache and never writes there. Where the kernel has no overlay for this user, the
// command finds an empty folder in place of the cache, which fills as the task goes on.

// mostSlots is how many commands of a task can have layers at the same time. An overlay's upper folder must not be used twice at
// once, so each command takes the first free slot: commands that run one after the other all get the same.
const mostSlots = 64

// slot is a folder for layers that this shim may use. It is locked while a command runs. In between another shim of the task may use
// it; then what the kernel has cached of this shim's overlays is not true any more.
type slot struct {
	dir  string
	file *os.File
	mark string // what the last user wrote into the file
}

// takeSlot locks the first free folder in dir.
func takeSlot(dir string) (*slot, error) {
	for i := range mostSlots {
		s := &slot{dir: filepath.Join(dir, strconv.Itoa(i)), mark: rand.Text()}
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return nil, fmt.Errorf("make folder for caches: %w", err)
		}
		var err error
		if s.file, err = os.OpenFile(filepath.Join(s.dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return nil, fmt.Errorf("open lock of caches: %w", err)
		}
		if err = unix.Flock(int(s.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			_, err = s.file.WriteAt([]byte(s.mark), 0)
		}
		if err == nil {
			return s, nil
		}
		s.close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock caches: %w", err)
		}
	}
	return nil, fmt.Errorf("more than %d commands of a task run at the same time", mostSlots)
}

// free lets others use the slot until it is taken again.
func (s *slot) free() { _ = unix.Flock(int(s.file.Fd()), unix.LOCK_UN) }

// retake locks the slot again, and reports whether nobody used it meanwhile.
func (s *slot) retake() bool {
	if unix.Flock(int(s.file.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	mark := make([]byte, len(s.mark))
	n, _ := s.file.ReadAt(mark, 0)
	return string(mark[:n]) == s.mark
}

func (s *slot) close() { _ = s.file.Close() }

// layers are the folders that a command may fill for its task alone, mounted nowhere yet.
type layers struct {
	trees []tree
}

// hasLayers reports whether a command of the profile changes layers.
func (p Profile) hasLayers() bool {
	return p.Files == WorkspaceWrite && p.Layers != "" && len(p.Cache)+len(p.Blank) > 0
}

// layered are the caches that get a layer: those that are there and that the command may not change anyway.
func (p Profile) layered() []string {
	var out []string
	t := p.trailer()
	for _, path := range p.Cache {
		if _, err := os.Lstat(path); err != nil {
			continue // most are not there, and a lookup is cheaper than a walk
		}
		if real, ok := t.trail(path); ok && isDir(real) && p.apart(real) && !covered(real, out) {
			out = append(out, real)
		}
	}
	return out
}

// blank are the folders that a command finds empty.
func (p Profile) blank() []string {
	var out []string
	t := p.trailer()
	for _, path := range p.Blank {
		if real, ok := t.trail(path); ok && p.apart(real) {
			out = append(out, real)
		}
	}
	return out
}

// apart reports whether a folder has nothing to do with what the command may write.
func (p Profile) apart(path string) bool {
	open := append(slices.Clone(p.Write), p.Workspace, p.Temp)
	return !covered(path, open) && !holds(path, open)
}

// newLayers makes the layers in the folder of a slot. The thread must have a mount namespace of its own, in which nothing is read-only yet:
// the kernel writes to a layer through the mount in which it found it.
func (p Profile) newLayers(slot string) (l layers, err error) {
	if slot == "" {
		return l, nil
	}
	slot = orSame(slot)
	defer func() {
		if err != nil {
			closeTrees(l.trees)
		}
	}()
	blank := p.blank()
	for _, path := range blank {
		if err := l.add(path, filepath.Join(slot, layerName(path), "own")); err != nil {
			return l, err
		}
	}
	for root, paths := range p.overlays(blank) {
		if err := l.overlay(slot, root, paths); err != nil {
			return l, err
		}
	}
	slices.SortFunc(l.trees, func(a, b tree) int { return len(a.path) - len(b.path) }) // outer ones first
	return l, nil
}

// overlays groups the caches by the folder that one overlay serves: siblings share one, for each takes time to mount.
func (p Profile) overlays(blank []string) map[string][]string {
	groups := map[string][]string{}
	for _, path := range p.layered() {
		root := path
		if up := filepath.Dir(path); slices.Contains(blank, up) && !covered(p.Layers, []string{up}) {
			root = up
		}
		groups[root] = append(groups[root], path)
	}
	return groups
}

// overlay adds the caches in root, each as the person has it with the task's changes on top.
func (l *layers) overlay(slot, root string, paths []string) error {
	if len(paths) == 1 && emptyDir(paths[0]) { // an overlay takes a thousand times as long to mount, and shows no more
		return l.add(paths[0], filepath.Join(slot, layerName(paths[0]), "own"))
	}
	own := filepath.Join(slot, layerName(root))
	stage := filepath.Join(own, "stage")
	for _, dir := range []string{filepath.Join(own, "upper"), filepath.Join(own, "work"), stage} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make layer of %s: %w", root, err)
		}
	}
	if err := mountOverlay(stage, root, filepath.Join(own, "upper"), filepath.Join(own, "work")); err != nil {
		for _, path := range paths {
			if err := l.add(path, filepath.Join(slot, layerName(path), "own")); err != nil {
				return err
			}
		}
		return nil
	}
	for _, path := range paths {
		fd, err := cloneTree(filepath.Join(stage, path[len(root):]))
		if err != nil {
			return fmt.Errorf("clone layer of %s: %w", path, err)
		}
		l.trees = append(l.trees, tree{path, fd})
	}
	if err := unix.Unmount(stage, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount layer of %s: %w", root, err)
	}
	return nil
}

// add makes a folder of the task's own stand in for path.
func (l *layers) add(path, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder for %s: %w", path, err)
	}
	fd, err := cloneTree(dir)
	if err != nil {
		return fmt.Errorf("clone folder for %s: %w", path, err)
	}
	l.trees = append(l.trees, tree{path, fd})
	return nil
}

// mountOverlay mounts lower with what is in upper on top. It is volatile: nothing is synced, neither when a file is first changed nor when
// the command ends, because layers do not outlive the boot.
func mountOverlay(target, lower, upper, work string) error {
	// A volatile overlay leaves a mark that keeps it from being mounted again.
	mark := filepath.Join(work, "work", "incompat", "volatile")
	_ = unix.Unlink(filepath.Join(mark, "dirty"))
	_ = unix.Rmdir(mark)
	options := "userxattr,volatile,index=off,xino=off"
	for _, layer := range []struct{ name, path string }{{"lowerdir", lower}, {"upperdir", upper}, {"workdir", work}} {
		fd, err := openReal(layer.path, unix.O_DIRECTORY)
		if err != nil {
			return fmt.Errorf("open %s: %w", layer.path, err)
		}
		defer unix.Close(fd)
		options += "," + layer.name + "=/proc/self/fd/" + strconv.Itoa(fd) // a path may hold what separates options
	}
	if err := unix.Mount("overlay", target, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount overlay of %s: %w", lower, err)
	}
	return nil
}

func emptyDir(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	names, err := f.Readdirnames(1)
	return len(names) == 0 && errors.Is(err, io.EOF)
}

// layerName is the name of a folder's layer in a slot.
func layerName(path string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(path))
	return strconv.FormatUint(h.Sum64(), 16)
}
