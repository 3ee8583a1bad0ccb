package sandbox

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/td"
)

// TestMain makes the test binary its own shim, as taskdaemon is, and a small daemon that can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "exec" {
		os.Exit(ExecMain())
	}
	if os.Getenv("SANDBOX_TEST_HIDDEN") != "" { // as a daemon hides its environment
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			panic(err)
		}
	}
	if len(os.Args) > 1 && os.Args[1] == "daemon" {
		os.Exit(daemonMain(os.Args[2], os.Args[3], os.Args[4]))
	}
	if len(os.Args) > 1 && os.Args[1] == "hide" {
		os.Exit(hideMain(os.Args[2]))
	}
	if len(os.Args) > 2 && os.Args[1] == "call" {
		os.Exit(callMain(os.Args[2:]))
	}
	if len(os.Args) > 3 && os.Args[1] == "fill" {
		os.Exit(fillMain(os.Args[2], os.Args[3]))
	}
	if len(os.Args) > 2 && os.Args[1] == "forks" {
		os.Exit(forksMain(os.Args[2]))
	}
	os.Exit(m.Run())
}

// daemonMain runs one command in a spool as a daemon does: starts it, waits, looks at it and forgets it.
func daemonMain(spool, work, script string) int {
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	s := &Spool{Dir: spool, Self: self, Warm: 1}
	if err := s.Reserve("cmd"); err != nil {
		return 1
	}
	s.Preheat()
	p, err := s.Start(context.Background(), "cmd", Command{Shell: script, Dir: work, Timeout: time.Minute, Background: true, Task: "task", Step: "step"})
	if err == nil {
		_, err = p.Wait(context.Background(), func([]byte) {})
	}
	if err == nil {
		_, _, err = s.Find("cmd")
	}
	if err == nil {
		err = s.Remove("cmd")
	}
	s.Close()
	if err != nil {
		return 1
	}
	return 0
}

// daemon is the command that runs daemonMain.
func daemon(t testing.TB, spool, work, script string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command(self, "daemon", spool, work, script)
}

// settled waits until the command is no longer running and says what became of it.
func settled(t testing.TB, s *Spool, name string) (Process, ProcessState) {
	t.Helper()
	var p Process
	var state ProcessState
	eventually(t, "the command has ended", func() bool {
		var err error
		p, state, err = s.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		return state != StillRunning
	})
	return p, state
}

// open makes a spool that is closed, and whose commands are killed, at the end of the test.
func open(t testing.TB) *Spool {
	t.Helper()
	return openAt(t, t.TempDir())
}

func openAt(t testing.TB, dir string) *Spool {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &Spool{Dir: dir, Self: self}
	t.Cleanup(func() {
		s.Close()
		entries, err := s.List()
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			if e.State == StillRunning {
				if err := (adopted{dir + "/" + e.Name}).Kill(context.Background()); err != nil {
					t.Error(err)
				}
			}
		}
		orphans, err := Orphans(dir)
		if err != nil {
			t.Error(err)
		}
		for _, o := range orphans {
			t.Errorf("orphan left: %+v", o)
			_ = KillOrphan(o)
		}
	})
	return s
}

func command(t testing.TB, script string) Command {
	return Command{
		Shell: script, Dir: t.TempDir(), Timeout: 100 * time.Second,
		Task: td.NewTaskID(), Run: td.NewRunID(), Step: td.StepKey(strings.ReplaceAll(t.Name(), "/", ".")),
	}
}

func start(t testing.TB, s *Spool, name string, cmd Command) Process {
	t.Helper()
	p, err := s.Start(t.Context(), name, cmd)
	if err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	return p
}

func wait(t testing.TB, p Process) ProcessResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	res, err := p.Wait(ctx, nil)
	if err != nil {
		t.Fatalf("wait: %v", err)
	}
	return res
}

// run is start and wait.
func run(t testing.TB, s *Spool, script string) ProcessResult {
	t.Helper()
	return wait(t, start(t, s, "cmd", command(t, script)))
}

// eventually polls until ok, and fails the test if that takes too long.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		_ = sleep(t.Context(), 2*time.Millisecond)
	}
}
