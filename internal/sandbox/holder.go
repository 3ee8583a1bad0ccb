package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"taskdaemon/internal/td"
)

// Self is this process as a holder of claims and locks.
func Self() (td.Holder, error) {
	boot, err := BootID()
	if err != nil {
		return td.Holder{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		return td.Holder{}, fmt.Errorf("read host name: %w", err)
	}
	st, err := readStat(os.Getpid())
	if err != nil {
		return td.Holder{}, err
	}
	return td.Holder{Host: host, Boot: boot, Pid: st.pid, Start: st.start}, nil
}

// Alive reports whether the holder's process still runs. Of another host nobody here can tell, so its
// processes count as alive; another boot of this host ended them all.
func Alive(h td.Holder) bool {
	host, err := os.Hostname()
	if err != nil || h.Host != host {
		return true
	}
	boot, err := BootID()
	if err != nil {
		return true
	}
	return h.Boot == boot && samePid(h)
}

// samePid reports whether the process with the holder's pid is the holder's, on this boot.
func samePid(h td.Holder) bool {
	st, err := readStat(h.Pid)
	return err == nil && st.start == h.Start && !st.dead()
}

// BootID names this boot of the host: what was not synced before another boot may be gone.
var BootID = sync.OnceValues(func() (string, error) {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
})

// stat is what this package needs of /proc/<pid>/stat.
type stat struct {
	pid, ppid, pgid int
	session         int
	state           byte
	threads         int
	start           string // clock ticks since boot: with the pid it names a process of this boot
}

// startedAfter reports whether s is younger than other, and so cannot have started it. What cannot be told is no sign.
func (s stat) startedAfter(other stat) bool {
	a, aerr := strconv.ParseUint(s.start, 10, 64)
	b, berr := strconv.ParseUint(other.start, 10, 64)
	return aerr == nil && berr == nil && a > b
}

// dead reports a process that ended and was not yet waited for. One of which the first thread alone has ended goes on.
func (s stat) dead() bool { return s.zombie() && s.threads <= 1 }

// zombie reports that the first thread has ended.
func (s stat) zombie() bool { return s.state == 'Z' || s.state == 'X' || s.state == 'x' }

func readStat(pid int) (stat, error) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return stat{}, fmt.Errorf("read process %d: %w", pid, err)
	}
	return parseStat(raw)
}

// parseStat reads a line of /proc/<pid>/stat. The program's name stands in parentheses and may itself
// hold spaces and parentheses, so the fields are counted from the last one.
func parseStat(raw []byte) (stat, error) {
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 1 || end < open {
		return stat{}, fmt.Errorf("parse process status %.80q: no name in it", raw)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(raw[:open])))
	fields := bytes.Fields(raw[end+1:])
	const startField = 19 // the 22nd of the line: pid and name are cut off
	if err != nil || len(fields) <= startField {
		return stat{}, fmt.Errorf("parse process status %.80q: too few fields", raw)
	}
	s := stat{pid: pid, state: fields[0][0], start: string(fields[startField])}
	s.ppid, err = strconv.Atoi(string(fields[1]))
	if err != nil {
		return stat{}, fmt.Errorf("parse parent in process status: %w", err)
	}
	s.pgid, err = strconv.Atoi(string(fields[2]))
	if err != nil {
		return stat{}, fmt.Errorf("parse group in process status: %w", err)
	}
	s.session, err = strconv.Atoi(string(fields[3]))
	if err != nil {
		return stat{}, fmt.Errorf("parse session in process status: %w", err)
	}
	const threadsField = 17
	s.threads, err = strconv.Atoi(string(fields[threadsField]))
	if err != nil {
		return stat{}, fmt.Errorf("parse threads in process status: %w", err)
	}
	return s, nil
}

// processes are all of /proc that can be read now.
func processes() ([]stat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []stat
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if st, err := readStat(pid); err == nil { // it may have ended since
			all = append(all, st)
		}
	}
	return all, nil
}
