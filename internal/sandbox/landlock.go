package sandbox

import (
	"cmp"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The rights of Landlock, in the groups that are granted together.
const (
	rightsRead  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_EXECUTE
	rightsWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	// In what git keeps nothing needs links, pipes and sockets: a git outside of the sandbox follows the ones and waits for the others.
	rightsWriteGit = rightsWrite &^ (unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM)

	rightsDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// What a file, in contrast to a folder, can be given.
	rightsOfFile = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	rightsAll = rightsRead | rightsWrite | rightsDevice | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
)

// The versions of Landlock that bring what is used here.
const (
	landlockRefer  = 2 // files may be moved between folders: nothing can be built without
	landlockDevice = 5
	landlockScope  = 6 // signals and abstract sockets end at the sandbox
)

// landlockVersion is what the kernel offers; zero: nothing.
func landlockVersion() int {
	v, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// ruleset collects what a thread will be left with. The system calls are made here and not by a library,
// because all that there are restrict every thread of the process, and the shim must stay free.
type ruleset struct {
	fd      int
	handled uint64
	scoped  bool // signals end at the sandbox
}

func newRuleset(version int) (*ruleset, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: rightsAll}
	if version < 3 {
		attr.Handled_access_fs &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version < landlockDevice {
		attr.Handled_access_fs &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= landlockScope {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	const size = unsafe.Offsetof(attr.Quiet_access_fs) // what came later is not used, and not known everywhere
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return nil, fmt.Errorf("make Landlock rules: %w", errno)
	}
	return &ruleset{fd: int(fd), handled: attr.Handled_access_fs, scoped: attr.Scoped&unix.LANDLOCK_SCOPE_SIGNAL != 0}, nil
}

func (r *ruleset) close() { _ = unix.Close(r.fd) }

// allow grants rights on a path and all below it. What is not there, or lies behind a symbolic link, gets no rule; one that the kernel does
// not take grants nothing.
func (r *ruleset) allow(path string, rights uint64) {
	if fd, err := openReal(path, 0); err == nil {
		r.grant(fd, rights)
		_ = unix.Close(fd)
	}
}

// allowSystem is allow for a name of the system's own, such as /lib, which may be a link.
func (r *ruleset) allowSystem(path string, rights uint64) {
	if fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
		r.grant(fd, rights)
		_ = unix.Close(fd)
	}
}

func (r *ruleset) grant(fd int, rights uint64) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= rightsOfFile
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights & r.handled, Parent_fd: int32(fd)}
	_, _, _ = unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
}

// enforce restricts the calling thread and all that it will start.
func (r *ruleset) enforce() error {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.fd), 0, 0); errno != 0 {
		return fmt.Errorf("enforce Landlock rules: %w", errno)
	}
	return nil
}

// devices are what a command finds in /dev. Disks, memory and the like are left out, for root's sake.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// terminals are what it finds there besides where mounts give it terminals of its own.
var terminals = []string{"/dev/tty", "/dev/ptmx", "/dev/pts"}

// fileRules are the rules of a profile in the mount namespace of the caller. hidden is what no mount covers;
// with mounted set, mounts cover the rest.
func (p Profile) fileRules(version int, hidden []string, mounted bool) (*ruleset, error) {
	r, err := newRuleset(version)
	if err != nil {
		return nil, err
	}
	// Names may be listed everywhere: programs that cannot find out where they are do not work.
	r.allow("/", unix.LANDLOCK_ACCESS_FS_READ_DIR)
	barred, t := append(slices.Clone(hidden), "/dev"), p.trailer()
	if !mounted {
		closed := p.closed()
		barred = append(barred, closed...)
		for _, path := range p.needed() {
			if real, ok := t.trail(path); ok && covered(real, closed) && !slices.Contains(closed, real) {
				r.allowBut(real, hidden, rightsRead)
			}
		}
	}
	for _, path := range without("/", barred) {
		r.allow(path, rightsRead)
	}
	if covered(p.Workspace, hidden) {
		r.allow(p.Workspace, rightsRead) // a checkout in taskdaemon's own folder
	}
	for _, path := range devices {
		r.allowSystem(path, rightsDevice)
	}
	if mounted {
		for _, path := range terminals {
			r.allowSystem(path, rightsDevice)
		}
	}
	git := p.gitWritable()
	for _, path := range p.writable(mounted) {
		rights := uint64(rightsRead | rightsWrite)
		if slices.Contains(git, path) {
			rights = rightsRead | rightsWriteGit
		}
		if real, ok := t.trail(path); ok {
			r.allowBut(real, hidden, rights)
		}
	}
	return r, nil
}

