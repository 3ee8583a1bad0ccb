package sandbox

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestInside(t *testing.T) {
	s := open(t)
	if why := Inside(s.Dir, os.Getpid()); why != "" {
		t.Errorf("the daemon itself: %s", why)
	}
	if why := Inside(s.Dir, os.Getppid()); why != "" {
		t.Errorf("who started the daemon: %s", why)
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	if Inside(s.Dir, gone.Process.Pid) == "" {
		t.Error("one that is gone may be anything")
	}
	for name, p := range map[string]*Profile{"plain": nil, "confined": {Files: WorkspaceWrite, Network: NetworkFull}} {
		cmd := command(t, "setsid sh -c 'echo $$ > pid; exec env -i sleep 60' & wait")
		if p != nil {
			p.Workspace = cmd.Dir
			cmd.Profile = p
		}
		start(t, s, name, cmd)
		pid := 0
		eventually(t, "it runs", func() bool {
			raw, _ := os.ReadFile(cmd.Dir + "/pid")
			pid, _ = strconv.Atoi(strings.TrimSpace(string(raw)))
			return pid > 0 && environ(pid)[envSpool] == ""
		})
		if Inside(s.Dir, pid) == "" {
			t.Errorf("%s: a command's process counts as somebody else's", name)
		}
	}
}

// TestInsideOfADeadDaemon looks at a command whose daemon was killed, so that only its shim and its marks tell.
func TestInsideOfADeadDaemon(t *testing.T) {
	spool, work := t.TempDir(), t.TempDir()
	d := daemon(t, spool, work, "echo $$ > pid; exec sleep 60")
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, spool)
	pid := 0
	eventually(t, "it runs", func() bool {
		raw, _ := os.ReadFile(work + "/pid")
		pid, _ = strconv.Atoi(strings.TrimSpace(string(raw)))
		return pid > 0
	})
	if err := d.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.Wait()
	if Inside(s.Dir, pid) == "" {
		t.Error("a command of an earlier daemon counts as somebody else's")
	}
	if why := Inside(t.TempDir(), pid); why != "" {
		t.Errorf("it is no command of another daemon: %s", why)
	}
}

// TestInsideOfAKilledShim looks at a process that cleaned its environment and whose shim was killed, as a command with full
// rights can do: it has no parent but init, and is of the shim's session still.
func TestInsideOfAKilledShim(t *testing.T) {
	s := open(t)
	cmd := command(t, "env -i sh -c 'echo $$ > pid; exec sleep 60' & wait")
	if _, err := s.Start(t.Context(), "cmd", cmd); err != nil {
		t.Fatal(err)
	}
	pid := pidIn(t, cmd.Dir+"/pid")
	entries, err := s.List()
	if err != nil || len(entries) != 1 {
		t.Fatalf("%+v, %v", entries, err)
	}
	if err := syscall.Kill(entries[0].Shim.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	eventually(t, "nothing but its session tells", func() bool { return Inside(t.TempDir(), pid) == "" })
	if Inside(s.Dir, pid) == "" {
		t.Error("it counts as somebody else's")
	}
}

// TestInsideWhenHidden looks at a process that made itself unreadable, as any process can, and at its child, which is
// not: it stands for a command's that got away from its shim.
func TestInsideWhenHidden(t *testing.T) {
	if os.Getenv("SANDBOX_TEST_AS_NOBODY") == "" {
		asNobody(t, "TestInsideWhenHidden")
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// A stranger to this process: its parents are gone when it is looked at.
	leave := exec.Command("setsid", self, "hide", dir)
	leave.Env = []string{"PATH=" + os.Getenv("PATH")}
	if err := leave.Run(); err != nil {
		t.Fatal(err)
	}
	hidden, child := pidIn(t, dir+"/hidden"), pidIn(t, dir+"/child")
	t.Cleanup(func() { _, _ = syscall.Kill(child, syscall.SIGKILL), syscall.Kill(hidden, syscall.SIGKILL) })
	eventually(t, "it lost its parents", func() bool {
		st, err := readStat(hidden)
		return err == nil && st.ppid != leave.Process.Pid && st.ppid != os.Getpid()
	})
	if _, err := readMarks(hidden); err == nil {
		t.Fatal("it can be read")
	}
	if why := Inside(dir, hidden); !strings.Contains(why, "hides") {
		t.Errorf("the process: %q", why)
	}
	if why := Inside(dir, child); !strings.Contains(why, "hides") {
		t.Errorf("its child: %q", why)
	}
}

// hideMain leaves its parents, makes itself unreadable and starts a child that is not.
func hideMain(dir string) int {
	if os.Getenv("SANDBOX_TEST_LEFT") == "" {
		self, err := os.Executable()
		if err != nil {
			return 1
		}
		again := exec.Command(self, os.Args[1:]...)
		again.Env = append(os.Environ(), "SANDBOX_TEST_LEFT=1")
		if again.Start() != nil {
			return 1
		}
		return 0
	}
	if unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) != nil {
		return 1
	}
	child := exec.Command("sleep", "60")
	child.Env = []string{}
	if child.Start() != nil {
		return 1
	}
	for name, pid := range map[string]int{"child": child.Process.Pid, "hidden": os.Getpid()} {
		if os.WriteFile(dir+"/"+name, []byte(strconv.Itoa(pid)+"\n"), 0o600) != nil {
			return 1
		}
	}
	_ = child.Wait()
	return 0
}

// asNobody runs a test again as a user without any privilege.
func asNobody(t *testing.T, test string) {
	t.Helper()
	binary := copySelf(t)
	cmd := exec.Command(binary, "-test.run", "^"+test+"$", "-test.v")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "TMPDIR="+strings.TrimSuffix(binary, "/sandbox.test"), "SANDBOX_TEST_AS_NOBODY=1")
	if os.Geteuid() == 0 {
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyUser, Gid: nobodyUser}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+test) {
		t.Errorf("%v\n%s", err, out)
	}
}

// pidIn waits for a pid in a file.
func pidIn(t *testing.T, path string) int {
	t.Helper()
	pid := 0
	eventually(t, path, func() bool {
		raw, _ := os.ReadFile(path)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(raw)))
		return pid > 0 && strings.HasSuffix(string(raw), "\n")
	})
	return pid
}

func FuzzStatus(f *testing.F) {
	f.Add("Name:\tx\nUid:\t0\t0\t0\t0\nNoNewPrivs:\t1\n")
	f.Add("Uid:\t99999999999\nNoNewPrivs:\t0\n")
	f.Add("NoNewPrivs:\n\n:")
	f.Fuzz(func(t *testing.T, raw string) {
		s, err := parseStatus(raw)
		if err != nil && s != (status{}) {
			t.Errorf("%+v with %v", s, err)
		}
		if err == nil && !strings.Contains(raw, "NoNewPrivs:") {
			t.Error("nobody said what it gave up")
		}
	})
}
