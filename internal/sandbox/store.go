package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/gitfile"
)

// A commit needs to add objects to a repository. But git believes that an object is what its name says: who can replace the file of one
// changes what a person checks out, of any branch, and nothing tells. So a command finds an empty folder of its own in the place of the
// repository's objects, which borrows from those. What it adds there is copied to the repository as soon as it is there, if
// it is what its name says. Nothing that the repository had is ever replaced or removed; of what was copied, mendObjects removes what names others wrongly when the command has ended.
//
// Packs are looked at by a git of ours when the command has ended: see packs.

// store is a folder of objects and what a command adds to it.
type store struct {
	path   string          // of the repository's own
	real   *beneath.Folder // the repository's own
	own    *beneath.Folder // where the command's go
	lent   string          // where the command finds the repository's own
	others []string        // whom those borrow from, quoted for git
	digits int             // of a name
	tree   int             // a copy of the mount of own that is mounted nowhere; -1: none
	added  []string        // the objects that were copied and name others
}

// The folders for stores: of what a command adds, in its spool folder; and of what it borrows, in its temp folder.
const (
	storesDir = "objects"
	lentDir   = ".git-objects"
)

// storeOf is where in a command's spool folder its objects for a repository are.
func storeOf(spool, objects string) string {
	return filepath.Join(spool, storesDir, layerName(objects))
}

// newStore makes the folder that stands in for d. temp is the task's temp folder, and seen is where the command sees it.
func newStore(spool, temp, seen string, d gitDir) (s *store, err error) {
	s = &store{path: d.path, real: d.folder, lent: filepath.Join(seen, lentDir, layerName(d.path)), digits: digitsOf(d.path), tree: -1}
	defer func() {
		if err != nil {
			s.close()
			s, err = nil, fmt.Errorf("make folder for objects: %w", err)
		}
	}()
	at := storeOf(spool, d.path)
	if err := os.MkdirAll(filepath.Join(at, "info"), 0o700); err != nil {
		return s, err
	}
	// From whom those borrow git finds out by itself. No link is followed here: the command can read what is written.
	lenders := gitfile.QuoteAlternate(s.lent) + "\n"
	if raw, _, err := d.folder.Read("info/alternates", maxGitSettings); err == nil {
		for _, lender := range gitfile.Alternates(string(raw)) {
			s.others = append(s.others, gitfile.QuoteAlternate(gitfile.LentBy(d.path, lender)))
			lenders += s.others[len(s.others)-1] + "\n"
		}
	}
	if err := os.WriteFile(filepath.Join(at, "info", "alternates"), []byte(lenders), 0o600); err != nil {
		return s, err
	}
	if s.own, err = beneath.OpenResolved(at); err != nil {
		return s, err
	}
	around, err := beneath.OpenResolved(temp)
	if err != nil {
		return s, err
	}
	defer around.Close()
	place, err := around.Make(filepath.Join(lentDir, layerName(d.path)))
	if err != nil {
		return s, err
	}
	return s, place.Close()
}

// digitsOf is how long the names of objects are.
func digitsOf(objects string) int {
	settings, _ := parseGitSettings(readUpTo(filepath.Join(filepath.Dir(objects), "config"), maxGitSettings))
	for _, set := range settings {
		if set.section == "extensions" && set.variable == "objectformat" && strings.EqualFold(set.value, "sha256") {
			return 64
		}
	}
	return 40
}

func (s *store) close() {
	if s.own != nil {
		_ = s.own.Close()
	}
	if s.tree >= 0 {
		_ = unix.Close(s.tree)
	}
}

// clone copies the mount of the command's own objects. The thread must have a mount namespace in which they are not read-only.
func (s *store) clone() (err error) {
	if s.tree, err = cloneTree(s.own.Name()); err != nil {
		return fmt.Errorf("clone folder for objects: %w", err)
	}
	return nil
}

// mount puts the command's own objects in the place of the repository's, and these, read-only, where they are borrowed from.
func (s *store) mount() error {
	fd, err := cloneTree(s.path)
	if err != nil {
		return fmt.Errorf("clone %s: %w", s.path, err)
	}
	defer unix.Close(fd)
	var now, then unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &now), unix.Fstat(int(s.real.Fd()), &then)); err != nil {
		return fmt.Errorf("look at %s: %w", s.path, err)
	}
	if now.Dev != then.Dev || now.Ino != then.Ino {
		return fmt.Errorf("look at %s: it is another folder by now: %w", s.path, fs.ErrNotExist)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("seal %s: %w", s.path, err)
	}
	if err := mountAt(fd, s.lent); err != nil {
		return err
	}
	if err := s.coverLenders(); err != nil {
		return err
	}
	return mountAt(s.tree, s.path)
}

// coverLenders covers the list of whom the repository's own borrow from, which may name them by where they are beside it: it is in that of the command's own.
func (s *store) coverLenders() error {
	list := filepath.Join(s.lent, "info", "alternates")
	info, err := os.Lstat(list)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && info.Mode().IsRegular():
		err = unix.Mount(os.DevNull, list, "", unix.MS_BIND, "")
	default: // a link, or worse
		err = unix.Mount("tmpfs", filepath.Dir(list), "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=555,size=4k")
	}
	if err != nil {
		return fmt.Errorf("cover the lenders of %s: %v", s.path, err) //nolint:errorlint // that something is not there is no reason to go without
	}
	return nil
}

// mountAt mounts a tree over a folder, no part of whose path may be a symbolic link.
func mountAt(tree int, path string) error {
	at, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	defer unix.Close(at)
	if err := unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	return nil
}

