package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// mostForks bounds what the tests here start, whatever holds or does not.
const mostForks = 3000

// forksMain waits to be let go and starts up to mostForks processes, with a letter for each in a file. At the kernel's bound it may end at any
// moment: Go's runtime gives up where it gets no thread.
func forksMain(dir string) int {
	for !exists(dir, "go") {
		_, _ = unix.Poll(nil, 5)
	}
	got, err := os.Create(filepath.Join(dir, "got"))
	if err != nil {
		return 1
	}
	for range mostForks {
		if _, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "60"}, &syscall.ProcAttr{}); err != nil {
			break
		}
		if _, err := got.WriteString("+"); err != nil {
			return 1
		}
	}
	return 0
}

// TestKernelBoundsProcesses has a command fork while its shim cannot look: nothing but the kernel holds it then.
func TestKernelBoundsProcesses(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	found, err := Check(t.Context(), self)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Name == "number of processes" && f.Hint != "" {
			t.Skip(f.Detail)
		}
	}
	for _, files := range []Files{WorkspaceWrite, Full} {
		t.Run(string(files), func(t *testing.T) {
			y := newYard(t)
			y.p.Files = files
			y.p.Limits.Processes = 100
			y.p.Write = append(y.p.Write, filepath.Dir(self))
			if err := unix.Mkfifo(y.work+"/never", 0o600); err != nil {
				t.Fatal(err)
			}
			// After it the shell stays, without another process.
			p := start(t, y.s, "cmd", y.command(": >ready; "+self+" forks "+y.work+"; : >over; read -t 60 <>never"))
			eventually(t, "it begins", func() bool { return exists(y.work, "ready") })
			entries, err := y.s.List()
			if err != nil || len(entries) != 1 {
				t.Fatal(entries, err)
			}
			if err := signal(entries[0].Shim, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			y.put(y.work+"/go", "")
			eventually(t, "it has forked", func() bool { return exists(y.work, "over") })
			raw, err := os.ReadFile(y.work + "/got")
			if err != nil {
				t.Fatal(err)
			}
			if err := signal(entries[0].Shim, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if got := len(raw); got < 100 || got > 100*threadsEach {
				t.Errorf("it started %d processes", got)
			}
			if res := wait(t, p); !strings.Contains(res.Limit, "processes") {
				t.Errorf("it was not ended: %+v", res)
			}
		})
	}
}

// TestKillAtOnce kills what a cell started, and nothing else.
func TestKillAtOnce(t *testing.T) {
	if landlockVersion() < landlockScope {
		t.Skip("signals do not end at the sandbox here")
	}
	y := newYard(t)
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	y.p.Files, y.p.Required = ReadOnly, false
	s := &shim{dir: t.TempDir()}
	c, err := s.openCell(y.p, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	var pid int
	c.do(func() {
		pid, err = syscall.ForkExec("/bin/sleep", []string{"sleep", "60"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})
	})
	if err != nil {
		t.Fatal(err)
	}
	c.killAtOnce()
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status.Signal() != syscall.SIGKILL {
		t.Errorf("what the cell started: %v, %v", status, err)
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the process outside: %v", err)
	}
	if state, err := os.ReadFile("/proc/" + strconv.Itoa(other.Process.Pid) + "/stat"); err != nil || strings.Contains(string(state), " Z ") {
		t.Errorf("the process outside: %s, %v", state, err)
	}
}

// TestPidGroupsAreSwept finds the group of a shim that was killed removed by the next one.
func TestPidGroupsAreSwept(t *testing.T) {
	above := t.TempDir()
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	for pid, stays := range map[string]bool{strconv.Itoa(gone.Process.Pid): false, strconv.Itoa(os.Getpid()): true, "mine": true} {
		dir := filepath.Join(above, pidGroupPrefix+pid)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		sweepPidGroups(above)
		if exists(above, filepath.Base(dir)) != stays {
			t.Errorf("%s stays: %v", pid, !stays)
		}
	}
}

func TestFindPidHierarchy(t *testing.T) {
	const v1 = "30 20 0:27 / /sys/fs/cgroup/pids rw,relatime shared:9 - cgroup cgroup rw,pids\n31 20 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
	const v2 = "25 20 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	const inner = "25 20 0:22 /docker/abc /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
	for _, c := range []struct{ groups, mounts, dir, threads string }{
		{"9:name=systemd:/x\n8:pids:/a/b\n0::/\n", v1, "/sys/fs/cgroup/pids/a/b", threadsV1},
		{"0::/system.slice/td.service\n", v2, "/sys/fs/cgroup/system.slice/td.service", threadsV2},
		{"0::/docker/abc/x\n", inner, "/sys/fs/cgroup/x", threadsV2},
		{"0::/docker/abcdef\n", inner, "", ""},
		{"0::/../x\n", v2, "", ""},
		{"3:cpu:/\n", v1, "", ""},
		{"", "", "", ""},
		{"nonsense\n0::/\n", "25 20 - cgroup2\n", "", ""},
	} {
		if dir, threads := findPidHierarchy(c.groups, c.mounts); dir != c.dir || threads != c.threads {
			t.Errorf("%q in %q: %q %q", c.groups, c.mounts, dir, threads)
		}
	}
}
