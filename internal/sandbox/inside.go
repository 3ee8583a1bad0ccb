package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"taskdaemon/internal/td"
)

// Inside says why a process counts as one of a run, or nothing if it does not: it descends from this daemon or
// from a shim of this spool, it is of a shim's session, it carries the spool's marks, or it has given up what only
// those in a sandbox give up. One that cannot be looked at may be anything, and counts.
//
// A process can change its environment, hide it and, with full rights, leave its parents and its session; it cannot
// take back that it gave up new privileges, and a process that the sandbox confines has.
func Inside(spoolDir string, pid int) string {
	self := os.Getpid()
	if pid == self {
		return ""
	}
	st, err := readStat(pid)
	if err != nil {
		return "it is gone already"
	}
	who, err := readStatus(pid)
	if err != nil {
		return "it is gone already"
	}
	if own, err := readStatus(self); err == nil && who.confined && !own.confined {
		return "it runs in a sandbox"
	} else if own.confined && foreign(pid, self) {
		// Where the daemon itself has given them up, its namespaces tell.
		return "it runs in a sandbox"
	}
	shims, err := shimsOf(spoolDir)
	if err != nil {
		return "nobody can tell which commands run"
	}
	for range 1000 { // the list is no snapshot: a pid used anew could make a circle
		marks, err := readMarks(st.pid)
		switch {
		case st.pid == self:
			return "it was started by the daemon"
		case marks[envSpool] == spoolDir, shims.hold(st):
			return "it belongs to a command of a run"
		case err != nil && (st.pid == pid || !introduced(st)):
			return "it, or who started it, hides its environment"
		}
		if st.ppid <= 1 {
			return ""
		}
		parent, err := readStat(st.ppid)
		if err != nil || parent.startedAfter(st) {
			return "its parents are gone"
		}
		st = parent
	}
	return "it has too many parents"
}

// Confined reports whether this process has given up what those in a sandbox give up.
func Confined() bool { return ConfinedProcess(os.Getpid()) }

// ConfinedProcess reports whether a process has given up what those in a sandbox give up.
func ConfinedProcess(pid int) bool {
	st, err := readStatus(pid)
	return err == nil && st.confined
}

// introduced reports whether a process that cannot be looked into was started for its user by another user, as root's
// sshd and login start theirs. A command's process has its own user's for a parent, or init.
func introduced(st stat) bool {
	own, err := readStatus(st.pid)
	if err != nil {
		return false
	}
	if int(own.uid) != os.Geteuid() {
		return true // no command becomes another user
	}
	parent, err := readStatus(st.ppid)
	return err == nil && st.ppid > 1 && parent.uid != own.uid
}

// status is what this package needs of /proc/<pid>/status.
type status struct {
	confined bool   // it gave up new privileges for good
	uid      uint64 // whose it is
}

func readStatus(pid int) (status, error) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return status{}, fmt.Errorf("read process %d: %w", pid, err)
	}
	return parseStatus(string(raw))
}

func parseStatus(raw string) (status, error) {
	var s status
	found := 0
	for line := range strings.SplitSeq(raw, "\n") {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		switch name {
		case "NoNewPrivs":
			s.confined = fields[0] != "0"
			found++
		case "Uid":
			uid, err := strconv.ParseUint(fields[0], 10, 32)
			if err != nil {
				return status{}, fmt.Errorf("parse owner in process status: %w", err)
			}
			s.uid = uid
			found++
		}
	}
	if found != 2 {
		return status{}, fmt.Errorf("parse process status %.80q: no owner, or not what it gave up", raw)
	}
	return s, nil
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

// shims are those that work, or worked, in a spool, by pid.
type shims map[int]td.Holder

// shimsOf reads the locks alone, dead shims' included: it is asked at every connection.
func shimsOf(spoolDir string) (shims, error) {
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	dirs, err := os.ReadDir(spoolDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read spool folder: %w", err)
	}
	known := shims{}
	for _, d := range dirs {
		if h, err := load(filepath.Join(spoolDir, d.Name()), lockFile, decodeHolder); err == nil && h.Boot == boot {
			known[h.Pid] = h
		}
	}
	return known, nil
}

// hold reports whether a process is a shim or of a shim's session. The kernel does not use the number of a session for
// another process while anybody is in it, so that a dead shim's session is known, too.
func (s shims) hold(st stat) bool {
	h, ok := s[st.session]
	if !ok {
		return false
	}
	leader, err := readStat(st.session)
	return err != nil || leader.start == h.Start
}
