package git

import (
	"context"
	endian "encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/disk"
	"taskdaemon/internal/gitfile"
)

// watch hears from the kernel what changes in the folders of a checkout, so that nothing has to be compared when nothing did. It has no goroutine: what
// was heard waits in the kernel until somebody asks.
//
// It hears of every write, rename, change of rights and removal by way of a name in these folders, whatever time and size the file has then. It does not hear of a file that
// is written through memory that is mapped, before that is closed, nor by way of a hard link elsewhere: who knows that something may have done so compares everything, and so does
// everybody once in a while.
type watch struct {
	dirs    map[int32]string // by the kernel's number, slash-separated, "." is the top
	heard   map[string]bool  // names that something happened to
	deaf    bool             // what was heard is not all: a folder came or went, or too much happened
	rules   string           // what decided which files count when it began
	ignored []string         // folders that are not watched
	whole   time.Time        // when everything was compared last
	disk    unix.Fsid        // that it is on
	plain   *plainFiles      // what is known of its files; nil: only git knows what to make of them
}

// wholeEvery is how long what was heard is relied on before everything is compared again.
const wholeEvery = time.Minute

// The kernel has room for so many watches of a user, which editors need, too.
const (
	mostFolders = 20_000 // of one checkout
	shareOfAll  = 4      // all watches together take at most one in so many
	mostHeard   = 200    // names; beyond that looking at everything costs no more
	mostDepth   = 200    // folders in each other
)

// told are the changes that a watch hears of.
const told = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CLOSE_WRITE | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// ears are what the kernel tells this process. There is one queue: the kernel lets a user have few, and the shims of commands need some.
var ears = &hearing{}

type hearing struct {
	mu    sync.Mutex
	queue int
	err   error
	begun bool
	most  int
	by    map[int32][]*watch
}

var errNotWatched = errors.New("cannot be watched")

// begin makes the queue. The lock must be held.
func (h *hearing) begin() error {
	if h.begun {
		return h.err
	}
	h.begun, h.by = true, map[int32][]*watch{}
	h.queue, h.err = unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	raw, _ := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	all, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
	h.most = all / shareOfAll
	return h.err
}

// add has a watch hear of a folder that is held open.
func (h *hearing) add(w *watch, dir *beneath.Folder, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.begin(); err != nil {
		return err
	}
	if len(h.by) >= h.most || len(w.dirs) >= mostFolders {
		return errNotWatched
	}
	// By its descriptor: a name might lead to another folder by now.
	number, err := unix.InotifyAddWatch(h.queue, fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), told)
	if err != nil {
		return err
	}
	n := int32(number)
	w.dirs[n] = name
	if !slices.Contains(h.by[n], w) {
		h.by[n] = append(h.by[n], w)
	}
	return nil
}

// drop has a watch hear no more of folders.
func (h *hearing) drop(w *watch, numbers []int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range numbers {
		left := slices.DeleteFunc(h.by[n], func(o *watch) bool { return o == w })
		if h.by[n] = left; len(left) > 0 {
			continue
		}
		delete(h.by, n)
		_, _ = unix.InotifyRmWatch(h.queue, uint32(n)) // the kernel does so by itself when the folder is gone
	}
}

// read hands what the kernel has to tell to those who want to hear it. The lock must be held.
func (h *hearing) read() {
	if !h.begun || h.err != nil {
		return
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(h.queue, buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil || n <= 0:
			h.missed()
			return
		}
		if !h.hear(buf[:n]) {
			h.missed()
		}
	}
}

// missed has everybody compare everything.
func (h *hearing) missed() {
	for _, all := range h.by {
		for _, w := range all {
			w.deaf = true
		}
	}
}

// hear reads struct inotify_event, each followed by a name; false when that is not all that happened.
func (h *hearing) hear(raw []byte) bool {
	const head = unix.SizeofInotifyEvent
	for len(raw) > 0 {
		if len(raw) < head {
			return false
		}
		number, mask, length := int32(endian.NativeEndian.Uint32(raw)), endian.NativeEndian.Uint32(raw[4:]), int(endian.NativeEndian.Uint32(raw[12:]))
		if mask&unix.IN_Q_OVERFLOW != 0 || length > len(raw)-head {
			return false
		}
		name, _, _ := strings.Cut(string(raw[head:head+length]), "\x00")
		for _, w := range h.by[number] {
			w.note(number, mask, name)
		}
		raw = raw[head+length:]
	}
	return true
}

// decides are the files that say which others count, and in which way.
var decides = []string{".git", ".gitignore", ".gitattributes"}

// note takes in one event.
func (w *watch) note(number int32, mask uint32, name string) {
	dir, known := w.dirs[number]
	switch {
	case !known:
	case mask&(unix.IN_IGNORED|unix.IN_UNMOUNT|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_ISDIR) != 0 || name == "" || slices.Contains(decides, name):
		w.deaf = true
	case len(w.heard) >= mostHeard:
		w.deaf = true
	default:
		w.heard[path.Join(dir, name)] = true
	}
}

