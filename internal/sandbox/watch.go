package sandbox

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A command must be able to make files in a folder of git, and could make one that leads git to another folder, whose settings name
// programs. It is removed when the command has ended; but a job may run for an hour, and a person's git follow it meanwhile. So the folders
// are watched: whoever makes such a file is ended, and the file goes at once. Who made it cannot be told: all commands that run there are ended.

// The objects that a command adds are not in the repository at first: see store. The same watch has them copied as soon as they are made, so that
// no reference names what is not there for longer than a moment. How long that takes is the command's doing, and nothing else waits for it.

// watch is over the folders of git that a command may write in.
type watch struct {
	dirs   []gitDir
	stores []*store
	fd     int             // of events
	told   map[int32]shelf // which shelf an event is about, by the kernel's number of the folder
	events *os.File        // nil: the machine has no more watches to give, and the folders are looked at again and again
	over   chan struct{}
	end    sync.Once
	wg     sync.WaitGroup
	caught chan string // what ended the command

	wake chan struct{} // there is something to copy
	mu   sync.Mutex
	// What is to be copied: these objects, of a whole shelf where the name is empty; or all that there is, now or again and again.
	fresh map[added]bool
	all   bool
	polls bool
	taken []string // what was removed
}

// added is an object that a command added.
type added struct {
	shelf
	name string
}

// mostFresh is how many objects are remembered one by one.
const mostFresh = 10_000

// shelf is a store, or one of its folders: the first byte of the names in it.
type shelf struct {
	store *store
	first string
}

// lookAgain is how often folders are looked at that cannot be watched.
const lookAgain = 10 * time.Millisecond

// watchOver watches; nil when there is nothing to watch.
func watchOver(repos []repository) *watch {
	w := newWatch(repos)
	if len(w.dirs) == 0 {
		return nil
	}
	if w.events = w.listen(); w.events != nil {
		w.wg.Go(w.run)
	} else {
		w.polls = true
		w.wg.Go(w.poll)
	}
	w.wg.Go(w.copy)
	w.look() // at what was made before it was listened to
	return w
}

func newWatch(repos []repository) *watch {
	w := &watch{
		stores: stores(repos), told: map[int32]shelf{}, over: make(chan struct{}), caught: make(chan string, 1),
		wake: make(chan struct{}, 1), fresh: map[added]bool{},
	}
	for _, repo := range repos {
		w.dirs = append(w.dirs, repo.plan.dirs...)
	}
	return w
}

// listen asks the kernel to be told what is made or written in the folders.
func (w *watch) listen() *os.File {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	events := os.NewFile(uintptr(fd), "inotify")
	w.fd = fd
	for _, dir := range w.dirs {
		at := "/proc/self/fd/" + strconv.Itoa(int(dir.folder.Fd())) // the folder itself, whatever has its name
		if _, err := unix.InotifyAddWatch(fd, at, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_MODIFY|unix.IN_ONLYDIR); err != nil {
			_ = events.Close()
			return nil
		}
	}
	for _, s := range w.stores {
		if !w.follow(shelf{store: s}) {
			_ = events.Close()
			return nil
		}
	}
	return events
}

// follow asks the kernel to be told of a shelf.
func (w *watch) follow(p shelf) bool {
	at := "/proc/self/fd/" + strconv.Itoa(int(p.store.own.Fd())) + "/" + cmp.Or(p.first, ".")
	number, err := unix.InotifyAddWatch(w.fd, at, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW)
	if err != nil {
		return false
	}
	w.told[int32(number)] = p
	return true
}

// caughtBy is what ended the command; nobody is watched where there is no watch.
func (w *watch) caughtBy() <-chan string {
	if w == nil {
		return nil
	}
	return w.caught
}

// removed is what was taken away so far.
func (w *watch) removed() []string {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.taken)
}

func (w *watch) close() {
	if w == nil {
		return
	}
	w.end.Do(func() {
		close(w.over)
		if w.events != nil {
			_ = w.events.SetReadDeadline(time.Unix(1, 0))
			// The kernel takes milliseconds to forget a watch; nobody waits for that.
			defer func() { go w.events.Close() }()
		}
		w.wg.Wait() // the folders are closed after it
	})
}

func (w *watch) poll() {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-w.over:
			return
		case <-tick.C:
			w.look()
		}
	}
}

