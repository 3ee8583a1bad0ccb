package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// auditArch is how the kernel names the processor of this program; zero: no filter is known for it.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]

// forbidden are the calls that nothing else stands in the way of: kernel keyrings hold a session's secrets,
// io_uring opens sockets past a filter, and like the older io_setup it writes while its thread is held; secret memory is counted nowhere, and the rest are doors into the kernel that no build needs.
var forbidden = []uint32{
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_IO_SETUP, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_MEMFD_SECRET,
}

// Offsets in what the kernel shows to a filter.
const (
	dataNr   = 0
	dataArch = 4
	dataArg0 = 16 // the low half, on little-endian machines
	dataArg1 = 24
	dataArg2 = 32
	dataArg3 = 40
)

// filter is a program for the kernel in which every rule ends with an answer or goes on to the next.
type filter []unix.SockFilter

func (f *filter) load(offset uint32) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
}

// when answers errno if the loaded word compares like this; otherwise the program goes on.
func (f *filter) when(compare uint16, k uint32, errno unix.Errno) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | compare | unix.BPF_K, Jt: 0, Jf: 1, K: k}, answer(errno))
}

// unless is the opposite of when.
func (f *filter) unless(compare uint16, k uint32, errno unix.Errno) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | compare | unix.BPF_K, Jt: 1, Jf: 0, K: k}, answer(errno))
}

// only lets rules apply to one call; afterwards the call's number is loaded again.
func (f *filter) only(nr uint32, rules func(*filter)) {
	var inner filter
	rules(&inner)
	inner.load(dataNr)
	*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: uint8(len(inner)), K: nr})
	*f = append(*f, inner...)
}

func answer(errno unix.Errno) unix.SockFilter {
	verdict := uint32(unix.SECCOMP_RET_ALLOW)
	if errno != 0 {
		verdict = unix.SECCOMP_RET_ERRNO | uint32(errno)
	}
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: verdict}
}

// closed is what a filter takes away where no namespace does.
type closed struct {
	network bool // all but unix ones
	// Unix ones that could be connected to somebody: a filter cannot see to whom. Pairs, which are what processes
	// of one command talk through, are made by another call and stay.
	unix   bool
	memory bool   // memory, queues and semaphores of System V, which all processes of a user share
	modes  uint32 // bits of a mode that no file may be given
	asks   bool   // not taken away: a listener says which processes a command may change
}

// systemV are the calls by which processes that do not know each other share memory, and the like.
var systemV = []uint32{unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMCTL, unix.SYS_SEMTIMEDOP}

// systemCalls is the filter of a command.
func systemCalls(network Network, cut closed) filter {
	var f filter
	f.load(dataArch)
	f.unless(unix.BPF_JEQ, auditArch, unix.ENOSYS) // another way into the kernel would pass all that follows
	f.load(dataNr)
	if runtime.GOARCH == "amd64" {
		f.when(unix.BPF_JGE, 0x40000000, unix.ENOSYS) // x32: the same calls by other numbers
	}
	for _, nr := range forbidden {
		f.when(unix.BPF_JEQ, nr, unix.EPERM)
	}
	// Its flags are in memory, where a filter cannot look; all libraries go on with clone.
	f.when(unix.BPF_JEQ, unix.SYS_CLONE3, unix.ENOSYS)
	for _, nr := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
		f.only(nr, func(f *filter) { // in a namespace of its own a command would have every capability
			f.load(dataArg0)
			f.when(unix.BPF_JSET, unix.CLONE_NEWUSER, unix.EPERM)
		})
	}
	if cut.memory {
		for _, nr := range systemV {
			f.when(unix.BPF_JEQ, nr, unix.EPERM)
		}
	}
	f.refuseModes(cut.modes)
	for _, call := range aimedCalls {
		f.only(call.nr, func(f *filter) {
			if call.kinds { // its group may hold the shim, and its user has all other processes
				f.load(call.arg - 8)
				f.unless(unix.BPF_JEQ, call.process, unix.EPERM)
			}
			f.load(call.arg)
			f.when(unix.BPF_JEQ, 0, 0)
			if cut.asks {
				*f = append(*f, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
			} else {
				*f = append(*f, answer(unix.EPERM))
			}
		})
	}
	f.only(unix.SYS_IOCTL, func(f *filter) { // types into a terminal
		f.load(dataArg1)
		f.when(unix.BPF_JEQ, unix.TIOCSTI, unix.EPERM)
		f.when(unix.BPF_JEQ, unix.TIOCLINUX, unix.EPERM)
	})
	f.only(unix.SYS_SOCKET, func(f *filter) {
		f.load(dataArg0)
		if cut.unix {
			f.when(unix.BPF_JEQ, unix.AF_UNIX, unix.EACCES)
		}
		switch {
		case network == NetworkFull:
		case cut.network:
			f.unless(unix.BPF_JEQ, unix.AF_UNIX, unix.EAFNOSUPPORT)
		default:
			f.when(unix.BPF_JEQ, unix.AF_VSOCK, unix.EAFNOSUPPORT) // to a virtual machine's host, past every namespace
		}
	})
	return append(f, answer(0))
}

// enforce puts the filter on the calling thread and all that it will start.
func (f filter) enforce() error {
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(f)
	if errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	return nil
}
