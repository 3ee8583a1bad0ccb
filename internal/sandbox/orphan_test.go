package sandbox

import (
	"errors"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"taskdaemon/internal/td"
)

func TestSelfIsAlive(t *testing.T) {
	self, err := Self()
	if err != nil || !Alive(self) {
		t.Fatalf("self: %+v, %v", self, err)
	}
	for name, tc := range map[string]struct {
		change func(*td.Holder)
		alive  bool
	}{
		"another start": {func(h *td.Holder) { h.Start = "1" }, false},
		"another boot":  {func(h *td.Holder) { h.Boot = "x" }, false},
		"another host":  {func(h *td.Holder) { h.Host, h.Boot = "elsewhere", "x" }, true},
		"no such pid":   {func(h *td.Holder) { h.Pid = 1 << 30 }, false},
	} {
		h := self
		if tc.change(&h); Alive(h) != tc.alive {
			t.Errorf("%s: alive is %v", name, !tc.alive)
		}
	}
}

// TestZombieIsDead holds a process that has ended and was not waited for.
func TestZombieIsDead(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	st, err := readStat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	h := td.Holder{Host: self.Host, Boot: self.Boot, Pid: st.pid, Start: st.start}
	if !Alive(h) {
		t.Error("not alive while it runs")
	}
	if err := signal(h, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is dead", func() bool { return !Alive(h) })
	_ = cmd.Wait()
	if err := signal(h, syscall.SIGKILL); err == nil {
		t.Error("a signal reached a process that is gone")
	}
}

func TestOrphansOfAKilledShim(t *testing.T) {
	s := open(t)
	cmd := command(t, "setsid sleep 62 & setsid sleep 62 & touch up; sleep 62")
	start(t, s, "cmd", cmd)
	eventually(t, "it runs", func() bool { return exists(cmd.Dir, "up") })
	if orphans, err := Orphans(s.Dir); err != nil || len(orphans) != 0 {
		t.Fatalf("under a living shim: %+v, %v", orphans, err)
	}
	h, err := load(filepath.Join(s.Dir, "cmd"), lockFile, decodeHolder)
	if err != nil {
		t.Fatal(err)
	}
	s.Close() // nobody is told of the shim's death
	if err := signal(h, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var orphans []Orphan
	eventually(t, "the orphans are found", func() bool {
		orphans, err = Orphans(s.Dir)
		return err == nil && len(orphans) >= 2
	})
	for _, o := range orphans {
		if o.Task != cmd.Task || o.Run != cmd.Run || o.Step != cmd.Step || o.Command == "" {
			t.Errorf("found %+v", o)
		}
		if err := KillOrphan(o); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "they are gone", func() bool { o, err := Orphans(s.Dir); return err == nil && len(o) == 0 })
	if err := KillOrphan(orphans[0]); err != nil {
		t.Errorf("killed twice: %v", err)
	}
	if _, state, err := openAt(t, s.Dir).Find("cmd"); state != Lost || err != nil {
		t.Errorf("found %v, %v", state, err)
	}
}

// TestShimDiesUnderADaemon checks that a living daemon hears of it and leaves nothing running.
func TestShimDiesUnderADaemon(t *testing.T) {
	s := open(t)
	cmd := command(t, "setsid sleep 62 & touch up; sleep 62")
	p := start(t, s, "cmd", cmd)
	eventually(t, "it runs", func() bool { return exists(cmd.Dir, "up") })
	h, err := load(filepath.Join(s.Dir, "cmd"), lockFile, decodeHolder)
	if err != nil {
		t.Fatal(err)
	}
	if err := signal(h, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if res, err := p.Wait(t.Context(), nil); err == nil {
		t.Errorf("got %+v", res)
	}
	eventually(t, "its processes are gone", func() bool { o, err := Orphans(s.Dir); return err == nil && len(o) == 0 })
}

func TestKillOfAStoppedShim(t *testing.T) {
	s := open(t)
	cmd := command(t, "setsid sleep 62 & touch up; sleep 62")
	p := start(t, s, "cmd", cmd)
	eventually(t, "it runs", func() bool { return exists(cmd.Dir, "up") })
	h, err := load(filepath.Join(s.Dir, "cmd"), lockFile, decodeHolder)
	if err != nil {
		t.Fatal(err)
	}
	if err := signal(h, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := wait(t, p); !res.Killed {
		t.Errorf("got %+v", res)
	}
	eventually(t, "its processes are gone", func() bool { o, err := Orphans(s.Dir); return err == nil && len(o) == 0 })
}

// TestDestroyedShimLeavesNothing is the last resort, for a shim that does nothing at all any more.
func TestDestroyedShimLeavesNothing(t *testing.T) {
	s := open(t)
	cmd := command(t, "setsid sleep 62 & touch up; sleep 62")
	p := start(t, s, "cmd", cmd)
	eventually(t, "it runs", func() bool { return exists(cmd.Dir, "up") })
	h, err := load(filepath.Join(s.Dir, "cmd"), lockFile, decodeHolder)
	if err != nil {
		t.Fatal(err)
	}
	destroy(h)
	if _, err := p.Wait(t.Context(), nil); !errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
	eventually(t, "its processes are gone", func() bool { o, err := Orphans(s.Dir); return err == nil && len(o) == 0 })
}
