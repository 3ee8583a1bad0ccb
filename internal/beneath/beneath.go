// Package beneath opens files below a folder without following a single symbolic link.
//
// A path that somebody else can change is used in two halves. The caller resolves it, links and all, and judges what it
// found. This package then opens what was judged: from the descriptor of a folder that is held open, by a path no part
// of which may be a symbolic link. A link put there in between is ErrLink, never another file. os.Root does not do
// that: it follows links as long as they stay below the root, and .git/hooks does.
//
// What is guaranteed: whatever is read, made, replaced or removed lay below the folder at the instant it was opened, and no
// link was on the way. Writers hold the parent folder and name only what is directly in it, so that nothing can come
// between. What is not: a folder may be moved elsewhere, as a folder, while it is held (Climb tells where it is now), and
// a file may be a hard link. Nothing here writes into a file that exists; it is replaced by a new one, so that the other
// names of a hard link keep their content.
//
// The kernel does it in one call (openat2, Linux 5.6). Where it cannot, each part of the path is opened on its own.
package beneath

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// What a path may turn out to be that is not opened. They come within an fs.PathError that names the part of the path.
var (
	ErrLink       = errors.New("is a symbolic link")
	ErrNotRegular = errors.New("is not a regular file")
	ErrTooLarge   = errors.New("is too large")
)

// Folder is a folder that is held open. It may be used by many goroutines.
type Folder struct {
	file *os.File
	name string
}

// Open opens a folder by its absolute path, no part of which may be a symbolic link.
func Open(dir string) (*Folder, error) {
	if !filepath.IsAbs(dir) {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: errors.New("is not an absolute path")}
	}
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: "/", Err: err}
	}
	top := &Folder{file: os.NewFile(uintptr(fd), "/"), name: "/"}
	defer top.Close()
	rel := strings.TrimLeft(filepath.Clean(dir), "/")
	return top.Folder(orDot(rel))
}

// OpenResolved opens a folder after following the symbolic links of its path: for folders whose path is the person's
// own, or was resolved just now.
func OpenResolved(dir string) (*Folder, error) {
	real, err := filepath.Abs(dir)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return nil, err
	}
	return Open(real)
}

// Close lets go of the folder.
func (f *Folder) Close() error { return f.file.Close() }

// Name is the path by which the folder was opened.
func (f *Folder) Name() string { return f.name }

// Fd is the descriptor of the folder, as long as it is open.
func (f *Folder) Fd() uintptr { return f.file.Fd() }

