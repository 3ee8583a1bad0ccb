package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/td"
)

// Launcher starts programs of the daemon's own, each in a View. A helper process (this binary again) does that for it: it readies a
// thread for each view once, and forks from there, so that confinement costs nothing per program. The helper leaves when this
// process ends, once the programs that still run have ended.
//
// The zero Launcher is ready for use, by many goroutines.
type Launcher struct {
	// WithoutMounts does as if nothing could be mounted here, for tests.
	WithoutMounts bool

	mu      sync.Mutex
	proc    *os.Process
	socket  int
	scratch string // kept over a helper that was killed: who asks for it has put files there
	lacks   []string
	mounts  bool
}

// Launch is a program to start.
type Launch struct {
	View View     `json:"view"`
	Path string   `json:"path"` // one of View.Run
	Args []string `json:"args"` // with its name
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	Nice int      `json:"nice,omitempty"`
	// Memory and CPU bound what it may take of its own, in bytes, and how long it may compute; zero: any.
	Memory uint64        `json:"memory,omitempty"`
	CPU    time.Duration `json:"cpu,omitempty"`
	Idle   time.Duration `json:"idle,omitempty"` // how long it may do nothing at all; zero: for ever

	Stdin, Stdout, Stderr *os.File `json:"-"`
}

// Launched is a program that a Launcher has started.
type Launched struct {
	control *os.File
}

// launcherName is the first argument of the helper, by which this binary knows what it is started for.
const (
	launcherName  = "taskdaemon-launcher"
	launcherPlain = "taskdaemon-launcher-without-mounts"
)

// What the helper reports on a program's control socket, each with the rest of the message; and what it is told there.
const (
	reportFailed = 'F' // it could not be started; why
	reportEnded  = 'E' // its wait status
	reportIdle   = 'I' // it was ended because it did nothing
	orderKill    = 'K' // end its process group
)

// maxMessage is the most that is sent in one message; a longer request goes through a file in memory.
const maxMessage = 48 << 10

// Scratch is a folder for files that live no longer than this process. Every program that is launched can write to it, and it is
// removed when the helper leaves.
func (l *Launcher) Scratch() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.ready()
	return l.shared(), err
}

func (l *Launcher) shared() string { return filepath.Join(l.scratch, "shared") }

// Private makes a folder that lives as long and that no program can write to unless its view says so.
func (l *Launcher) Private() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ready(); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(l.scratch, "private-")
	if err != nil {
		return "", td.Errorf(td.Storage, "make temporary folder: %w", err)
	}
	return dir, nil
}

// Lacks says what of the confinement this machine cannot enforce, and whether views are mounted, so that View.Files have an effect.
func (l *Launcher) Lacks() (lacks []string, mounts bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err = l.ready()
	return l.lacks, l.mounts, err
}

// Start starts a program.
func (l *Launcher) Start(p Launch) (*Launched, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ready(); err != nil {
		return nil, err
	}
	p.View.Write = append(p.View.Write[:len(p.View.Write):len(p.View.Write)], l.shared())
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("launch %s: %w", p.Path, err)
	}
	launched, err := l.send(p, raw)
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) { // the helper was killed
		l.leave()
		if err = l.ready(); err == nil {
			launched, err = l.send(p, raw)
		}
	}
	if err != nil {
		return nil, td.Errorf(td.Unavailable, "launch %s: %w", p.Path, err)
	}
	return launched, nil
}

// send hands a request over, with the files of the program and one end of its control socket.
func (l *Launcher) send(p Launch, raw []byte) (*Launched, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	// Not blocking: a reader of it can then be woken by closing it.
	_ = unix.SetNonblock(pair[0], true)
	launched := &Launched{control: os.NewFile(uintptr(pair[0]), "control")}
	fds := []int{int(p.Stdin.Fd()), int(p.Stdout.Fd()), int(p.Stderr.Fd()), pair[1]}
	if len(raw) > maxMessage {
		long, err := inMemory(raw)
		if err != nil {
			return nil, errors.Join(err, launched.control.Close())
		}
		defer long.Close()
		fds, raw = append(fds, int(long.Fd())), []byte("{}")
	}
	for {
		err = unix.Sendmsg(l.socket, raw, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, launched.control.Close())
	}
	return launched, nil
}

