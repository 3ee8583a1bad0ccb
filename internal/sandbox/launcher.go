package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	ossignal "os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The helper is started by any binary that this package is part of, tests among them: it must not depend on what their main function
// does. So it takes over before that.
func init() {
	if len(os.Args) >= 2 && (os.Args[0] == launcherName || os.Args[0] == launcherPlain) {
		os.Exit(launcherMain(os.Args[1:]))
	}
}

// launcherSocket is where the helper is told what to start.
const launcherSocket = 3

// maxJails is how many views are kept ready.
const maxJails = 64

// launcherMain is the helper. Its arguments are the scratch folder and, in a user namespace of its own, who it is outside.
func launcherMain(args []string) int {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(64 << 20)
	// The daemon's end of the socket says when to leave. Interrupts at the terminal are not meant for git.
	ossignal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGPIPE)
	unix.CloseOnExec(launcherSocket)
	h := &helper{jails: map[string]*jail{}}
	if err := h.ready(args); err != nil {
		h.say(hello{Failed: err.Error()})
		return 1
	}
	if err := h.serve(); err != nil {
		return 1
	}
	_ = os.RemoveAll(args[0])
	return 0
}

// helper starts programs for a Launcher.
type helper struct {
	island *island
	mounts bool
	wg     sync.WaitGroup

	mu    sync.Mutex
	jails map[string]*jail
	order []string // of jails, the one that was used least recently first
}

func (h *helper) say(what hello) {
	raw, _ := json.Marshal(what)
	_, _ = unix.Write(launcherSocket, raw)
}

// ready finds out what can be enforced here, and says so.
func (h *helper) ready(args []string) error {
	if len(args) == 3 {
		if err := settleAs(args[1], args[2]); err != nil {
			return err
		}
	}
	var missing []error
	var err error
	if h.island, err = newIsland(false); err != nil {
		missing = append(missing, err)
	}
	empty := View{Write: args[:1]}
	if os.Args[0] == launcherPlain {
		missing = append(missing, errors.New("mounts are not wanted"))
	} else if err := onThread(empty.mount); err != nil {
		if len(args) == 3 {
			return err // what the user namespace was for
		}
		missing = append(missing, err)
	} else {
		h.mounts = true
	}
	if err := onThread(func() error {
		more, err := empty.confine(h.island, h.mounts)
		missing = append(missing, more...)
		return err
	}); err != nil {
		return err
	}
	h.say(hello{Lacks: words(missing), Mounts: h.mounts})
	return nil
}

// serve starts programs until the daemon's end of the socket is closed, and waits for those that run.
func (h *helper) serve() error {
	defer h.wg.Wait()
	buf := make([]byte, 2*maxMessage)
	oob := make([]byte, unix.CmsgSpace(8*4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(launcherSocket, buf, oob, unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n == 0:
			return nil
		}
		files, err := received(oob[:oobn])
		if err != nil || len(files) <= controlAt {
			continue // nobody can be told
		}
		raw := slices.Clone(buf[:n])
		h.wg.Go(func() { h.start(raw, files) })
	}
}

// controlAt is where the control socket is among the files of a request: after the three of the program.
const controlAt = 3

func received(oob []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, err
		}
		for _, fd := range fds {
			if len(files) == controlAt {
				_ = unix.SetNonblock(fd, true) // so that closing it ends a read
			}
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return files, nil
}

// start starts a program and reports its end.
func (h *helper) start(raw []byte, files []*os.File) {
	control := files[controlAt]
	proc, idle, err := h.fork(raw, files)
	for _, f := range slices.Concat(files[:controlAt], files[controlAt+1:]) {
		_ = f.Close()
	}
	if err != nil {
		_, _ = control.Write(append([]byte{reportFailed}, err.Error()...))
		_ = control.Close()
		return
	}
	go func() {
		order := make([]byte, 1)
		for {
			n, err := control.Read(order)
			if err != nil || n == 0 {
				return // the end was reported, or the daemon is gone: then the program ends by itself
			}
			if order[0] == orderKill {
				_ = syscall.Kill(-proc.Pid, syscall.SIGKILL)
			}
		}
	}()
	_, _ = control.Write(await(proc, idle))
	_ = control.Close()
}

// await waits for a program and returns the report of its end.
func await(proc *os.Process, idle time.Duration) []byte {
	ended, endedIdle := make(chan struct{}), make(chan bool, 1)
	if idle > 0 {
		go func() { endedIdle <- endIdle(proc.Pid, idle, ended) }()
	} else {
		endedIdle <- false
	}
	state, err := proc.Wait()
	close(ended)
	if <-endedIdle {
		return []byte{reportIdle}
	}
	if err != nil {
		return append([]byte{reportFailed}, err.Error()...)
	}
	status, _ := state.Sys().(syscall.WaitStatus)
	return append([]byte{reportEnded}, strconv.Itoa(int(status))...)
}

func (h *helper) fork(raw []byte, files []*os.File) (proc *os.Process, idle time.Duration, err error) {
	if len(files) > controlAt+1 {
		if raw, err = readWhole(files[controlAt+1]); err != nil {
			return nil, 0, err
		}
	}
	var p Launch
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, 0, fmt.Errorf("read request: %w", err)
	}
	if !slices.Contains(p.View.Run, p.Path) {
		return nil, 0, fmt.Errorf("%s is not what may be run", p.Path)
	}
	var pid int
	var failed error
	err = h.within(p.View, func() {
		pid, failed = syscall.ForkExec(p.Path, p.Args, &syscall.ProcAttr{
			Dir: p.Dir, Env: p.Env, Files: []uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()},
			Sys: &syscall.SysProcAttr{Setpgid: true},
		})
	})
	if err != nil {
		return nil, 0, err
	}
	if failed != nil {
		return nil, 0, fmt.Errorf("run %s in %s: %w", p.Path, p.Dir, failed)
	}
	if p.Nice != 0 {
		_ = syscall.Setpriority(syscall.PRIO_PGRP, pid, p.Nice)
	}
	p.limit(pid)
	proc, err = os.FindProcess(pid)
	return proc, p.Idle, err
}

