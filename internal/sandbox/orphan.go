package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var fpBeforeKillOrphan = failpoint.New("sandbox.orphan.before_kill")

// Orphan is a process of a tool that no shim looks after any more.
type Orphan struct {
	Process td.Holder
	Task    td.TaskID
	Run     td.RunID
	Step    td.StepKey
	Command string // its arguments, for people
}

// Orphans finds the processes that carry the marks of this spool and have no living shim above them:
// what is left when a shim itself is killed. A process that cleaned its environment is not found.
func Orphans(spoolDir string) ([]Orphan, error) {
	self, err := Self()
	if err != nil {
		return nil, err
	}
	// Processes first, shims second: a shim that starts in between is seen with its lock held.
	all, err := processes()
	if err != nil {
		return nil, err
	}
	entries, err := list(spoolDir)
	if err != nil {
		return nil, err
	}
	shims := map[int]bool{}
	for _, e := range entries {
		if e.State == StillRunning {
			shims[e.Shim.Pid] = true
		}
	}
	parents := map[int]int{}
	for _, st := range all {
		parents[st.pid] = st.ppid
	}
	var found []Orphan
	for _, st := range all {
		if st.dead() || st.pid == self.Pid || looked(st.pid, parents, shims) {
			continue
		}
		env := environ(st.pid)
		if env[envSpool] != spoolDir || env[envTask] == "" {
			continue
		}
		found = append(found, Orphan{
			Process: td.Holder{Host: self.Host, Boot: self.Boot, Pid: st.pid, Start: st.start},
			Task:    td.TaskID(env[envTask]), Run: td.RunID(env[envRun]), Step: td.StepKey(env[envStep]),
			Command: cmdline(st.pid),
		})
	}
	return found, nil
}

// looked reports whether a shim stands above pid.
func looked(pid int, parents map[int]int, shims map[int]bool) bool {
	for range len(parents) { // the list is no snapshot: a pid used anew could make a circle
		if shims[pid] {
			return true
		}
		if pid = parents[pid]; pid <= 1 {
			return false
		}
	}
	return false
}

// KillOrphan ends an orphan, and no later process that got its pid.
func KillOrphan(o Orphan) error {
	fpBeforeKillOrphan.Hit()
	if err := signal(o.Process, syscall.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill orphan %d: %w", o.Process.Pid, err)
	}
	return nil
}

// killStrays kills what is left of the command in dir after its shim died, and removes what it must not leave.
func killStrays(root, dir string) {
	sp, err := load(dir, specFile, decodeSpec)
	if err != nil {
		return
	}
	for range 10 { // what forks while it is being listed is found the next time
		orphans, err := Orphans(root)
		if err != nil {
			return
		}
		killed := 0
		for _, o := range orphans {
			if o.Task == sp.Task && o.Step == sp.Step {
				_ = KillOrphan(o)
				killed++
			}
		}
		if killed == 0 {
			break
		}
	}
	removeIntruders(dir, sp)
}

// environ are the marks in the environment that a process was started with; empty when it cannot be read.
func environ(pid int) map[string]string {
	env, _ := readMarks(pid)
	return env
}

func readMarks(pid int) (map[string]string, error) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return nil, fmt.Errorf("read environment of process %d: %w", pid, err)
	}
	env := map[string]string{}
	for kv := range strings.SplitSeq(string(raw), "\x00") {
		if name, value, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, "TASKDAEMON_") {
			env[name] = value
		}
	}
	return env, nil
}

// cmdline is what a process runs, on one bounded line.
func cmdline(pid int) string {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return ""
	}
	line := strings.Join(strings.Fields(strings.ReplaceAll(string(raw), "\x00", " ")), " ")
	return strings.ToValidUTF8(line[:min(len(line), 200)], "")
}
