package sandbox

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/td"
)

// descendants are the living processes below root, children before grandchildren.
func descendants(root int) []stat {
	all, err := processes()
	if err != nil {
		return nil
	}
	children := map[int][]stat{}
	for _, st := range all {
		children[st.ppid] = append(children[st.ppid], st)
	}
	var found []stat
	seen := map[int]bool{root: true}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, st := range children[queue[0]] {
			if seen[st.pid] {
				continue // pids used anew while the list was read
			}
			seen[st.pid] = true
			queue = append(queue, st.pid)
			if !st.dead() {
				found = append(found, st)
			}
		}
	}
	return found
}

// signalTree sends sig to all that runs below root, and not to root. Whole process groups are signalled
// at once, because the kernel lets no fork slip out of a group that is being killed.
func signalTree(root int, sig syscall.Signal) {
	own, _ := unix.Getpgid(root)
	groups := map[int]bool{}
	for _, st := range descendants(root) {
		if st.pgid == own || st.pgid <= 1 {
			_ = syscall.Kill(st.pid, sig)
			continue
		}
		if !groups[st.pgid] {
			groups[st.pgid] = true
			_ = syscall.Kill(-st.pgid, sig)
		}
	}
}

// killChildren kills the direct children of this process. It reads one small file where the kernel
// offers it, so that it is faster than a chain of processes that each start the next one and exit: all
// of those become children of the subreaper.
func killChildren() {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range tasks {
		raw, err := os.ReadFile("/proc/self/task/" + t.Name() + "/children")
		if err != nil {
			return
		}
		for _, f := range strings.Fields(string(raw)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 1 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// signal sends sig to the process that h names, and to no later one that got its pid.
func signal(h td.Holder, sig syscall.Signal) error {
	if h.Pid <= 1 {
		return unix.ESRCH
	}
	fd, err := unix.PidfdOpen(h.Pid, 0)
	if err != nil {
		if errors.Is(err, unix.ENOSYS) { // before Linux 5.3: the window is a few microseconds
			if !samePid(h) {
				return unix.ESRCH
			}
			return unix.Kill(h.Pid, sig)
		}
		return err
	}
	defer unix.Close(fd)
	if !samePid(h) {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}
