package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
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
	needed := append(slices.Concat(p.Write, p.See, gitLenders(p.Workspace), filepath.SplitList(os.Getenv("PATH"))), p.Workspace)
	return slices.DeleteFunc(slices.Clone(tempFolders), func(t string) bool {
		info, err := os.Lstat(t)
		return err != nil || !info.IsDir() || holds(t, needed) || slices.Contains(needed, t)
	})
}

// mount gives the calling thread a view of the files of its own: private temp folders, nobody's sockets, nothing where hidden
// things are, and of the repositories' .git what no commit needs sealed. It returns what of hidden is
// there and could not be covered.
func (p Profile) mount(hidden []string, repos []repository) (bare []string, err error) {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("make mount namespace: %w", err)
	}
	// Nothing that is mounted here is seen outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return nil, fmt.Errorf("detach mounts: %w", err)
	}
	if err := sift(p.sifted(), p.needed()); err != nil {
		return nil, err
	}
	for _, t := range p.covers() {
		if err := unix.Mount(p.Temp, t, "", unix.MS_BIND, ""); err != nil {
			return nil, fmt.Errorf("cover %s: %w", t, err)
		}
	}
	if info, err := os.Lstat("/dev/shm"); err == nil && info.IsDir() && !holds("/dev/shm", append(slices.Clone(p.Write), p.Workspace)) {
		if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
			return nil, fmt.Errorf("cover /dev/shm: %w", err)
		}
	}
	if err := p.sealOwn(); err != nil {
		return nil, err
	}
	if bare, err = p.mask(hidden); err != nil {
		return nil, err
	}
	if p.Files != WorkspaceWrite {
		return bare, nil
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
	for _, path := range expand(p.Seal) {
		if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink != 0 || !covered(path, open) {
			continue // where a link leads is in the list, too
		}
		var above []string
		for up := filepath.Dir(path); covered(up, open) && !slices.Contains(open, up); up = filepath.Dir(up) {
			above = append(above, up)
		}
		slices.Reverse(above)
		for _, up := range above {
			if err := pin(up); err != nil {
				return err
			}
		}
		if err := seal(path); err != nil {
			return err
		}
	}
	return nil
}

// pin keeps a folder where it is.
func pin(path string) error {
	if err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("pin %s: %w", path, err)
	}
	return nil
}

// seal makes a file or folder read-only where it is, and keeps it there.
func seal(path string) error {
	if err := unix.Mount(path, path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("seal %s: %w", path, err)
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("seal %s: %w", path, err)
	}
	return nil
}

// reopen makes a folder that lies in a sealed one writable, and keeps it where it is.
func reopen(path string) error {
	if err := pin(path); err != nil {
		return err
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	return nil
}

// mask covers what is hidden, so that names cannot be listed nor sockets used either, which Landlock has no
// rule for. What holds something that the command needs stays bare, for Landlock to hide.
func (p Profile) mask(hidden []string) (bare []string, err error) {
	needed := append(slices.Clone(p.Write), p.Workspace, p.Temp)
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