// limit bounds a program that has just been started.
func (p Launch) limit(pid int) {
	if p.Memory > 0 {
		_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: p.Memory, Max: p.Memory}, nil)
	}
	if p.CPU > 0 {
		most := uint64(p.CPU / time.Second)
		_ = unix.Prlimit(pid, unix.RLIMIT_CPU, &unix.Rlimit{Cur: most, Max: most + 1}, nil)
	}
}

func readWhole(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	raw := make([]byte, info.Size())
	if _, err := f.ReadAt(raw, 0); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	return raw, nil
}

// jail is a thread that has nothing but a view left. What it forks has no more.
type jail struct {
	once  sync.Once
	err   error
	work  chan func()
	users int // that are about to use it; guarded by the helper's lock
}

// within runs f on the thread for a view. That is made when it is first needed, and again when what the view names has become
// another file.
func (h *helper) within(v View, f func()) error {
	key := v.key()
	h.mu.Lock()
	j := h.jails[key]
	if j == nil {
		j = &jail{work: make(chan func())}
		h.jails[key] = j
	}
	j.users++
	h.order = append(slices.DeleteFunc(h.order, func(k string) bool { return k == key }), key)
	h.mu.Unlock()

	j.once.Do(func() { j.err = j.enter(v, h.island, h.mounts) })
	if j.err == nil {
		j.do(f)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	j.users--
	if j.err != nil && h.jails[key] == j {
		h.forget(key) // the next try may do better
	}
	for i := 0; i < len(h.order) && len(h.order) > maxJails; {
		if h.jails[h.order[i]].users > 0 {
			i++
			continue
		}
		h.forget(h.order[i])
	}
	return j.err
}

// forget ends a jail that nobody uses. The lock must be held.
func (h *helper) forget(key string) {
	j := h.jails[key]
	delete(h.jails, key)
	h.order = slices.DeleteFunc(h.order, func(k string) bool { return k == key })
	if j.err == nil && j.users == 0 {
		close(j.work)
	}
}

// key names the view by the files it is about: a folder that was removed and made again is another one. So is a file that something stands
// in for: when it is replaced, its stand-in is gone.
func (v View) key() string {
	var b strings.Builder
	for _, path := range slices.Concat(v.Read, []string{""}, v.Write, []string{""}, v.Run, []string{""}, v.Blank, slices.Sorted(maps.Keys(v.Files))) {
		var st unix.Stat_t
		_ = unix.Lstat(path, &st)
		fmt.Fprintf(&b, "%s\x00%d\x00%d\x00", path, st.Dev, st.Ino)
	}
	raw, _ := json.Marshal([]any{v.Files, v.Links})
	return b.String() + string(raw)
}

func (j *jail) enter(v View, is *island, mounts bool) error {
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: nothing else may run on this thread
		_, err := v.confine(is, mounts)
		ready <- err
		if err != nil {
			return
		}
		for f := range j.work {
			f()
		}
	}()
	return <-ready
}

// do runs f on the jail's thread.
func (j *jail) do(f func()) {
	done := make(chan struct{})
	j.work <- func() { defer close(done); f() }
	<-done
}
