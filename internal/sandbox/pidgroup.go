package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// pidGroup is a control group for the processes of a shim's commands: the kernel lets them have no more than it is told, threads
// included. The shim stays outside, so that it can always start threads of its own. A thread enters the group, forks the command there and
// leaves it again, which needs no lock that all of the machine shares.
//
// Version 1 is a hierarchy of its own. In version 2 the group is threaded, below the shim's own: no process has to be moved.
type pidGroup struct {
	dir         string
	enter, exit *os.File // of threads: the group's, and those of the one above
	max         *os.File
}

// pidGroupPrefix is how the names of groups begin; the rest is the shim's pid.
const pidGroupPrefix = "taskdaemon-"

// openPidGroup makes a group below the one that this process is in. A group that a killed shim left is removed.
func openPidGroup() (g *pidGroup, err error) {
	above, threads, err := pidHierarchy()
	if err != nil {
		return nil, err
	}
	sweepPidGroups(above)
	g = &pidGroup{dir: filepath.Join(above, pidGroupPrefix+strconv.Itoa(os.Getpid()))}
	if err := os.Mkdir(g.dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make control group: %w", err)
	}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	if threads == threadsV2 {
		// In this order: only the group above threaded ones may count for them and have processes itself.
		for _, f := range []struct{ path, text string }{{g.dir + "/cgroup.type", "threaded"}, {above + "/cgroup.subtree_control", "+pids"}} {
			if err := writeControl(f.path, f.text); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range []struct {
		file **os.File
		path string
	}{{&g.enter, g.dir + "/" + threads}, {&g.exit, above + "/" + threads}, {&g.max, g.dir + "/pids.max"}} {
		if *f.file, err = os.OpenFile(f.path, os.O_WRONLY, 0); err != nil {
			return nil, fmt.Errorf("open control group: %w", err)
		}
	}
	return g, nil
}

func writeControl(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open control group: %w", err)
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// The files of a group by which single threads are moved.
const (
	threadsV1 = "tasks"
	threadsV2 = "cgroup.threads"
)

// pidHierarchy finds the group of this process in which processes are counted, and the name of its file of threads.
func pidHierarchy() (dir, threads string, err error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", "", fmt.Errorf("read control groups: %w", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", "", fmt.Errorf("read mounts: %w", err)
	}
	dir, threads = findPidHierarchy(string(groups), string(mounts))
	if dir == "" {
		return "", "", errors.New("no control group that counts processes is mounted")
	}
	return dir, threads, nil
}

// findPidHierarchy is pidHierarchy, from what the kernel says of groups and mounts.
func findPidHierarchy(groups, mounts string) (dir, threads string) {
	for line := range strings.Lines(groups) {
		part := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(part) != 3 {
			continue
		}
		kind, option := "cgroup", "pids"
		threads = threadsV1
		if part[0] == "0" {
			kind, option, threads = "cgroup2", "", threadsV2
		} else if !slices.Contains(strings.Split(part[1], ","), option) {
			continue
		}
		if dir := mountedGroup(mounts, kind, option, part[2]); dir != "" {
			return dir, threads
		}
	}
	return "", ""
}

// mountedGroup is where a group of a hierarchy is mounted; empty: nowhere.
func mountedGroup(mounts, kind, option, group string) string {
	for line := range strings.Lines(mounts) {
		own, of, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		left, right := strings.Fields(own), strings.Fields(of)
		if !ok || len(left) < 5 || len(right) < 3 || right[0] != kind {
			continue
		}
		if option != "" && !slices.Contains(strings.Split(right[2], ","), option) {
			continue
		}
		rest, below := strings.CutPrefix(group, strings.TrimSuffix(left[3], "/"))
		if below && (rest == "" || rest[0] == '/') && !strings.Contains(group+"/", "/../") {
			return filepath.Join(left[4], rest)
		}
	}
	return ""
}

// sweepPidGroups removes groups of shims that are gone. One in which something still runs stays: the kernel refuses.
func sweepPidGroups(above string) {
	left, _ := filepath.Glob(filepath.Join(above, pidGroupPrefix+"*"))
	for _, dir := range left {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), pidGroupPrefix))
		if err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			_ = os.Remove(dir)
		}
	}
}

// with calls f, which forks on this thread, so that what it starts is of the group and bound to most.
func (g *pidGroup) with(most uint64, f func()) error {
	if _, err := g.max.WriteString(strconv.FormatUint(most, 10)); err != nil {
		return fmt.Errorf("bound control group: %w", err)
	}
	if _, err := g.enter.WriteString("0"); err != nil {
		return fmt.Errorf("enter control group: %w", err)
	}
	f()
	if _, err := g.exit.WriteString("0"); err != nil {
		return fmt.Errorf("leave control group: %w", err)
	}
	return nil
}

// freeze keeps all in the group from starting anything more: what is killed then stays the last.
func (g *pidGroup) freeze() {
	if g != nil {
		_, _ = g.max.WriteString("0")
	}
}

// close removes the group, unless something runs in it.
func (g *pidGroup) close() {
	if g == nil {
		return
	}
	for _, f := range []*os.File{g.enter, g.exit, g.max} {
		_ = f.Close()
	}
	_ = os.Remove(g.dir)
}
