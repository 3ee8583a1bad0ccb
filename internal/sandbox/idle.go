package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// ErrIdle says that a program was ended because it did nothing for as long as Launch.Idle says.
var ErrIdle = errors.New("it did nothing and was ended")

// looksWithin is how often a program is looked at in the time that it may be idle.
const looksWithin = 6

// endIdle kills a program, and says so, when it has done nothing for a while: it was asleep at every look, used no time and has no child that might. Whoever can write in a
// workspace can put a pipe there that nobody ever writes to, and have git wait for it. Waiting for a disk is not sleep.
func endIdle(pid int, most time.Duration, ended <-chan struct{}) bool {
	look := time.NewTicker(most / looksWithin)
	defer look.Stop()
	last, same := "", 0
	for {
		select {
		case <-ended:
			return false
		case <-look.C:
		}
		used := idleSince(pid)
		if used == "" || used != last {
			last, same = used, 0
			continue
		}
		if same++; same >= looksWithin {
			return syscall.Kill(-pid, syscall.SIGKILL) == nil
		}
	}
}

// idleSince is what a program that sleeps without a child has used so far; empty of any other.
func idleSince(pid int) string {
	proc := "/proc/" + strconv.Itoa(pid)
	raw, err := os.ReadFile(proc + "/stat")
	if err != nil {
		return ""
	}
	st, err := parseStat(raw)
	if err != nil || st.state != 'S' {
		return ""
	}
	children, err := os.ReadFile(fmt.Sprintf("%s/task/%d/children", proc, pid))
	if err != nil || len(bytes.TrimSpace(children)) > 0 {
		return ""
	}
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	return string(bytes.Join(fields[11:13], []byte(" "))) // the time it used itself, and in the kernel
}
