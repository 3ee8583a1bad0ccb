package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/beneath"
)

// tempFolders are shared by all users of a machine; a command gets its own in their place.
var tempFolders = []string{"/tmp", "/var/tmp"}

// covers are those of tempFolders that are the command's own. One in which the workspace or something else lies that
// the command needs cannot be: it is sifted, and cannot be written to.
func (p Profile) covers() []string {
	if p.Temp == "" {
		return nil
	}
	return p.ownTemps()
}

// PrivateTemps are the temp folders of the machine in whose place a command has its own: what it writes there, nobody
// else sees. None are where nothing keeps a command out of those that everybody shares.
func (p Profile) PrivateTemps() []string {
	if p.Files == Full || landlockVersion() < landlockRefer {
		return nil
	}
	return p.ownTemps()
}

func (p Profile) ownTemps() []string {
	needed := append(slices.Concat(p.Write, p.See, p.Cache, p.Blank, p.lenders(), programFolders(os.Getenv)), p.Workspace)
	return slices.DeleteFunc(slices.Clone(tempFolders), func(t string) bool {
		info, err := os.Lstat(t)
		return err != nil || !info.IsDir() || holds(t, needed) || slices.Contains(needed, t)
	})
}

// mount gives the calling thread a view of the files of its own, in one go and without layers: mountBase and mountOwn. It returns what
// of hidden is there and could not be covered.
func (p Profile) mount(hidden []string, repos []repository) (bare []string, err error) {
	if err := p.mountBase("", ""); err != nil {
		return nil, err
	}
	return p.mountOwn(hidden, repos)
}

// mountBase gives the calling thread a mount namespace that is read-only but for what the profile lets a command write, with private
// temp folders, without the sockets of others, with what is needed of closed folders, and with layers in the folder of a slot, if
// there is one. It makes the folder place for each command to mount something on; empty: none.
func (p Profile) mountBase(slot, place string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make mount namespace: %w", err)
	}
	// Nothing that is mounted here is seen outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("detach mounts: %w", err)
	}
	l, err := p.newLayers(slot)
	if err != nil {
		return err
	}
	defer closeTrees(l.trees)
	return p.cover(l.trees, place)
}

// cover makes the tree read-only and puts back what may be read and written.
func (p Profile) cover(layers []tree, place string) error {
	writable, err := p.trailer().cloneWritable(p.changeable())
	if err != nil {
		return err
	}
	defer closeTrees(writable)
	if err := freeze(); err != nil {
		return err
	}
	blank := slices.Clone(p.Blank)
	if place != "" {
		blank = append(blank, place)
	}
	if err := p.sift(blank); err != nil {
		return err
	}
	for _, t := range writable {
		if err := t.attach(); err != nil {
			return err
		}
	}
	for _, t := range layers {
		if err := t.stack(); err != nil {
			return err
		}
	}
	for _, t := range p.covers() {
		if err := unix.Mount(p.Temp, t, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("cover %s: %w", t, err)
		}
	}
	return mountTerminals()
}

// mountTerminals gives the calling thread's namespace terminals of its own: those of the person show what they type.
func mountTerminals() error {
	if !isDir("/dev/pts") {
		return nil
	}
	if err := unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return fmt.Errorf("cover /dev/pts: %w", err)
	}
	if info, err := os.Lstat("/dev/ptmx"); err != nil || info.Mode()&os.ModeSymlink != 0 {
		return nil // it leads to the new ones
	}
	if err := unix.Mount("/dev/pts/ptmx", "/dev/ptmx", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cover /dev/ptmx: %w", err)
	}
	return nil
}

// ownShm reports whether the command has shared memory of its own.
func (p Profile) ownShm() bool {
	return isDir("/dev/shm") && !holds("/dev/shm", append(slices.Clone(p.Write), p.Workspace))
}

// mountShm gives the calling thread's namespace shared memory of its own, no more than the command may hold.
func (p Profile) mountShm() error {
	if !p.ownShm() {
		return nil
	}
	options := "mode=1777" // and half of the machine's
	if most := p.Limits.Memory; most > 0 && most < machineTotal()/2 {
		options += fmt.Sprintf(",size=%d,nr_inodes=%d", most, max(1024, most>>12))
	}
	if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("cover /dev/shm: %w", err)
	}
	return nil
}

// mountOwn adds what is one command's own: shared memory, which ends with it, nothing where hidden things are, and sealed what no commit needs of the repositories' .git.
func (p Profile) mountOwn(hidden []string, repos []repository) (bare []string, err error) {
	if err := p.mountShm(); err != nil {
		return nil, err
	}
	if err := p.sealOwn(); err != nil {
		return nil, err
	}
	if bare, err = p.mask(hidden); err != nil {
		return nil, err
	}
	if p.Files != WorkspaceWrite {
		return bare, p.bar()
	}
	return bare, p.protect(repos)
}

