package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/gitfile"
)

// View is all that a program of the daemon's own sees while it works in a place that others can write to. It is a positive
// list: what is not in it is not there. All paths are absolute and free of symbolic links.
type View struct {
	Read  []string `json:"read,omitempty"`  // folders and files that can be read
	Write []string `json:"write,omitempty"` // … and changed
	// Run are the only files that can be executed. Folders of shared libraries are in every view; nothing in Read or Write is
	// executable, whatever its mode says.
	Run []string `json:"run"`
	// Blank are folders in place of which there is an empty one, whose content nobody sees: what others put there is not followed. Like Files
	// they need mounts.
	Blank []string `json:"blank,omitempty"`
	// Files are contents that stand in for those of files. They hold where mounts can be had: see Launcher.Lacks.
	Files map[string]string `json:"files,omitempty"`
	// Links are symbolic links that have to be there so that other names of the paths above work.
	Links map[string]string `json:"links,omitempty"`
}

// libraries are the folders that the dynamic linker loads from. Programs lie in other folders, which no view has.
var libraries = []string{
	"/lib", "/lib32", "/lib64", "/libx32", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/local/lib", "/usr/local/lib64", "/nix/store", "/gnu/store",
}

// systemFiles are what the C library looks up, and how many processors there are.
var systemFiles = []string{
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime",
	"/usr/share/zoneinfo", "/usr/share/locale", "/sys/devices/system/cpu/online",
}

var viewDevices = []string{"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"}

// part is a piece of the file system that is put into a view.
type part struct {
	path string
	attr uint64 // the restrictions of its mount
	tree int    // its clone, detached

	system bool // it is of the machine's own
}

const (
	partCode = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	partData = partCode | unix.MOUNT_ATTR_NOEXEC
	partOpen = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	partNode = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
)

// parts are what the view is made of, outer folders first. Symbolic links of the system, like /lib, are in links.
func (v View) parts(links map[string]string) (parts []part, err error) {
	seen := map[string]int{}
	add := func(path string, attr uint64, system bool) {
		if text, err := os.Readlink(path); err == nil && system {
			links[path] = text
			path = gitfile.Beside(filepath.Dir(path), text)
		}
		if _, err := os.Lstat(path); err != nil {
			return // what is not there is not seen
		}
		if at, ok := seen[path]; ok {
			parts[at].attr = attr // as the later list has it
			return
		}
		seen[path] = len(parts)
		parts = append(parts, part{path: path, attr: attr, tree: -1, system: system})
	}
	for _, group := range []struct {
		paths  []string
		attr   uint64
		system bool
	}{
		{systemFiles, partData, true}, {libraries, partCode, true}, {viewDevices, partNode, true},
		{v.Read, partData, false}, {v.Run, partCode, false}, {v.Write, partOpen, false},
	} {
		for _, path := range group.paths {
			add(path, group.attr, group.system)
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return strings.Compare(a.path, b.path) })
	parts = needful(parts)
	for i, p := range parts {
		if p.path == "/" {
			closeParts(parts)
			return nil, errors.New("the whole file system cannot be a part of a view")
		}
		tree, err := p.clone()
		if err == nil {
			parts[i].tree = tree
			err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: p.attr})
		}
		if err != nil {
			closeParts(parts)
			return nil, fmt.Errorf("take %s into the view: %w", p.path, err)
		}
	}
	return parts, nil
}

// clone copies the mounts of the part. What is of the system may lie behind a link; the rest was resolved before, and a link there now is
// somebody's who wants another folder taken in.
func (p part) clone() (int, error) {
	if !p.system {
		return cloneTree(p.path)
	}
	return unix.OpenTree(unix.AT_FDCWD, p.path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
}

// needful leaves out what lies in another part that is just as restricted.
func needful(parts []part) (out []part) {
	for _, p := range parts {
		around := -1
		for i, o := range out { // outer folders come first, so that the innermost is found last
			if covered(p.path, []string{o.path}) {
				around = i
			}
		}
		if around < 0 || out[around].attr != p.attr {
			out = append(out, p)
		}
	}
	return out
}

func closeParts(parts []part) {
	for _, p := range parts {
		if p.tree >= 0 {
			_ = unix.Close(p.tree)
		}
	}
}

// mount makes the view the whole file system of the calling thread, which must not be used for anything else.
func (v View) mount() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("detach mounts: %w", err)
	}
	links := map[string]string{}
	for link, text := range v.Links {
		links[link] = text
	}
	parts, err := v.parts(links)
	if err != nil {
		return err
	}
	defer closeParts(parts)
	// Any folder can carry the new root: all that is needed from below it has been cloned.
	const root = "/dev"
	if err := unix.Mount("tmpfs", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755,size=16m"); err != nil {
		return fmt.Errorf("make root of the view: %w", err)
	}
	// A program that is forked meanwhile would for a moment have a file open for writing there, and the root could not be sealed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for _, p := range parts {
		if err := putInto(p.tree, root, p.path); err != nil {
			return fmt.Errorf("put %s into the view: %w", p.path, err)
		}
	}
	if err := standIns(root, v.Files); err != nil {
		return err
	}
	if err := blank(root, v.Blank); err != nil {
		return err
	}
	if err := placeLinks(root, links); err != nil {
		return err
	}
	if err := sealRoot(root); err != nil {
		return fmt.Errorf("seal root of the view: %w", err)
	}
	return enterRoot(root)
}

