package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stillWithin is how long it may take until nothing of a command moves any more.
const stillWithin = 3 * time.Second

// stillPasses is how often in a row nothing may be found that moves: what was forked while the list was read is on the next one.
const stillPasses = 3

// stillness keeps all that runs below this process from running on. It is traced, not stopped: a stopped process goes on at the
// next SIGCONT, which a timer of its own can send it. It goes on when the thread that traces it ends, however that ends.
type stillness struct {
	let  chan struct{}
	gone chan struct{}
}

// stillTree holds the tree below this process, and returns when nothing of it moves.
func stillTree() (*stillness, error) {
	s := &stillness{let: make(chan struct{}), gone: make(chan struct{})}
	ready := make(chan error)
	go func() {
		defer close(s.gone)
		runtime.LockOSThread() // and never unlocked: the end of the thread lets go
		ready <- traceTree(os.Getpid())
		<-s.let
	}()
	err := <-ready
	if err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

// release lets the tree go on.
func (s *stillness) release() {
	close(s.let)
	<-s.gone
}

// traceTree has this thread trace all threads below root, until none of them moves.
func traceTree(root int) error {
	traced := map[int]bool{}
	for begin, clean := time.Now(), 0; clean < stillPasses; {
		moves := ""
		for _, st := range descendants(root) {
			tids, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(st.pid), "task"))
			for _, t := range tids {
				tid, err := strconv.Atoi(t.Name())
				if err != nil {
					continue
				}
				still, err := holdThread(st.pid, tid, traced)
				if err != nil {
					return fmt.Errorf("hold process %d: %w", st.pid, err)
				}
				if !still {
					moves = strconv.Itoa(st.pid)
				}
			}
		}
		switch clean++; {
		case moves == "":
		case time.Since(begin) > stillWithin:
			return fmt.Errorf("hold process %s: it goes on", moves)
		default:
			clean = 0
			time.Sleep(200 * time.Microsecond)
		}
	}
	return nil
}

// holdThread traces and interrupts a thread, and reports whether it does not move any more.
func holdThread(pid, tid int, traced map[int]bool) (still bool, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "task", strconv.Itoa(tid))
	raw, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return true, nil //nolint:nilerr // it is gone
	}
	st, err := parseStat(raw)
	if err != nil || st.zombie() {
		return true, nil //nolint:nilerr // the kernel writes the line
	}
	if traced[tid] && (st.state == 't' || st.state == 'D' && forking(dir)) {
		return true, nil
	}
	// A child of a thread that is traced is traced, too, and so is not new to the kernel.
	if traced[tid] = unix.PtraceInterrupt(tid) == nil; traced[tid] {
		return false, nil
	}
	switch err := seize(tid); {
	case err == nil:
		traced[tid] = true
		_ = unix.PtraceInterrupt(tid)
		return false, nil
	case errors.Is(err, unix.ESRCH):
		return true, nil
	default:
		if raw, rerr := os.ReadFile(filepath.Join(dir, "stat")); rerr != nil {
			return true, nil //nolint:nilerr // it ended meanwhile
		} else if st, perr := parseStat(raw); perr == nil && st.zombie() {
			return true, nil
		}
		return false, err
	}
}

// seize traces a thread, and whatever it starts from then on.
func seize(tid int) error {
	const children = unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACECLONE
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(tid), 0, children, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// forks are the calls in which a thread waits for its child to execute something, and cannot be interrupted.
var forks = append([]int{unix.SYS_CLONE, unix.SYS_CLONE3}, map[string][]int{"amd64": {58}}[runtime.GOARCH]...) // vfork

// forking reports whether a thread waits like that: it goes on after the child, which is held.
func forking(dir string) bool {
	raw, err := os.ReadFile(filepath.Join(dir, "syscall"))
	if err != nil {
		return false
	}
	number, _, _ := strings.Cut(string(raw), " ")
	n, err := strconv.Atoi(number)
	return err == nil && slices.Contains(forks, n)
}