// sealOwn makes what the profile seals read-only where the command could change it, before anything in it is
// masked. The folders above are pinned: who can move them away can put others in their place.
func (p Profile) sealOwn() error {
	if p.Files != WorkspaceWrite {
		return nil
	}
	open := append(slices.Clone(p.Write), p.Workspace)
	p.Hooks = slices.Concat(p.Hooks, p.unmade())
	if err := p.makeSteering(); err != nil {
		return err
	}
	pinned := map[string]bool{}
	for _, path := range expand(slices.Concat(p.Seal, p.Hooks, p.Settings)) {
		info, err := os.Lstat(path)
		if err != nil || !covered(path, open) {
			continue
		}
		var above []string
		for up := filepath.Dir(path); covered(up, open) && !slices.Contains(open, up); up = filepath.Dir(up) {
			above = append(above, up)
		}
		slices.Reverse(above)
		for _, up := range above {
			if pinned[up] {
				continue
			}
			if err := pin(up); err != nil {
				return err
			}
			pinned[up] = true
		}
		keep := seal
		if info.Mode()&os.ModeSymlink != 0 {
			keep = pinLink // where it leads is in the list, too
		}
		if err := keep(path); err != nil {
			return err
		}
	}
	return nil
}

// makeSteering makes the folders of hooks and the files of settings that are not there: what is not there cannot be sealed. No link is followed, and where something else is in the way the
// command does not run.
func (p Profile) makeSteering() error {
	top, err := beneath.Open(p.Workspace)
	if err != nil {
		return nil //nolint:nilerr // there is nothing to be sealed
	}
	defer top.Close()
	for _, path := range slices.Concat(p.Hooks, p.Settings) {
		rel := from(top, path)
		if _, err := os.Lstat(path); err == nil || !filepath.IsLocal(rel) {
			continue
		}
		dir, file := rel, ""
		if slices.Contains(p.Settings, path) {
			dir, file = filepath.Split(rel)
		}
		made, err := top.Make(filepath.Clean(dir))
		if err == nil && file != "" {
			var f *os.File
			if f, err = made.Create(file, 0o644); err == nil {
				err = f.Close()
			}
		}
		if made != nil {
			_ = made.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make %s, which git obeys by its settings: %w", path, err)
		}
	}
	return nil
}

// pinLink keeps a link where it is and what it is.
func pinLink(path string) error {
	return overAs("pin", path, unix.O_NOFOLLOW, 0, unix.MountAttr{})
}

// pin keeps a folder where it is.
func pin(path string) error {
	return over("pin", path, unix.AT_RECURSIVE, unix.MountAttr{})
}

// seal makes a file or folder read-only where it is, and keeps it there.
func seal(path string) error {
	return over("seal", path, 0, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// reopen makes a folder that lies in a sealed one writable, and keeps it where it is.
func reopen(path string) error {
	return over("open", path, unix.AT_RECURSIVE, unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
}

// over mounts what is at a path over itself, with other attributes of the outermost mount. No part of the path may be a symbolic link:
// a command of the same task could put one there meanwhile, and have something else opened.
func over(what, path string, flags int, attr unix.MountAttr) error {
	return overAs(what, path, 0, flags, attr)
}

// overAs is over with more flags to open what is there.
func overAs(what, path string, open, flags int, attr unix.MountAttr) error {
	at, err := openReal(path, open)
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, path, err)
	}
	defer unix.Close(at)
	tree, err := unix.OpenTree(at, "", uint(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|flags))
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, path, err)
	}
	defer unix.Close(tree)
	if attr != (unix.MountAttr{}) {
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
			return fmt.Errorf("%s %s: %w", what, path, err)
		}
	}
	if err := unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("%s %s: %w", what, path, err)
	}
	return nil
}

// mask covers what is hidden, so that names cannot be listed nor sockets used either, which Landlock has no
// rule for. What holds something that the command needs stays bare, for Landlock to hide.
func (p Profile) mask(hidden []string) (bare []string, err error) {
	needed := append(slices.Concat(p.Write, p.sockets()), p.Workspace, p.Temp)
	var done []string
	for _, path := range hidden {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&os.ModeSymlink != 0 || covered(path, done) {
			continue // where a link leads is in the list, too
		}
		if slices.Contains(needed, path) {
			continue // a person's wish to have it wins
		}
		if holds(path, needed) {
			bare = append(bare, path)
			continue
		}
		done = append(done, path)
		if info.IsDir() {
			err = unix.Mount("tmpfs", path, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=555,size=4k")
		} else {
			err = unix.Mount(os.DevNull, path, "", unix.MS_BIND, "")
		}
		if err != nil {
			return nil, fmt.Errorf("mask %s: %w", path, err)
		}
	}
	return bare, nil
}