// run looks at the folders whenever a name that leads somewhere was used in one, or when the kernel had too much to tell.
func (w *watch) run() {
	buf := make([]byte, 16<<10)
	for {
		n, err := w.events.Read(buf)
		if err != nil {
			return
		}
		for at := buf[:n]; len(at) >= unix.SizeofInotifyEvent; {
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(at[12:]))
			if size > len(at) {
				break
			}
			name, _, _ := strings.Cut(string(at[unix.SizeofInotifyEvent:size]), "\x00")
			missed := binary.NativeEndian.Uint32(at[4:])&unix.IN_Q_OVERFLOW != 0
			if slices.Contains(gitLeads, name) || missed {
				w.look()
			}
			if missed {
				w.add(added{})
			} else if p, is := w.told[int32(binary.NativeEndian.Uint32(at))]; is {
				w.made(p, name)
			}
			at = at[size:]
		}
	}
}

// made is told what was made in a shelf.
func (w *watch) made(p shelf, name string) {
	switch {
	case p.first != "":
		w.add(added{p, name})
	case isHex(name, 2):
		p.first = name
		if !w.follow(p) {
			w.mu.Lock()
			w.polls = true
			w.mu.Unlock()
		}
		w.add(added{shelf: p}) // what was made in it before
	}
}

// add has something copied; nothing in particular is all.
func (w *watch) add(a added) {
	w.mu.Lock()
	if w.all = w.all || a.store == nil || len(w.fresh) >= mostFresh; w.all {
		clear(w.fresh)
	} else {
		w.fresh[a] = true
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// copy copies to the repositories what is added to the stores. What fails is tried again when the command has ended.
func (w *watch) copy() {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	e := &effort{until: time.Now().AddDate(1, 0, 0), over: w.over}
	for {
		select {
		case <-w.over:
			return
		case <-w.wake:
		case <-tick.C:
		}
		w.mu.Lock()
		fresh, all := w.fresh, w.all || w.polls
		if w.all = false; len(fresh) > 0 {
			w.fresh = map[added]bool{}
		}
		w.mu.Unlock()
		for a := range fresh {
			if a.name == "" {
				_ = a.store.keepFolder(e, a.first)
			} else {
				_ = a.store.keep(e, a.first, a.name)
			}
		}
		for _, s := range w.stores {
			if all {
				_ = s.keepAll(e)
			}
		}
	}
}

// look takes away what leads git elsewhere and was not there before, and has the command ended.
func (w *watch) look() {
	for _, d := range w.dirs {
		for _, name := range gitLeads {
			if !d.leads(name) {
				continue
			}
			select { // first: what follows may take a moment
			case w.caught <- "it made " + filepath.Join(d.path, name) + ", which would lead git to another folder":
			default:
			}
			w.away(d, name)
		}
	}
}

// asidePrefix is how the names begin that it is given.
const asidePrefix = "taskdaemon-removed-"

// unknownName is a name that git does not know and nobody can take first.
func unknownName() string { return asidePrefix + rand.Text() }

// away moves what has the name out of git's way, which takes no time whatever is in it. It is removed when the command has ended.
func (w *watch) away(d gitDir, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	aside := unknownName()
	if unix.Renameat2(int(d.folder.Fd()), name, int(d.folder.Fd()), aside, unix.RENAME_NOREPLACE) == nil {
		w.taken = append(w.taken, filepath.Join(d.folder.Name(), name))
	}
}

// leads reports whether something new of this name leads git elsewhere. A second file of settings may be a person's, who makes their checkout
// sparse: one with plain settings leads nowhere.
func (d gitDir) leads(name string) bool {
	if _, old := d.had[name]; old || d.open(name) {
		return false
	}
	var st unix.Stat_t
	if unix.Fstatat(int(d.folder.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false
	}
	return name != worktreeSettings || !d.plain(name)
}

// worktreeSettings is the file of settings of one worktree alone.
const worktreeSettings = "config.worktree"

// plain reports whether a file of settings has none that name a program, and is wholly understood.
func (d gitDir) plain(name string) bool {
	raw, _, err := d.folder.Read(name, maxGitSettings)
	if err != nil {
		return false
	}
	return onlyPlain(string(raw), nil)
}