// sealRoot makes a mount read-only. One that a file is open for writing in is busy; and though all are closed here, a process that the
// runtime forks for a moment, without a lock, to see what the kernel can do has them open until it ends.
func sealRoot(root string) (err error) {
	for range 1000 {
		if err = unix.MountSetattr(unix.AT_FDCWD, root, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); !errors.Is(err, unix.EBUSY) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return err
}

// putInto mounts a detached tree at its path below another root.
func putInto(tree int, root, path string) error {
	at := filepath.Join(root, path)
	if _, err := os.Lstat(at); err == nil { // in a part that is there already
		return unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	return putBack(tree, at)
}

// inView opens what a path will mean when root is the root: a link is followed as the program in the view will follow it. Flags are more of
// those that open takes.
func inView(root, path string, flags uint64) (int, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	return unix.Openat2(dir, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_IN_ROOT})
}

// standIns puts files with other contents in the place of those that are there.
func standIns(root string, files map[string]string) error {
	for i, path := range slices.Sorted(maps.Keys(files)) {
		at, err := inView(root, path, 0)
		if errors.Is(err, unix.ENOENT) {
			continue // nothing is there that would be read
		}
		if err == nil {
			err = standIn(at, filepath.Join(root, fmt.Sprintf(".stand-in-%d", i)), files[path])
			_ = unix.Close(at)
		}
		if err != nil {
			return fmt.Errorf("stand in for %s: %w", path, err)
		}
	}
	return nil
}

// standIn makes a file and mounts it, read-only, over an open one.
func standIn(at int, own, content string) error {
	if err := os.WriteFile(own, []byte(content), 0o444); err != nil {
		return err
	}
	tree, err := cloneTree(own)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// blank puts empty folders in the place of those that are there, and makes those that are not, so that nobody else can meanwhile.
func blank(root string, paths []string) error {
	for _, path := range paths {
		at, err := inView(root, path, unix.O_DIRECTORY)
		if errors.Is(err, unix.ENOENT) {
			at, err = makeInView(root, path)
		}
		if errors.Is(err, unix.ENOTDIR) {
			continue // a file is in the way: nothing can be there
		}
		if err == nil {
			err = unix.Mount("tmpfs", fmt.Sprintf("/proc/self/fd/%d", at), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755,size=16m")
			_ = unix.Close(at)
		}
		if err != nil {
			return fmt.Errorf("cover %s: %w", path, err)
		}
	}
	return nil
}

// makeInView makes a folder in the view, and opens it. No link is followed for that.
func makeInView(root, path string) (int, error) {
	top, err := beneath.Open(root)
	if err != nil {
		return -1, err
	}
	defer top.Close()
	made, err := top.Make(strings.TrimPrefix(path, "/"))
	if err != nil {
		return -1, err
	}
	_ = made.Close()
	return inView(root, path, unix.O_DIRECTORY)
}

// placeLinks makes the links that lie outside of all parts; the others are in them.
func placeLinks(root string, links map[string]string) error {
	for _, link := range slices.Backward(slices.Sorted(maps.Keys(links))) { // one that another leads to first
		text, at := links[link], filepath.Join(root, link)
		if _, err := os.Lstat(at); err == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return fmt.Errorf("link %s in the view: %w", link, err)
		}
		if err := os.Symlink(text, at); err != nil {
			return fmt.Errorf("link %s in the view: %w", link, err)
		}
	}
	return nil
}

// enterRoot makes a mounted folder the root of the calling thread, and lets go of the old one.
func enterRoot(root string) error {
	if err := unix.Chdir(root); err != nil {
		return fmt.Errorf("enter the view: %w", err)
	}
	// The old root comes to lie over the new one, and goes from there.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("enter the view: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	return unix.Chdir("/")
}

// rules are what Landlock leaves of the view, whether mounts could be had or not.
func (v View) rules(version int) (*ruleset, error) {
	r, err := newRuleset(version)
	if err != nil {
		return nil, err
	}
	const read = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	for _, path := range slices.Concat(libraries, systemFiles) {
		r.allowSystem(path, read)
	}
	for _, path := range slices.Concat(v.Read, v.Write, v.Run) {
		r.allow(path, read)
	}
	for _, path := range v.Write {
		r.allow(path, read|rightsWrite)
	}
	for _, path := range v.Run {
		r.allow(path, read|unix.LANDLOCK_ACCESS_FS_EXECUTE)
	}
	for _, path := range viewDevices {
		r.allowSystem(path, rightsDevice)
	}
	return r, nil
}

// confine leaves the calling thread, and all that it starts, with the view and no network. Without mounts other files can be seen by
// name, though not read, and Files have no effect. An error means that the thread must not be used.
func (v View) confine(is *island, mounts bool) (missing []error, err error) {
	if mounts {
		if err := v.mount(); err != nil {
			return nil, err
		}
	}
	if is != nil {
		if err := is.enter(); err != nil {
			missing = append(missing, err)
		}
	}
	var rules *ruleset
	if version := landlockVersion(); version < landlockRefer {
		missing = append(missing, errors.New("the kernel has no Landlock, or one that is too old"))
	} else if rules, err = v.rules(version); err != nil {
		return nil, err
	} else {
		defer rules.close()
	}
	if err := dropCapabilities(); err != nil {
		return nil, err
	}
	if err := giveUpPrivileges(); err != nil {
		return nil, err
	}
	if auditArch == 0 {
		missing = append(missing, fmt.Errorf("no filter of system calls is known for %s", runtime.GOARCH))
	} else if err := systemCalls(NetworkOff, closed{network: true, unix: true, memory: true}).enforce(); err != nil {
		missing = append(missing, err)
	}
	if rules != nil {
		err = rules.enforce()
	}
	return missing, err
}
