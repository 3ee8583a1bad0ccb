package sandbox

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"taskdaemon/internal/td"
)

func warmed(t testing.TB) *Spool {
	t.Helper()
	s := open(t)
	s.Warm = 1
	s.Preheat()
	awaitWarm(t, s)
	return s
}

func awaitWarm(t testing.TB, s *Spool) td.Holder {
	t.Helper()
	var pid int
	eventually(t, "a shim is warm", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.warm[false]) == 0 {
			return false
		}
		pid = s.warm[false][0].proc.Pid
		return true
	})
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	st, err := readStat(pid)
	if err != nil {
		t.Fatal(err)
	}
	self.Pid, self.Start = st.pid, st.start
	return self
}

func TestWarmShimIsUsedAndReplaced(t *testing.T) {
	s := warmed(t)
	first := awaitWarm(t, s)
	cmd := command(t, "echo $PPID; env | grep TASKDAEMON_STEP")
	res := wait(t, start(t, s, "a", cmd))
	if h, err := load(filepath.Join(s.Dir, "a"), lockFile, decodeHolder); err != nil || h != first {
		t.Errorf("ran under %+v, %v; warm was %+v", h, err, first)
	}
	if res.Exit != 0 {
		t.Errorf("got %+v, %q", res, res.Head)
	}
	if second := awaitWarm(t, s); second.Pid == first.Pid {
		t.Error("it was not replaced")
	}
}

// A shim serves its task again, and no other: what a command does to its shim is no other task's trouble.
func TestShimServesOneTask(t *testing.T) {
	s := warmed(t)
	mine, other := command(t, "true"), command(t, "true")
	mine.Task, other.Task = td.NewTaskID(), td.NewTaskID()
	under := func(name string, cmd Command) td.Holder {
		t.Helper()
		wait(t, start(t, s, name, cmd))
		h, err := load(filepath.Join(s.Dir, name), lockFile, decodeHolder)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := under("a", mine)
	if under("b", other) == first {
		t.Error("another task's command ran under it")
	}
	if under("c", mine) != first {
		t.Error("the task's next command ran under another")
	}
}

// A shim that was told to end is not used again, even if its command had ended by then.
func TestKilledShimIsNotUsedAgain(t *testing.T) {
	s := warmed(t)
	cmd := command(t, "until [ -e go ]; do sleep 0.01; done")
	p := start(t, s, "a", cmd)
	h, err := load(filepath.Join(s.Dir, "a"), lockFile, decodeHolder)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	p.(*child).carrier.doomed = true // what Kill does first
	s.mu.Unlock()
	if err := create(cmd.Dir, "go"); err != nil {
		t.Fatal(err)
	}
	if res := wait(t, p); res.Killed || res.Exit != 0 {
		t.Errorf("got %+v", res)
	}
	eventually(t, "its shim leaves", func() bool { return !Alive(h) })
}

// However often a shim is used, what one command printed and how it ended is not another's.
func TestUsedShimStartsAfresh(t *testing.T) {
	s := warmed(t)
	task := td.NewTaskID()
	pids := map[int]bool{}
	for i, c := range []struct {
		script, out string
		exit        int
	}{{"echo one; exit 3", "one\n", 3}, {"true", "", 0}, {"cd /; ulimit -n 64; echo two", "two\n", 0}, {"ulimit -n; pwd", "", 0}, {"kill -9 $$", "", 137}, {"echo three", "three\n", 0}} {
		cmd := command(t, c.script)
		cmd.Task = task
		name := fmt.Sprint("c", i)
		res := wait(t, start(t, s, name, cmd))
		h, err := load(filepath.Join(s.Dir, name), lockFile, decodeHolder)
		if err != nil {
			t.Fatal(err)
		}
		pids[h.Pid] = true
		if c.script == "ulimit -n; pwd" {
			if !strings.HasSuffix(string(res.Head), "\n"+cmd.Dir+"\n") || strings.HasPrefix(string(res.Head), "64\n") {
				t.Errorf("%q sees %q of the one before", c.script, res.Head)
			}
			continue
		}
		if string(res.Head) != c.out || res.Exit != c.exit || res.Omitted != 0 {
			t.Errorf("%q: %q, exit %d", c.script, res.Head, res.Exit)
		}
	}
	if len(pids) != 1 {
		t.Errorf("%d shims served", len(pids))
	}
}

func TestNoMoreShimsAreWarmThanWanted(t *testing.T) {
	s := open(t)
	s.Warm = 2
	for range 5 {
		s.Preheat()
	}
	two := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.warm[false])+s.warming[false] > 2 {
			t.Errorf("%d are warm, %d on their way", len(s.warm[false]), s.warming[false])
		}
		return len(s.warm[false]) == 2
	}
	eventually(t, "two are warm", two)
	for i := range 3 {
		wait(t, start(t, s, fmt.Sprint("c", i), command(t, "true")))
		eventually(t, "two are warm again", two)
	}
}

func TestDeadWarmShimIsNoHarm(t *testing.T) {
	s := warmed(t)
	h := awaitWarm(t, s)
	if err := signal(h, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is dead", func() bool { return !Alive(h) })
	if res := wait(t, start(t, s, "a", command(t, "exit 6"))); res.Exit != 6 {
		t.Errorf("got %+v", res)
	}
}

func TestCloseEndsTheWarmShim(t *testing.T) {
	s := warmed(t)
	h := awaitWarm(t, s)
	s.Close()
	eventually(t, "the warm shim is gone", func() bool { return !Alive(h) })
	if _, err := s.Start(t.Context(), "a", command(t, "true")); err == nil {
		t.Error("a closed spool started a command")
	}
}

// TestWarmShimDiesWithItsDaemon kills a daemon that keeps a warm shim beside a running command.
func TestWarmShimDiesWithItsDaemon(t *testing.T) {
	spool, work := t.TempDir(), t.TempDir()
	d := daemon(t, spool, work, "touch up; sleep 60")
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, spool)
	eventually(t, "it runs", func() bool { return exists(work, "up") })
	running, err := load(filepath.Join(spool, "cmd"), lockFile, decodeHolder)
	if err != nil {
		t.Fatal(err)
	}
	idle := running
	eventually(t, "another shim is warm", func() bool {
		for _, st := range descendants(d.Process.Pid) {
			if st.ppid == d.Process.Pid && st.pid != running.Pid {
				idle.Pid, idle.Start = st.pid, st.start
			}
		}
		return idle.Pid != running.Pid
	})
	if err := d.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.Wait()
	eventually(t, "the warm shim is gone", func() bool { return !Alive(idle) })
	if p, state, err := s.Find("cmd"); state != StillRunning || err != nil || p.Kill(t.Context()) != nil {
		t.Errorf("the running one: %v, %v", state, err)
	}
}
