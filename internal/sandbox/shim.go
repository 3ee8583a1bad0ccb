package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	ossignal "os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/failpoint"
)

// What the shim tells the daemon through the pipe. Single bytes, except that a failure and a result
// take the rest of the stream.
const (
	tellStarted = 'S' // the command is about to be executed; it counts as started
	tellMore    = '.' // there is more output; may be left out when the pipe is full
	tellEnded   = 'E' // result.json is on disk
	tellFailed  = 'F' // the command was not started; why
	tellResult  = 'R' // the result itself, because it could not be written
)

// notifyFd is the shim's end of that pipe.
const notifyFd = 3

// killGrace is how long a tree has between SIGTERM and SIGKILL.
const killGrace = 300 * time.Millisecond

var (
	fpShimBeforeLock    = failpoint.New("sandbox.shim.before_lock")
	fpShimAfterLock     = failpoint.New("sandbox.shim.after_lock")
	fpShimBeforeStarted = failpoint.New("sandbox.shim.before_started")
	fpShimAfterStarted  = failpoint.New("sandbox.shim.after_started")
	fpShimAfterExec     = failpoint.New("sandbox.shim.after_exec")
	fpShimAfterExit     = failpoint.New("sandbox.shim.after_exit")
	fpShimBeforeKeep    = failpoint.New("sandbox.shim.before_keep")
	fpShimBeforeResult  = failpoint.New("sandbox.shim.before_result")
	fpShimBeforeRename  = failpoint.New("sandbox.shim.before_rename")
	fpShimAfterResult   = failpoint.New("sandbox.shim.after_result")
)

// ExecMain is the main function of the shim, `taskdaemon exec`. It is told on its standard input which
// folders to work on, one after the other, and leaves when that ends. It returns the process's exit code,
// which says only whether the shim did its part.
func ExecMain() (code int) {
	// The kernel kills the command when the thread that started it ends; this one never does.
	runtime.LockOSThread()
	// Without a collector it starts faster, and the limit keeps one that lives long from growing.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(32 << 20)

	nested := settleIn(os.Args)
	if len(os.Args) > 2 && os.Args[2] == checkArg {
		return checkMain(nested)
	}
	if !isPipe(notifyFd) {
		fmt.Fprintln(os.Stderr, "taskdaemon exec is run by the daemon, not by hand")
		return 2
	}
	// Whoever started the daemon may have left files open; none of them is for a command.
	_ = unix.CloseRange(notifyFd, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	unix.CloseOnExec(notifyFd)
	_ = unix.SetNonblock(notifyFd, true) // a daemon that does not read must not stop the command
	s := &shim{signals: make(chan os.Signal, 4), asked: make(chan os.Signal, 1)}
	ossignal.Notify(s.signals, syscall.SIGTERM)
	ossignal.Notify(s.asked, syscall.SIGCONT)
	// Caught and dropped, not ignored: what is ignored here would be ignored by the command, too.
	ossignal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT)

	// All that does not depend on the command comes before the wait for it.
	if err := errors.Join(nested, s.ready()); err != nil {
		s.tell(tellFailed, err.Error())
		return 1
	}
	defer func() { s.group.close() }()
	for in := bufio.NewReader(os.Stdin); s.assigned(in); debug.SetGCPercent(100) {
		reusable, err := s.run()
		if err != nil {
			s.tell(tellFailed, err.Error())
			return 1
		}
		if !reusable {
			break
		}
	}
	return 0
}