// effort is how long it may take to look at what a command added: so long, and more for each object that is worth it. What a command left must not
// keep its shim busy, which nobody could end.
type effort struct {
	until time.Time
	over  <-chan struct{}         // ends it before; nil: nothing does
	room  func(bytes int64) error // whether there is as much on the disk; nil: there is
}

// How long it may take at the end of a command, and in the daemon when its shim has died.
const (
	keepFor    = time.Minute
	reclaimFor = 20 * time.Second
)

func newEffort(d time.Duration) *effort { return &effort{until: time.Now().Add(d)} }

// errEnough says that it took too long.
var errEnough = errors.New("it took too long")

func (e *effort) enough() error {
	select {
	case <-e.over:
		return errEnough
	default:
	}
	if time.Now().After(e.until) {
		return errEnough
	}
	return nil
}

// earned gives more time for an object that was stored.
func (e *effort) earned(bytes int64) {
	e.until = e.until.Add(5*time.Millisecond + time.Duration(bytes>>10)*time.Millisecond)
}

// bounded is a reader that ends when it took too long.
type bounded struct {
	r io.Reader
	e *effort
}

func (b bounded) Read(p []byte) (int, error) {
	if err := b.e.enough(); err != nil {
		return 0, err
	}
	return b.r.Read(p)
}

// keepAll copies to the repository what the command added and is not there yet. It says what could not be copied, though it is an object.
func (s *store) keepAll(e *effort) (lost []error) {
	folders, err := s.own.ReadDir(".")
	if err != nil {
		return []error{err}
	}
	for _, dir := range folders {
		if dir.IsDir() && isHex(dir.Name(), 2) {
			lost = append(lost, s.keepFolder(e, dir.Name())...)
		}
	}
	return lost
}

// atOnce is how many names of a folder are read together: a command may make as many as it likes.
const atOnce = 1000

// keepFolder is keepAll for the objects whose names begin with the same byte.
func (s *store) keepFolder(e *effort, first string) (lost []error) {
	dir, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d/%s", s.own.Fd(), first), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []error{err}
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(atOnce)
		for _, name := range names {
			if err := s.keep(e, first, name); err != nil {
				lost = append(lost, err)
			}
			if e.enough() != nil {
				return append(lost, errEnough)
			}
		}
		if err != nil {
			return lost
		}
	}
}

// keep copies an object to the repository, unless it is there or is none.
func (s *store) keep(e *effort, first, rest string) error {
	if !isHex(rest, s.digits-2) {
		return nil // a temporary file of git's
	}
	if _, err := s.real.Lstat(path.Join(first, rest)); err == nil {
		return nil
	}
	err := s.add(e, first, rest)
	if errors.Is(err, errNoObject) || errors.Is(err, beneath.ErrNotRegular) || errors.Is(err, beneath.ErrLink) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// add copies an object, byte by byte: who made the file may still have it open. It is looked at first, so that nothing is written of one that is none, and once
// more while it is copied.
func (s *store) add(e *effort, first, rest string) error {
	from, _, err := s.own.File(path.Join(first, rest))
	if err != nil {
		return err
	}
	defer from.Close()
	size, err := checkObject(bounded{from, e}, first+rest)
	if err != nil {
		return err
	}
	if e.room != nil {
		if err := e.room(size); err != nil {
			return err
		}
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	to, err := s.folder(first)
	if err != nil {
		return err
	}
	defer to.Close()
	temp := "tmp_obj_" + rand.Text() // as git names them, so that it removes what a crash leaves
	f, err := to.Create(temp, 0o444)
	if err != nil {
		return err
	}
	kind, _, _, err := parseObject(bounded{io.TeeReader(io.LimitReader(from, size), f), e}, first+rest)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = unix.Renameat2(int(to.Fd()), temp, int(to.Fd()), rest, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		_ = to.Remove(temp)
	} else if kind != "blob" {
		s.added = append(s.added, first+rest)
	}
	if err == nil || errors.Is(err, fs.ErrExist) { // then another was faster
		e.earned(size)
		return nil
	}
	return err
}

// folder is one of the repository's folders of objects. A new one may be written by whom the others may be.
func (s *store) folder(first string) (*beneath.Folder, error) {
	err := unix.Mkdirat(int(s.real.Fd()), first, 0o777)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, &fs.PathError{Op: "make folder", Path: filepath.Join(s.real.Name(), first), Err: err}
	}
	to, oerr := s.real.Folder(first)
	var around unix.Stat_t
	if err == nil && oerr == nil && unix.Fstat(int(s.real.Fd()), &around) == nil {
		_ = unix.Fchmodat(int(s.real.Fd()), first, around.Mode&0o7777, 0)
	}
	return to, oerr
}

// stores are those of repositories.
func stores(repos []repository) (out []*store) {
	for _, repo := range repos {
		for _, dir := range repo.plan.dirs {
			if dir.store != nil {
				out = append(out, dir.store)
			}
		}
	}
	return out
}

// keepStores copies what a command that has ended left in its stores. They are removed with its spool folder.
func (s *shim) keepStores(repos []repository) (lost []error) {
	e := newEffort(keepFor)
	for _, st := range stores(repos) {
		e.room = s.room(st)
		lost = append(lost, st.keepAll(e)...)
	}
	return lost
}

// reclaimStores does for the command in a spool folder what its shim died too early to do.
func reclaimStores(spool string, repos []repository) {
	e := newEffort(reclaimFor)
	for _, repo := range repos {
		for _, dir := range repo.plan.dirs {
			if own, err := beneath.OpenResolved(storeOf(spool, dir.path)); err == nil {
				s := &store{path: dir.path, real: dir.folder, own: own, digits: digitsOf(dir.path), tree: -1}
				_ = s.keepAll(e) // nobody is left to be told
				s.close()
			}
		}
	}
}