// listen takes in what the kernel has to tell, and gives a watch what it has heard since it was last asked; ok is false when that is not all.
func (h *hearing) listen(w *watch) (heard []string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.read()
	heard = slices.Sorted(maps.Keys(w.heard))
	clear(w.heard)
	return heard, !w.deaf
}

// heard are the names that something has happened to since the checkout was last looked at; ok is false when only a look at everything tells.
func (s *Steps) heard(ctx context.Context) (names []string, ok bool) {
	if s.watch == nil {
		return nil, false
	}
	names, ok = ears.listen(s.watch)
	if rules := s.rules(ctx); !ok || rules == "" || rules != s.watch.rules {
		s.Close()
		s.calm = false
		return nil, false
	}
	if time.Since(s.watch.whole) > wholeEvery || slices.ContainsFunc(names, s.elsewhereToo) {
		return nil, false
	}
	return names, true
}

// elsewhereToo reports whether a file has more names than one: who wrote it wrote all of them, and was heard at one.
func (s *Steps) elsewhereToo(name string) bool {
	var st unix.Stat_t
	return unix.Lstat(filepath.Join(s.top, name), &st) == nil && st.Nlink > 1
}

// attend begins to watch the checkout. It must be called before everything is compared, so that what happens meanwhile is heard. Where the kernel does not tell of everything there is no
// watch.
func (s *Steps) attend(ctx context.Context) {
	if s.watch == nil {
		w := &watch{dirs: map[int32]string{}, heard: map[string]bool{}}
		if err := s.follow(ctx, w); err != nil {
			w.close()
			s.unheard = true
			return
		}
		s.watch = w
	}
	s.watch.whole = time.Now()
}

// Close lets go of what is watched. A later Take compares everything.
func (s *Steps) Close() {
	s.watch.close()
	s.watch = nil
}

// follow watches all folders but those that git ignores. The list of these is taken again when the rest is watched: if it is another one, a rule has changed meanwhile.
func (s *Steps) follow(ctx context.Context, w *watch) (err error) {
	if w.ignored, err = s.ignored(ctx); err != nil {
		return err
	}
	top, err := beneath.OpenResolved(s.top)
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }()
	// Without mounts a command can make hard links to places outside of its workspace.
	if _, mounts, err := launcher.Lacks(); err != nil || !mounts {
		return errNotWatched
	}
	var on unix.Statfs_t
	if err := unix.Fstatfs(int(top.Fd()), &on); err != nil {
		return err
	}
	w.disk = on.Fsid
	said, err := configs.of(ctx, site{top: s.top, git: s.own, common: s.common})
	if err != nil {
		return err
	}
	w.plain = plainIn(said)
	for range 3 {
		w.rules = s.rules(ctx)
		if err := w.enter(top, ".", 0); err != nil {
			return err
		}
		now, err := s.ignored(ctx)
		if err != nil {
			return err
		}
		if slices.Equal(now, w.ignored) {
			return nil
		}
		w.ignored = now
	}
	return errNotWatched
}

// enter watches a folder and those in it. A folder is watched before it is listed, so that no other comes unheard.
func (w *watch) enter(dir *beneath.Folder, name string, depth int) error {
	var on unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &on); err != nil || on.Fsid != w.disk || !disk.Near(&on) {
		return errNotWatched // something else may be mounted there
	}
	if err := ears.add(w, dir, name); err != nil {
		return err
	}
	entries, err := dir.ReadDir(".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		in := path.Join(name, e.Name())
		switch {
		case e.Name() == ".git" && name != ".", depth > mostDepth:
			return errNotWatched // a repository inside counts by its HEAD, which lies who knows where
		case e.Name() == ".git" || !e.IsDir():
			continue
		}
		if _, skip := slices.BinarySearch(w.ignored, in); skip {
			continue
		}
		sub, err := dir.Folder(e.Name())
		if err == nil {
			err = w.enter(sub, in, depth+1)
			_ = sub.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// close hears no more.
func (w *watch) close() {
	if w != nil {
		ears.drop(w, slices.Collect(maps.Keys(w.dirs)))
	}
}

// ignored are the folders that git ignores as a whole, sorted.
func (s *Steps) ignored(ctx context.Context) (dirs []string, err error) {
	out, err := run(ctx, call{dir: s.top, env: s.env(), args: []string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"}})
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(string(out), "\x00") {
		if dir, is := strings.CutSuffix(name, "/"); is {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs, nil
}

// rules tell whether something has changed, outside of the checkout, that decides which files count and what of them: settings, and lists of patterns and attributes.
func (s *Steps) rules(ctx context.Context) string {
	at := site{top: s.top, git: s.own, common: s.common}
	said, err := configs.of(ctx, at)
	if err != nil {
		return "" // git will say what is wrong
	}
	set, lists := said.listed(at)
	for _, name := range []string{"info/exclude", "info/attributes", "info/sparse-checkout"} {
		lists = append(lists, filepath.Join(s.common, name), filepath.Join(s.own, name))
	}
	return strings.Join(set, "\n") + said.text() + stateOf(lists) + gitfile.Text(filepath.Join(s.top, ".git"))
}