func isPipe(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// assignment tells a shim which folder to work on, and the id of its spec.
func assignment(dir, id string) []byte { return []byte(dir + "\x00" + id + "\x00") }

// assigned waits for the next assignment, and reports whether there is one.
func (s *shim) assigned(in *bufio.Reader) bool {
	for _, part := range []*string{&s.dir, &s.id} {
		text, err := in.ReadString(0)
		if err != nil {
			return false // the daemon needs this shim no more, or is no more itself
		}
		*part = strings.TrimSuffix(text, "\x00")
	}
	return true
}

// shim supervises a command, and then perhaps the next.
type shim struct {
	dir     string
	id      string
	spec    spec
	self    []byte // identity, for the lock file
	signals chan os.Signal
	asked   chan os.Signal // there may be a request to be still
	rec     *recorder
	result  *os.File // with room reserved in it
	island  *island  // the network of commands that have none, once it was needed
	base    *base    // the mounts of the command before
	known   familiar

	group *pidGroup // bounds the processes of commands; nil: the kernel counts them anyhow, or lets no group be made

	removed, left []string // what was taken from the command while it was kept still, and what was not
}

// ready finds out who this shim is and makes it the parent of whatever its command leaves behind.
func (s *shim) ready() error {
	self, err := Self()
	if err != nil {
		return err
	}
	if s.self, err = json.Marshal(self); err != nil {
		return fmt.Errorf("encode identity: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	return nil
}

// tell writes to the daemon. It may be gone or not reading: what it must know is in the folder.
func (s *shim) tell(what byte, text string) {
	_, _ = unix.Write(notifyFd, append([]byte{what}, text...))
}

// run carries the command through from lock to result. An error means that it was not started. After one
// that ended by itself the shim may have the next.
func (s *shim) run() (reusable bool, err error) {
	fpShimBeforeLock.Hit()
	lock, err := s.lock()
	if err != nil {
		return false, err
	}
	defer lock.Close()
	fpShimAfterLock.Hit()

	if s.spec, err = load(s.dir, specFile, decodeSpec); err != nil {
		return false, err
	}
	switch {
	case s.spec.ID != s.id:
		return false, fmt.Errorf("spool folder %s is used for another command now", s.dir)
	case exists(s.dir, voidFile):
		return false, fmt.Errorf("spool folder %s is void", s.dir)
	case exists(s.dir, startedFile):
		return false, fmt.Errorf("the command of spool folder %s was started before", s.dir)
	case len(s.signals) > 0:
		return false, errors.New("killed before it was started")
	}
	// All that can fail of the sandbox comes before the command counts as started.
	cell, err := s.confine()
	if err != nil {
		return false, err
	}
	if cell != nil {
		defer cell.close()
	}
	out, err := os.OpenFile(filepath.Join(s.dir, outFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return false, fmt.Errorf("make output file: %w", err)
	}
	defer out.Close()
	s.rec = &recorder{file: out}
	if s.result, err = reserveResult(s.dir); err != nil {
		return false, err
	}
	defer s.result.Close()
	fpShimBeforeStarted.Hit()
	if err := create(s.dir, startedFile); err != nil {
		return false, err
	}
	fpShimAfterStarted.Hit()
	s.removed, s.left = nil, nil
	s.tell(tellStarted, "")
	res := s.execute(cell)
	if err := s.conclude(&res); err != nil {
		// The disk takes nothing: a living daemon can still be told, and record it elsewhere.
		raw, _ := json.Marshal(res)
		_ = unix.SetNonblock(notifyFd, false)
		s.tell(tellResult, string(raw))
		return false, nil
	}
	s.restBase()
	// The daemon learns of the end when this folder is let go: from then on nobody means it by this pid.
	lock.Close()
	s.tell(tellEnded, "")
	return res.reusable() && len(s.signals) == 0, nil
}

// confine readies what the spec's profile asks for; nil: nothing.
func (s *shim) confine() (*cell, error) {
	p := s.spec.Profile
	if p == nil {
		return nil, nil
	}
	if err := p.Limits.bound(); err != nil {
		return nil, err
	}
	if p.Limits.Processes > 0 && s.group == nil && !countedAlone(p) {
		s.group, _ = openPidGroup() // else the look has to do
	}
	if !p.confines() {
		return nil, nil
	}
	p.locate()
	return s.newCell(*p)
}

// lock takes the folder for this shim's life and writes its identity down.
func (s *shim) lock() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take lock: %w", err), f.Close())
	}
	if _, err := f.WriteAt(s.self, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("write lock: %w", err), f.Close())
	}
	return f, nil
}

// conclude puts the result on disk.
func (s *shim) conclude(res *ProcessResult) error {
	s.rec.result(res)
	fpShimBeforeResult.Hit()
	s.rec.sync()
	if err := writeResult(s.dir, s.result, *res); err != nil {
		return err
	}
	fpShimAfterResult.Hit()
	return nil
}

// reusable reports whether the shim of a command that ended like this may have another: not if it was
// told to end, for it might be told once more.
func (r ProcessResult) reusable() bool { return !r.Killed && !r.TimedOut && r.Limit == "" }