func inMemory(raw []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("launch", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	f := os.NewFile(uintptr(fd), "request")
	if _, err := f.Write(raw); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Wait returns when the program has ended.
func (p *Launched) Wait() (syscall.WaitStatus, error) {
	defer p.control.Close()
	buf := make([]byte, 4<<10)
	n, err := p.control.Read(buf)
	switch {
	case err != nil || n == 0:
		return 0, td.Errorf(td.Unavailable, "the process that starts programs is gone")
	case buf[0] == reportIdle:
		return 0, ErrIdle
	case buf[0] == reportFailed:
		return 0, td.Errorf(td.Unavailable, "%s", buf[1:n])
	}
	status, err := strconv.Atoi(string(buf[1:n]))
	if err != nil || buf[0] != reportEnded {
		return 0, td.Errorf(td.Internal, "read how a program ended: %.80q", buf[:n])
	}
	return syscall.WaitStatus(status), nil
}

// Kill ends the program and all of its process group. Wait must be called still.
func (p *Launched) Kill() { _, _ = p.control.Write([]byte{orderKill}) }

// ready starts the helper unless it is there. The lock must be held.
func (l *Launcher) ready() error {
	if l.proc != nil {
		return nil
	}
	var err error
	if l.scratch == "" {
		if l.scratch, err = makeScratch(); err != nil {
			return err
		}
	}
	// In a user namespace first, if that is needed for the mounts; where that does not work, without.
	tries := []bool{false}
	if !mayAdmin() {
		tries = []bool{true, false}
	}
	for _, nested := range tries {
		if err = l.spawn(nested); err == nil {
			return nil
		}
	}
	l.clear()
	return td.Errorf(td.Unavailable, "start the process that runs git: %w", err)
}

func makeScratch() (string, error) {
	scratch, err := os.MkdirTemp("", "taskdaemon-scratch-")
	if err == nil {
		scratch, err = filepath.EvalSymlinks(scratch)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(scratch, "shared"), 0o700)
	}
	if err != nil {
		return "", td.Errorf(td.Storage, "make folder for temporary files: %w", err)
	}
	return scratch, nil
}

// hello is what the helper says once it is ready.
type hello struct {
	Lacks  []string `json:"lacks,omitempty"`
	Mounts bool     `json:"mounts"`
	Failed string   `json:"failed,omitempty"`
}

func (l *Launcher) spawn(nested bool) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make socket: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "launcher")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return errors.Join(err, unix.Close(pair[0]))
	}
	defer null.Close()
	attr := &os.ProcAttr{
		Dir: "/", Env: []string{"PATH=" + os.Getenv("PATH")}, Files: []*os.File{null, null, null, theirs},
		Sys: &syscall.SysProcAttr{Setsid: true},
	}
	args := []string{launcherName, l.scratch}
	if l.WithoutMounts {
		args[0] = launcherPlain
	}
	if nested {
		nest(attr.Sys)
		args = append(args, strconv.Itoa(os.Geteuid()), strconv.Itoa(os.Getegid()))
	}
	proc, err := os.StartProcess("/proc/self/exe", args, attr)
	if err != nil {
		return errors.Join(err, unix.Close(pair[0]))
	}
	theirs.Close()
	var said hello
	if err = heard(pair[0], &said); err == nil && said.Failed != "" {
		err = errors.New(said.Failed)
	}
	if err != nil {
		_ = proc.Kill()
		_, _ = proc.Wait()
		return errors.Join(err, unix.Close(pair[0]))
	}
	l.proc, l.socket, l.lacks, l.mounts = proc, pair[0], said.Lacks, said.Mounts
	return nil
}

func heard(socket int, said *hello) error {
	buf := make([]byte, 4<<10)
	for {
		n, err := unix.Read(socket, buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
		return json.Unmarshal(buf[:n], said)
	}
}

// leave lets the helper go. The lock must be held.
func (l *Launcher) leave() {
	if l.proc == nil {
		return
	}
	_ = unix.Close(l.socket)
	_, _ = l.proc.Wait()
	l.proc = nil
}

// clear removes the temporary files. The lock must be held.
func (l *Launcher) clear() {
	_ = os.RemoveAll(l.scratch)
	l.scratch = ""
}

// Close ends the helper, after the programs that it started have ended.
func (l *Launcher) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave()
	l.clear()
}

// words are what a machine lacks, one by one.
func words(missing []error) (out []string) {
	for _, err := range missing {
		out = append(out, strings.TrimSpace(err.Error()))
	}
	return out
}
