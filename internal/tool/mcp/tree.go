package mcp

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

// envMark is the variable by which the processes of servers are known: the pool's mark, then the number of the
// start. All that a server starts inherits it.
const envMark = "TASKDAEMON_MCP"

var fpBeforeStrays = failpoint.New("mcp.strays.before_kill")

// KillStrays ends the processes of servers that an earlier life of the daemon left behind, and counts them. The
// mark is that of the pool's Options; call it before the pool is used. It is keyed: what is gone is not found
// again, so an interrupted one is simply done again.
func KillStrays(mark string) (int, error) {
	if mark == "" {
		return 0, td.Errorf(td.Invalid, "kill strays: no mark")
	}
	ours := func(p proc) bool { return strings.HasPrefix(p.mark(), mark+"#") }
	found, err := procs(ours)
	if err != nil {
		return 0, err
	}
	fpBeforeStrays.Hit()
	if len(found) == 0 {
		return 0, nil
	}
	return len(found), end(ours)
}

// proc is one process of /proc.
type proc struct {
	pid, ppid, session int
	start              string // tells it from a later one of the same pid
}

// readProc reads a process that is alive.
func readProc(pid int) (proc, bool) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return proc{}, false
	}
	// The name, in parentheses, may contain anything.
	i := bytes.LastIndexByte(raw, ')')
	if i < 0 {
		return proc{}, false
	}
	f := strings.Fields(string(raw[i+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return proc{}, false
	}
	ppid, err1 := strconv.Atoi(f[1])
	session, err2 := strconv.Atoi(f[3])
	if err1 != nil || err2 != nil {
		return proc{}, false
	}
	return proc{pid: pid, ppid: ppid, session: session, start: f[19]}, true
}

// mark is the process's mark, if it has one that can be read.
func (p proc) mark() string {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "environ"))
	if err != nil {
		return ""
	}
	for kv := range bytes.SplitSeq(raw, []byte{0}) {
		if value, ok := bytes.CutPrefix(kv, []byte(envMark+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// procs are the living processes that are wanted, and what stands below them. This process is never one.
func procs(wanted func(proc) bool) ([]proc, error) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, td.Errorf(td.Internal, "list processes: %w", err)
	}
	var all, queue []proc
	found := map[int]bool{os.Getpid(): true, 1: true}
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		if p, ok := readProc(pid); ok {
			all = append(all, p)
			if !found[pid] && wanted(p) {
				found[pid] = true
				queue = append(queue, p)
			}
		}
	}
	for i := 0; i < len(queue); i++ {
		for _, p := range all {
			if p.ppid == queue[i].pid && !found[p.pid] {
				found[p.pid] = true
				queue = append(queue, p)
			}
		}
	}
	return queue, nil
}

// signal sends sig to p, and to no later process that got its pid.
func (p proc) signal(sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return // it has ended
	}
	defer unix.Close(fd)
	if now, ok := readProc(p.pid); ok && now.start == p.start {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// end kills until nothing is left: what forks while it is being listed is found the next time.
func end(wanted func(proc) bool) error {
	for range 200 {
		found, err := procs(wanted)
		if err != nil || len(found) == 0 {
			return err
		}
		for _, p := range found {
			p.signal(syscall.SIGKILL)
		}
		time.Sleep(2 * time.Millisecond) // a killed process takes a moment to go
	}
	return td.Errorf(td.Internal, "processes of a server cannot be killed")
}
