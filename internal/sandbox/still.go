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
//
// It can die meanwhile, by a SIGKILL of its own timer, and the kernel writes into its memory then, which may be that of a file: so whoever judges files asks afterwards how many are left.
type stillness struct {
	let   chan struct{}
	gone  chan struct{}
	again chan chan holding
}

// holding is how many threads are held, when none moves.
type holding struct {
	threads int
	err     error
}

// stillTree holds the tree below this process, and returns when nothing of it moves.
func stillTree() (*stillness, error) {
	s := &stillness{let: make(chan struct{}), gone: make(chan struct{}), again: make(chan chan holding)}
	go func() {
		defer close(s.gone)
		runtime.LockOSThread() // and never unlocked: the end of the thread lets go
		for traced := map[int]bool{}; ; {
			select {
			case <-s.let:
				return
			case to := <-s.again:
				threads, err := traceTree(os.Getpid(), traced)
				to <- holding{threads, err}
			}
		}
	}()
	if _, err := s.settle(); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

// settle returns how many threads are held, when none of them moves, nor dies.
func (s *stillness) settle() (threads int, err error) {
	to := make(chan holding)
	s.again <- to
	now := <-to
	return now.threads, now.err
}

// release lets the tree go on.
func (s *stillness) release() {
	close(s.let)
	<-s.gone
}

// traceTree has this thread trace all threads below root, until none of them moves, and says how many there are.
func traceTree(root int, traced map[int]bool) (threads int, err error) {
	for begin, clean := time.Now(), 0; clean < stillPasses; {
		moves := ""
		threads = 0
		for _, st := range descendants(root) {
			tids, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(st.pid), "task"))
			for _, t := range tids {
				tid, err := strconv.Atoi(t.Name())
				if err != nil {
					continue
				}
				still, gone, err := holdThread(st.pid, tid, traced)
				if err != nil {
					return 0, fmt.Errorf("hold process %d: %w", st.pid, err)
				}
				if !gone {
					threads++
				}
				if !still {
					moves = strconv.Itoa(st.pid)
				}
			}
		}
		switch clean++; {
		case moves == "":
		case time.Since(begin) > stillWithin:
			return 0, fmt.Errorf("hold process %s: it goes on", moves)
		default:
			clean = 0
			time.Sleep(200 * time.Microsecond)
		}
	}
	return threads, nil
}

// holdThread traces and interrupts a thread, and reports whether it does not move any more, and whether it is gone.
func holdThread(pid, tid int, traced map[int]bool) (still, gone bool, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "task", strconv.Itoa(tid))
	raw, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return true, true, nil //nolint:nilerr // it is gone
	}
	st, err := parseStat(raw)
	if err != nil || st.zombie() {
		return true, true, nil //nolint:nilerr // the kernel writes the line
	}
	if traced[tid] && (st.state == 't' || st.state == 'D' && forking(dir)) {
		return true, false, nil
	}
	// A child of a thread that is traced is traced, too, and so is not new to the kernel.
	if traced[tid] = unix.PtraceInterrupt(tid) == nil; traced[tid] {
		return false, false, nil
	}
	switch err := seize(tid); {
	case err == nil:
		traced[tid] = true
		_ = unix.PtraceInterrupt(tid)
		return false, false, nil
	case errors.Is(err, unix.ESRCH):
		return true, true, nil
	default:
		if raw, rerr := os.ReadFile(filepath.Join(dir, "stat")); rerr != nil {
			return true, true, nil //nolint:nilerr // it ended meanwhile
		} else if st, perr := parseStat(raw); perr == nil && st.zombie() {
			return true, true, nil
		}
		return false, false, err
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
