package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// meetingPlaces are where programs of a machine leave sockets for each other. Landlock has no rule for who may
// connect to one that has a path, so a command does not see them.
var meetingPlaces = []string{"/run", "/var/run"}

// ordinary is what programs look for in meetingPlaces and that nobody acts through: the addresses of name servers,
// the programs of NixOS, and the sign of systemd or of a container.
var ordinary = []string{"/etc/resolv.conf", "/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/systemd/system", "/run/.containerenv"}

// sifted are the folders of which a command sees only what it needs: meetingPlaces, closed folders, and temp folders that cannot be
// replaced by its own. One that a person, or the workspace, asks for as a whole stays.
func (p Profile) sifted() []string {
	whole, replaced := slices.Clone(p.Write), p.covers()
	if p.Workspace != "" {
		whole = append(whole, p.Workspace)
	}
	dirs := slices.DeleteFunc(slices.Concat(tempFolders, meetingPlaces), func(dir string) bool {
		info, err := os.Lstat(dir)
		return err != nil || !info.IsDir() || slices.Contains(replaced, dir) || covered(dir, whole)
	})
	for _, dir := range p.closed() {
		if !covered(dir, dirs) && !covered(dir, replaced) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// needed is what a command must be able to see, wherever it lies.
func (p Profile) needed() []string {
	around := enclosing(p.Workspace)
	paths := slices.Concat([]string{p.Workspace, p.Temp, around}, p.Write, p.sockets(), p.See, p.Cache, programFolders(os.Getenv), ordinary, readableEtc())
	if own, common := p.worktree(); own != "" {
		paths = append(paths, own, common)
	}
	if around != "" {
		if own, common := gitWorktree(around); own != "" {
			paths = append(paths, own, common)
		}
	}
	paths = append(paths, p.lenders()...)
	return slices.DeleteFunc(paths, func(path string) bool { return !filepath.IsAbs(path) })
}

// sift covers each of the folders that are sifted, and what appears in it later, with one that holds nothing but what is needed, and the folders of
// blank, to mount something on.
func (p Profile) sift(blank []string) error {
	dirs := p.sifted()
	if len(dirs) == 0 {
		return nil
	}
	t := p.trailer(dirs...)
	var kept, empty []string
	for _, path := range p.needed() {
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if real, ok := t.trail(path); ok {
			kept = append(kept, real)
		}
	}
	for _, path := range blank {
		if real, ok := t.trail(path); ok {
			empty = append(empty, real)
		}
	}
	slices.Sort(kept) // a folder before what is in it
	for _, dir := range dirs {
		if err := siftOne(dir, kept, empty, t.links); err != nil {
			return fmt.Errorf("cover %s: %w", dir, err)
		}
	}
	return nil
}

func siftOne(dir string, kept, empty []string, links map[string]string) error {
	var back []string
	trees := map[string]int{}
	defer func() {
		for _, fd := range trees {
			_ = unix.Close(fd)
		}
	}()
	for _, path := range kept {
		if path == dir || !covered(path, []string{dir}) || covered(path, back) {
			continue
		}
		fd, err := cloneTree(path)
		if gone(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("keep %s: %w", path, err)
		}
		trees[path], back = fd, append(back, path)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755,size=1m"); err != nil {
		return err
	}
	for _, path := range back {
		if err := putBack(trees[path], path); err != nil {
			return fmt.Errorf("keep %s: %w", path, err)
		}
	}
	for link, text := range links {
		if !covered(link, []string{dir}) || covered(link, back) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(text, link); err != nil && !os.IsExist(err) {
			return err
		}
	}
	for _, path := range empty {
		if covered(path, []string{dir}) && !covered(path, back) {
			if err := os.MkdirAll(path, 0o755); err != nil {
				return err
			}
		}
	}
	return unix.MountSetattr(unix.AT_FDCWD, dir, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// putBack mounts a tree, or a single file, where it was.
func putBack(tree int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(tree, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
	} else {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := create(filepath.Dir(path), filepath.Base(path)); err != nil {
			return err
		}
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
}
