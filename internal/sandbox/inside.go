package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Inside says why a process counts as one of a run, or nothing if it does not: it descends from this daemon or
// from a shim of this spool, it carries the spool's marks, or it has given up what only those in a sandbox
// give up. One that cannot be looked at may be anything, and counts.
//
// A process can change its environment and, with full rights, leave its parents; it cannot take back that it
// gave up new privileges, and a process that the sandbox confines has.
func Inside(spoolDir string, pid int) string {
	self := os.Getpid()
	if pid == self {
		return ""
	}
	st, err := readStat(pid)
	if err != nil {
		return "it is gone already"
	}
	if confinedAs, err := privileges(pid); err != nil {
		return "it is gone already"
	} else if own, err := privileges(self); err == nil && confinedAs && !own {
		return "it runs in a sandbox"
	} else if own && foreign(pid, self) {
		// Where the daemon itself has given them up, its namespaces tell.
		return "it runs in a sandbox"
	}
	for range 1000 { // the list is no snapshot: a pid used anew could make a circle
		switch {
		case st.pid == self:
			return "it was started by the daemon"
		case environ(st.pid)[envSpool] == spoolDir, shimOf(st.pid, spoolDir):
			return "it belongs to a command of a run"
		}
		if st.ppid <= 1 {
			return ""
		}
		if st, err = readStat(st.ppid); err != nil {
			return "its parents are gone"
		}
	}
	return "it has too many parents"
}

// privileges reports whether a process gave up new privileges for good.
func privileges(pid int) (bool, error) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return false, err
	}
	for line := range strings.SplitSeq(string(raw), "\n") {
		if value, ok := strings.CutPrefix(line, "NoNewPrivs:"); ok {
			return strings.TrimSpace(value) == "1", nil
		}
	}
	return false, fmt.Errorf("the kernel does not say what process %d gave up", pid)
}

// foreign reports whether two processes see different files, networks or users.
func foreign(pid, other int) bool {
	for _, ns := range []string{"mnt", "net", "user"} {
		a, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns))
		b, berr := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", other, ns))
		if err != nil || berr != nil || a != b {
			return true
		}
	}
	return false
}

// shimOf reports whether a process is a shim that works in this spool, as its lock there says.
func shimOf(pid int, spoolDir string) bool {
	args := strings.Split(string(cmdlineOf(pid)), "\x00")
	if len(args) < 2 || args[1] != "exec" {
		return false
	}
	entries, err := list(spoolDir)
	if err != nil {
		return true // nobody can tell
	}
	for _, e := range entries {
		if e.Shim.Pid == pid {
			return true
		}
	}
	return false
}

func cmdlineOf(pid int) []byte {
	raw, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return raw
}
