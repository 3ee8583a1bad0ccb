package graph

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
)

// LogFile is the name of the log in a project's folder.
const LogFile = "tasks.jsonl"

// warnAt is the size from which on a log should be compacted.
const warnAt = 100 << 20

var (
	fpAppend   = failpoint.New("graph.log.before_append")
	fpAppended = failpoint.New("graph.log.after_append")
	fpSynced   = failpoint.New("graph.log.after_sync")
)

// mark is how far a log was read: the place, what the bytes before it hash to, and what the file looked like.
type mark struct {
	jsonl.Place
	sum   []byte // the state of a hash
	inode uint64
	size  int64
	mtime int64
}

// log is the file, opened and locked, and the folder it is in. Neither is reached through a symbolic link: the repository
// holds them, and whoever can write there does not decide what is read and written elsewhere.
type log struct {
	f   *os.File
	dir *beneath.Folder
}

// openFolder opens the folder of a log.
func openFolder(path string) (*beneath.Folder, error) {
	in := filepath.Dir(path)
	root, err := beneath.OpenResolved(filepath.Dir(in))
	if err != nil {
		return nil, fileError("open", in, err)
	}
	defer root.Close()
	dir, err := root.Folder(filepath.Base(in))
	if err != nil {
		return nil, fileError("open", in, err)
	}
	return dir, nil
}

// openLog opens the log and takes its lock, for one who writes or one who reads. The file may be replaced while
// it is waited for: then the new one is opened.
func openLog(path string, write bool) (*log, error) {
	how := unix.LOCK_SH
	if write {
		how = unix.LOCK_EX
	}
	for {
		l, err := openUnlocked(path, write)
		if err != nil {
			return nil, err
		}
		if err := lock(l.f, how); err != nil {
			l.close()
			return nil, err
		}
		now, err := os.Lstat(path)
		mine, err2 := l.f.Stat()
		if err == nil && err2 == nil && os.SameFile(now, mine) {
			return l, nil
		}
		l.close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fileError("open", path, err)
		}
	}
}

func openUnlocked(path string, write bool) (*log, error) {
	dir, err := openFolder(path)
	if err != nil {
		return nil, err
	}
	l := &log{dir: dir}
	if write {
		l.f, err = dir.Append(filepath.Base(path), 0o644)
	} else {
		l.f, _, err = dir.File(filepath.Base(path))
	}
	if err != nil {
		_ = dir.Close()
		return nil, fileError("open", path, err)
	}
	return l, nil
}

// How long the lock of a log is waited for. Whoever writes has it for milliseconds; who has it for longer hangs, or is
// no friend, and must not take everybody with them.
const (
	lockLimit   = 10 * time.Second
	lockLongest = 100 * time.Millisecond // between two tries
)

// lock takes the lock of a file, trying again and again for a while.
func lock(f *os.File, how int) error {
	end := time.Now().Add(lockLimit)
	for wait := time.Millisecond; ; wait = min(2*wait, lockLongest) {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fileError("lock", f.Name(), err)
		case time.Now().After(end):
			return td.Errorf(td.Locked, "another program has had %s locked for %s", f.Name(), lockLimit).
				WithHint("fuser -v %s names it; end it, or let it come to its end", f.Name())
		}
		time.Sleep(wait)
	}
}

// close lets go of the lock, too.
func (l *log) close() {
	_ = l.f.Close()
	_ = l.dir.Close()
}

// look says what the file looks like now.
func (l *log) look(m *mark) error {
	info, err := l.f.Stat()
	if err != nil {
		return fileError("look at", l.f.Name(), err)
	}
	m.size, m.mtime = info.Size(), info.ModTime().UnixNano()
	m.inode = info.Sys().(*syscall.Stat_t).Ino
	return nil
}

// unchanged reports whether the file looks as it did.
func (l *log) unchanged(m mark) bool {
	var now mark
	return l.look(&now) == nil && now.inode == m.inode && now.size == m.size && now.mtime == m.mtime
}

// grown reports whether the file begins with what was read of it, and gives the hash of that.
func (l *log) grown(m mark) (hash.Hash, bool, error) {
	h := sha256.New()
	info, err := l.f.Stat()
	if err != nil {
		return nil, false, fileError("look at", l.f.Name(), err)
	}
	if info.Size() < m.Offset {
		return h, false, nil
	}
	if _, err := io.Copy(h, io.NewSectionReader(l.f, 0, m.Offset)); err != nil {
		return nil, false, fileError("read", l.f.Name(), err)
	}
	return h, string(state(h)) == string(m.sum), nil
}

// state is what a hash has come to, so that it can be gone on with in another process.
func state(h hash.Hash) []byte {
	raw, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		panic(fmt.Sprintf("graph: the state of a hash: %v", err)) // it cannot fail
	}
	return raw
}

// restored is a hash that goes on from a state.
func restored(sum []byte) (hash.Hash, bool) {
	h := sha256.New()
	return h, h.(encoding.BinaryUnmarshaler).UnmarshalBinary(sum) == nil
}

// append writes lines to the end, synced. If it fails the file is as it was, or has a torn line at its end that
// the next append closes. Until the lock is let go the lines can be taken back, for which a disk needs no room.
func (l *log) append(lines []byte) (takeBack func() error, err error) {
	info, err := l.f.Stat()
	if err != nil {
		return nil, fileError("look at", l.f.Name(), err)
	}
	takeBack = func() error {
		if err := errors.Join(l.f.Truncate(info.Size()), l.f.Sync()); err != nil {
			return fileError("take back what was written to", l.f.Name(), err)
		}
		return nil
	}
	fpAppend.Hit()
	_, err = l.f.Write(lines)
	fpAppended.Hit()
	if err = errors.Join(err, l.f.Sync()); err != nil {
		return nil, errors.Join(fileError("write", l.f.Name(), err), takeBack())
	}
	fpSynced.Hit()
	return takeBack, nil
}

// torn reports whether the last line lacks its end.
func (l *log) torn() (bool, error) {
	info, err := l.f.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	last := make([]byte, 1)
	if _, err := l.f.ReadAt(last, info.Size()-1); err != nil {
		return false, fileError("read", l.f.Name(), err)
	}
	return last[0] != '\n', nil
}

// replace puts other bytes in the place of the log, whole or not at all. The lock is on the old file: whoever
// waits for it notices.
func (l *log) replace(text []byte) error {
	err := l.dir.Replace(filepath.Base(l.f.Name()), "."+LogFile+"-"+rand.Text(), text, 0o644)
	if err != nil {
		return fileError("replace", l.f.Name(), err)
	}
	return nil
}

func fileError(verb, path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return td.Errorf(td.NotFound, "%s %s: %w", verb, path, err).WithHint("taskdaemon init")
	case errors.Is(err, beneath.ErrNotRegular), errors.Is(err, syscall.ENOTDIR):
		return td.Errorf(td.Invalid, "%s %s: it is no plain file in a folder", verb, path).WithHint("put the file itself there")
	case errors.Is(err, beneath.ErrLink):
		return td.Errorf(td.Invalid, "%s %s: it is a symbolic link", verb, path).WithHint("put the file itself there")
	case errors.Is(err, syscall.ENOSPC):
		return td.Errorf(td.Storage, "%s %s: %w", verb, path, err).WithHint("free some space and try again: nothing was changed")
	}
	return td.Errorf(td.Storage, "%s %s: %w", verb, path, err)
}