// allowBut grants rights on a path but for what is hidden below it.
func (r *ruleset) allowBut(path string, hidden []string, rights uint64) {
	if !holds(path, hidden) {
		r.allow(path, rights)
		return
	}
	for _, child := range without(path, hidden) {
		r.allow(child, rights)
	}
}

// writable is what a command may change in its mount namespace.
func (p Profile) writable(mounted bool) []string {
	paths := p.changeable()
	if mounted {
		paths = append(append(paths, "/dev/shm"), p.covers()...)
		if p.Files == WorkspaceWrite && p.Layers != "" {
			paths = slices.Concat(paths, p.Cache, p.Blank) // those without a layer are read-only by their mounts
		}
	}
	return paths
}

// changeable is what a command may change of what is there for everybody.
func (p Profile) changeable() []string {
	paths := []string{p.Temp}
	if p.Files == WorkspaceWrite {
		paths = append(append(paths, p.Workspace), p.Write...)
		paths = append(paths, p.gitWritable()...)
	}
	return paths
}

// without covers the whole tree below root but what is hidden. Landlock cannot take away below what it
// grants, so each folder that holds something hidden is granted child by child.
func without(root string, hidden []string) []string {
	skip, descend := map[string]bool{}, map[string]bool{}
	for _, h := range hidden {
		skip[h] = true
		for up := filepath.Dir(h); !descend[up]; up = filepath.Dir(up) {
			descend[up] = true
		}
	}
	var granted []string
	var visit func(dir string)
	visit = func(dir string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			switch {
			case e.Type()&os.ModeSymlink != 0, skip[path]: // where a link leads is granted there, or not
			case e.IsDir() && descend[path]:
				visit(path)
			default:
				granted = append(granted, path)
			}
		}
	}
	visit(root)
	return granted
}

// expand resolves globs and links: rules are about files, not about names.
func expand(patterns []string) (out []string) {
	for path, real := range resolve(patterns) {
		if out = append(out, path); real != "" && real != path {
			out = append(out, real)
		}
	}
	return out
}

// present is expand of what is there.
func present(patterns []string) (out []string) {
	for path, real := range resolve(patterns) {
		if real == "" {
			continue
		}
		if out = append(out, path); real != path {
			out = append(out, real)
		}
	}
	return out
}

// resolve goes through what patterns mean, with where each path leads; empty: it is not there.
func resolve(patterns []string) iter.Seq2[string, string] {
	return func(yield func(path, real string) bool) {
		for _, pattern := range patterns {
			paths := []string{pattern}
			if strings.ContainsAny(pattern, "*?[") {
				paths, _ = filepath.Glob(pattern)
			}
			for _, path := range paths {
				var st unix.Stat_t
				real := ""
				if path = filepath.Clean(path); unix.Lstat(path, &st) == nil { // most are not there, and a lookup is cheaper than a walk
					real = cmp.Or(resolved(path), path)
				}
				if !yield(path, real) {
					return
				}
			}
		}
	}
}

// covered reports whether path is one of these or below one.
func covered(path string, by []string) bool {
	return slices.ContainsFunc(by, func(b string) bool { return path == b || inside(path, b) })
}

// holds reports whether one of these lies below path.
func holds(path string, any []string) bool {
	return slices.ContainsFunc(any, func(a string) bool { return a != path && inside(a, path) })
}

// inside reports whether a path begins with that of a folder.
func inside(path, dir string) bool {
	dir = strings.TrimSuffix(dir, "/")
	return len(path) > len(dir) && path[len(dir)] == '/' && path[:len(dir)] == dir
}