// Folder opens a folder below, or the same one again.
func (f *Folder) Folder(name string) (*Folder, error) {
	file, err := f.open(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	return &Folder{file: file, name: filepath.Join(f.name, name)}, nil
}

// Unlocked is Folder for one that its owner may not list or search any more, or any folder on the way: each is given its owner's rights back.
func (f *Folder) Unlocked(name string) (*Folder, error) {
	found, err := f.Folder(name)
	if err == nil && !found.may(unix.X_OK) { // it can be listed, and nothing in it opened
		_ = found.Close()
		err = fs.ErrPermission
	}
	if !errors.Is(err, fs.ErrPermission) {
		return found, err
	}
	name, err = local(name)
	if err != nil {
		return nil, err
	}
	at, err := f.open(".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	step := &Folder{file: at, name: f.name}
	for part := range strings.SplitSeq(name, "/") {
		next, err := step.unlock(part)
		_ = step.Close()
		if err != nil {
			return nil, err
		}
		step = next
	}
	defer step.Close()
	if found, err = step.Folder("."); err != nil {
		return nil, err
	}
	found.name = filepath.Join(f.name, name)
	return found, nil
}

// unlock opens a folder directly in this one to be passed through, after giving its owner the rights to.
func (f *Folder) unlock(name string) (*Folder, error) {
	file, err := f.open(name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	next := &Folder{file: file, name: filepath.Join(f.name, name)}
	if err := next.Unlock(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return next, nil
}

// Unlock gives the owner of the folder the rights to list, change and search it.
func (f *Folder) Unlock() error {
	var st unix.Stat_t
	err := unix.Fstat(f.fd(), &st)
	if err == nil && st.Mode&0o700 != 0o700 {
		// The folder itself, by its descriptor, whatever has its name by now.
		err = unix.Fchmodat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(f.fd()), st.Mode&0o7777|0o700, 0)
	}
	if err != nil {
		return &fs.PathError{Op: "unlock", Path: f.name, Err: err}
	}
	return nil
}

// may reports whether this process has a right to the folder.
func (f *Folder) may(right uint32) bool {
	return !errors.Is(unix.Faccessat(f.fd(), ".", right, unix.AT_EACCESS), fs.ErrPermission)
}

// File opens a regular file to be read. Others are ErrNotRegular: a pipe or a device is not waited for.
func (f *Folder) File(name string) (*os.File, fs.FileInfo, error) {
	file, err := f.open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// Read is the content of a regular file; one with more bytes than limit is ErrTooLarge, also if it grows while it is read.
func (f *Folder) Read(name string, limit int64) ([]byte, fs.FileInfo, error) {
	raw, info, more, err := f.Head(name, limit)
	if err == nil && more {
		err = &fs.PathError{Op: "read", Path: name, Err: ErrTooLarge}
	}
	return raw, info, err
}

// Head is the beginning of a regular file, at most limit bytes, and whether there is more.
func (f *Folder) Head(name string, limit int64) (raw []byte, info fs.FileInfo, more bool, err error) {
	file, info, err := f.File(name)
	if err != nil {
		return nil, nil, false, err
	}
	defer file.Close()
	raw, err = io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, info, false, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	if more = int64(len(raw)) > limit; more {
		raw = raw[:limit]
	}
	return raw, info, more, nil
}

// Lstat says what a name is. A symbolic link at the end of it is told of, one on the way is ErrLink.
func (f *Folder) Lstat(name string) (fs.FileInfo, error) {
	file, err := f.open(name, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return info, nil
}

// withoutOpenat2 makes tests go the way of old kernels.
var withoutOpenat2 atomic.Bool

// open opens what a path leads to without following a symbolic link. O_PATH alone may open one: the last part itself.
func (f *Folder) open(name string, flags int, perm uint32) (*os.File, error) {
	name, err := local(name)
	if err != nil {
		return nil, err
	}
	flags |= unix.O_CLOEXEC | unix.O_NOFOLLOW
	fd, err := f.openat2(name, flags, perm)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // an old kernel, or an old filter of system calls
		fd, err = f.walk(name, flags, perm)
	}
	if err != nil {
		return nil, f.explain(name, err)
	}
	if flags&unix.O_DIRECTORY != 0 {
		return folderOf(fd), nil
	}
	return os.NewFile(uintptr(fd), filepath.Join(f.name, name)), nil
}

// folderOf names a folder by its descriptor: what package os looks up by the name of a folder, it looks up in this one.
func folderOf(fd int) *os.File { return os.NewFile(uintptr(fd), "/proc/self/fd/"+strconv.Itoa(fd)) }

func (f *Folder) openat2(name string, flags int, perm uint32) (int, error) {
	if withoutOpenat2.Load() {
		return -1, unix.ENOSYS
	}
	how := &unix.OpenHow{
		Flags: uint64(flags), Mode: uint64(perm),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	return retry(func() (int, error) { return unix.Openat2(f.fd(), name, how) })
}

// walk is openat2 for kernels without it: each part is opened on its own, from the descriptor of the one before.
func (f *Folder) walk(name string, flags int, perm uint32) (int, error) {
	at := f.fd()
	for {
		part, rest, more := strings.Cut(name, "/")
		how, mode := unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(0)
		if !more {
			how, mode = flags, perm
		}
		next, err := retry(func() (int, error) { return unix.Openat(at, part, how, mode) })
		if at != f.fd() {
			_ = unix.Close(at)
		}
		if err == nil && more && isLink(next) {
			_ = unix.Close(next)
			return -1, unix.ELOOP
		}
		if err != nil || !more {
			return next, err
		}
		at, name = next, rest
	}
}

// explain names the part of a path that is a symbolic link, if that is why it could not be opened.
func (f *Folder) explain(name string, err error) error {
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		for at, rest := "", name; rest != ""; {
			part, after, _ := strings.Cut(rest, "/")
			at, rest = path.Join(at, part), after
			fd, werr := f.walk(at, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			if werr != nil {
				break
			}
			link := isLink(fd)
			_ = unix.Close(fd)
			if link {
				return &fs.PathError{Op: "open", Path: at, Err: ErrLink}
			}
		}
		if errors.Is(err, unix.ELOOP) { // it was one, and is none any more
			return &fs.PathError{Op: "open", Path: name, Err: ErrLink}
		}
	}
	return &fs.PathError{Op: "open", Path: name, Err: err}
}

func isLink(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

func (f *Folder) fd() int { return int(f.file.Fd()) }

// maxTries bounds how often a call is made again because the tree changed under it.
const maxTries = 100

func retry(call func() (int, error)) (fd int, err error) {
	for range maxTries {
		if fd, err = call(); !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return fd, err
}

// local is a path below a folder in its shortest form. One that leads out is refused by its form alone.
func local(name string) (string, error) {
	if !filepath.IsLocal(name) || strings.IndexByte(name, 0) >= 0 {
		return "", &fs.PathError{Op: "open", Path: name, Err: errors.New("is not a path below the folder")}
	}
	return path.Clean(name), nil
}

// entry is the name of something directly in a folder.
func entry(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return &fs.PathError{Op: "open", Path: name, Err: errors.New("is not a name")}
	}
	return nil
}

func orDot(rel string) string {
	if rel == "" {
		return "."
	}
	return rel
}
