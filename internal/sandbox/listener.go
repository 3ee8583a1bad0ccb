package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A program sets the priority, the processors and the limits of its own threads and children by their numbers, and by the same calls those
// of any process of the user: of the daemon, of other tasks. A filter sees a number and not whose it is, so the kernel asks the shim.
//
// The number is in a register and cannot be exchanged after it was judged. It could mean another process by then only if the
// judged one ended, and the kernel had used up all other numbers in between.

// aimed is a call that changes the process or thread that one of its arguments names; zero is the caller.
type aimed struct {
	nr  uint32
	arg uint32 // offset of the number
	// kinds: the argument before says what is named, and only process is one process; the others are groups and users.
	kinds   bool
	process uint32
}

var aimedCalls = []aimed{
	{nr: unix.SYS_SETPRIORITY, arg: dataArg1, kinds: true, process: unix.PRIO_PROCESS},
	{nr: unix.SYS_IOPRIO_SET, arg: dataArg1, kinds: true, process: 1},
	{nr: unix.SYS_PRLIMIT64, arg: dataArg0},
	{nr: unix.SYS_SCHED_SETAFFINITY, arg: dataArg0},
	{nr: unix.SYS_SCHED_SETSCHEDULER, arg: dataArg0},
	{nr: unix.SYS_SCHED_SETPARAM, arg: dataArg0},
	{nr: unix.SYS_SCHED_SETATTR, arg: dataArg0},
	{nr: unix.SYS_MIGRATE_PAGES, arg: dataArg0},
	{nr: unix.SYS_MOVE_PAGES, arg: dataArg0},
}

// notification is a call that waits for an answer (struct seccomp_notif).
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// reply is that answer (struct seccomp_notif_resp).
type reply struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// listener answers the calls of a command that name a process.
type listener struct {
	file *os.File
	done chan struct{}
}

// enforceAsking puts the filter of a command on the calling thread and all that it will start. Where the kernel asks nobody, as in a
// sandbox in another one, there is no listener, and a command can name itself by zero only.
func enforceAsking(network Network, cut closed) (*listener, error) {
	cut.asks = true
	f := systemCalls(network, cut)
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(f)
	if errno != 0 {
		cut.asks = false
		return nil, systemCalls(network, cut).enforce()
	}
	_ = unix.SetNonblock(int(fd), true) // so that closing it wakes who waits
	l := &listener{file: os.NewFile(fd, "seccomp"), done: make(chan struct{})}
	go l.serve()
	return l, nil
}

func (l *listener) close() {
	if l != nil {
		_ = l.file.Close()
		<-l.done
	}
}

// serve answers until the listener is closed or nobody is left to ask.
func (l *listener) serve() {
	defer close(l.done)
	defer l.file.Close() // from then on calls fail, and do not wait
	conn, err := l.file.SyscallConn()
	if err == nil {
		_ = conn.Read(func(fd uintptr) bool { return answerAll(int(fd)) })
	}
}

// answerAll answers what waits, and reports whether it was the last.
func answerAll(fd int) (last bool) {
	for {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(ready, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || n > 0 && ready[0].Revents&unix.POLLIN == 0:
			return true
		case n == 0:
			return false
		default:
			answerOne(fd)
		}
	}
}

// answerOne answers one call. Who asked may be gone by now: that is no error.
func answerOne(fd int) {
	var call notification
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&call))); errno != 0 {
		return
	}
	said := reply{id: call.id, errno: -int32(unix.EPERM)}
	if target, ok := call.target(); ok && descends(target, os.Getpid()) {
		said.errno, said.flags = 0, unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&said)))
}

// target is the process or thread that the call names.
func (n notification) target() (int, bool) {
	for _, c := range aimedCalls {
		if int32(c.nr) == n.nr {
			return int(int32(n.args[(c.arg-dataArg0)/8])), true
		}
	}
	return 0, false
}

// descends reports whether a process or thread is below root, and not root's own.
func descends(pid, root int) bool {
	for range 3 { // a parent that ends meanwhile leaves its children to another
		if yes, err := tryDescends(pid, root); err == nil {
			return yes
		}
	}
	return false
}

func tryDescends(pid, root int) (bool, error) {
	if pid <= 0 {
		return false, nil
	}
	st, err := readStat(pid) // of a thread, too, which has its process's parent
	if err != nil {
		return false, err
	}
	for range 1000 {
		if st.ppid == root {
			return true, nil
		}
		if st.ppid <= 1 {
			return false, nil
		}
		parent, err := readStat(st.ppid)
		if err != nil {
			return false, err
		}
		if parent.startedAfter(st) {
			return false, fmt.Errorf("process %d is not the parent of %d", parent.pid, st.pid)
		}
		st = parent
	}
	return false, nil
}
