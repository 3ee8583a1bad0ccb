package sandbox

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/disk"
)

// familiar is what a shim remembers of the folders of its workspace from one command to the next, so that a folder that nothing was added to, taken from or renamed in
// since then is not read again. That is told by when the kernel says that it was changed, a time that nobody can set. Only folders are remembered of which nothing
// else is to be seen: no repository, and nothing but files, folders and links.
type familiar struct {
	folders map[string]remembrance
}

type remembrance struct {
	is state
	in found
}

// state is which folder it is, and when it was last changed.
type state struct {
	dev, ino     uint64
	ctime, mtime int64
}

func stateOfFolder(st *unix.Stat_t) state {
	return state{dev: st.Dev, ino: st.Ino, ctime: st.Ctim.Nano(), mtime: st.Mtim.Nano()}
}

// settledFor is how old a change must be for the next one to have another time: longer than the clock of files stands still.
const settledFor = 100 * time.Millisecond

// mostFamiliar is how many folders are remembered.
const mostFamiliar = 4 * lookedFolders

// recall is what was in a folder that is as it was.
func (k *familiar) recall(dir string, st *unix.Stat_t) (found, bool) {
	if k == nil || st == nil {
		return found{}, false
	}
	was, is := k.folders[dir]
	return was.in, is && was.is == stateOfFolder(st)
}

// begin is the state of a folder that is about to be read, if what is read may be remembered. What changes while it is read changes its state.
func (k *familiar) begin(f *os.File) (is state, ok bool) {
	var st unix.Stat_t
	var on unix.Statfs_t
	if k == nil || unix.Fstat(int(f.Fd()), &st) != nil || unix.Fstatfs(int(f.Fd()), &on) != nil || !disk.Near(&on) {
		return is, false
	}
	is = stateOfFolder(&st)
	// By the clock of files: ours may be ahead of it.
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) != nil {
		return is, false
	}
	return is, now.Nano()-max(is.ctime, is.mtime) > int64(settledFor)
}

// remember keeps what was read of a folder.
func (k *familiar) remember(dir string, is state, in found) {
	if k.folders == nil || len(k.folders) >= mostFamiliar {
		k.folders = map[string]remembrance{}
	}
	k.folders[dir] = remembrance{is, in}
}
