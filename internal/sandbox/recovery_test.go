package sandbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/td"
)

func TestAdoptedAfterTheDaemonWasKilled(t *testing.T) {
	spool, work := t.TempDir(), t.TempDir()
	first := daemon(t, spool, work, "echo once >> count; echo begin; until [ -e go ]; do sleep 0.01; done; echo end; exit 5")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, spool)
	eventually(t, "the command runs", func() bool {
		raw, err := os.ReadFile(filepath.Join(work, "count"))
		return err == nil && len(raw) > 0
	})
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()

	p, state, err := s.Find("cmd")
	if state != StillRunning || err != nil {
		t.Fatalf("after the kill: %v, %v", state, err)
	}
	if !exists(filepath.Join(spool, "cmd"), claimFile) {
		t.Error("it was not claimed")
	}
	var live strings.Builder
	res, err := p.Wait(t.Context(), func(b []byte) {
		live.Write(b)
		if err := os.WriteFile(filepath.Join(work, "go"), nil, 0o600); err != nil {
			t.Error(err)
		}
	})
	if err != nil || res.Exit != 5 || string(res.Head) != "begin\nend\n" || live.String() != "begin\nend\n" {
		t.Errorf("got %+v, %v, live %q", res, err, live.String())
	}
	if raw, err := os.ReadFile(filepath.Join(work, "count")); err != nil || string(raw) != "once\n" {
		t.Errorf("it ran %q, %v", raw, err)
	}
}

func TestAdoptedIsKilled(t *testing.T) {
	s := open(t)
	cmd := command(t, "trap '' TERM; setsid sleep 60 & sleep 60")
	start(t, s, "cmd", cmd)
	s.Close()
	next := openAt(t, s.Dir)
	p, state, err := next.Find("cmd")
	if state != StillRunning || err != nil {
		t.Fatalf("found %v, %v", state, err)
	}
	begin := time.Now()
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 30*time.Second { // it would run for 60
		t.Errorf("took %v", took)
	}
	if res := wait(t, p); !res.Killed {
		t.Errorf("got %+v", res)
	}
}

// TestVoidStopsALateShim is the race a probe must win: the folder is there, its shim is not yet.
func TestVoidStopsALateShim(t *testing.T) {
	s := open(t)
	if err := s.prepare(); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, "touch ran")
	dir, id, err := s.makeFolder("cmd", cmd)
	if err != nil {
		t.Fatal(err)
	}
	if _, state, err := s.Find("cmd"); state != NeverStarted || err != nil {
		t.Fatalf("found %v, %v", state, err)
	}
	// While the late shim holds the lock, before it has seen that it is too late, the answer is the same.
	late, err := (&shim{dir: dir}).lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, state, err := s.Find("cmd"); state != NeverStarted || err != nil {
		t.Errorf("found %v, %v while the late shim holds the lock", state, err)
	}
	if err := late.Close(); err != nil {
		t.Fatal(err)
	}
	w, err := s.spawn(false)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := s.follow("cmd", dir, id, w); err == nil || !strings.Contains(err.Error(), "void") {
		t.Fatalf("the late shim: %+v, %v", c, err)
	}

	// The name may be used again, and the late shim of its first use does not touch the second.
	if dir, _, err = s.makeFolder("cmd", cmd); err != nil {
		t.Fatal(err)
	}
	w, err = s.spawn(false)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := s.follow("cmd", dir, id, w); err == nil || !strings.Contains(err.Error(), "another command") {
		t.Errorf("a shim with an old id: %+v, %v", c, err)
	}
	if exists(cmd.Dir, "ran") {
		t.Error("the command ran")
	}
}

func TestSecondShimRunsNothing(t *testing.T) {
	s := open(t)
	cmd := command(t, "echo once >> count")
	wait(t, start(t, s, "cmd", cmd))
	dir := filepath.Join(s.Dir, "cmd")
	sp, err := load(dir, specFile, decodeSpec)
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.spawn(false)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := s.follow("cmd", dir, sp.ID, w); err == nil || !strings.Contains(err.Error(), "started before") {
		t.Errorf("a second shim: %+v, %v", c, err)
	}
	if raw, err := os.ReadFile(filepath.Join(cmd.Dir, "count")); err != nil || string(raw) != "once\n" {
		t.Errorf("it ran %q, %v", raw, err)
	}
}

func TestAnotherBoot(t *testing.T) {
	s := open(t)
	if err := s.prepare(); err != nil {
		t.Fatal(err)
	}
	dir, _, err := s.makeFolder("cmd", command(t, "true"))
	if err != nil {
		t.Fatal(err)
	}
	reboot(t, dir)
	if _, state, err := s.Find("cmd"); state != Lost || err != nil {
		t.Errorf("no mark of a start, another boot: %v, %v", state, err)
	}
	wait(t, start(t, s, "done", command(t, "true")))
	reboot(t, filepath.Join(s.Dir, "done"))
	if _, state, err := s.Find("done"); state != Finished || err != nil {
		t.Errorf("a result of another boot: %v, %v", state, err)
	}
}

// reboot makes a folder look like one of an earlier boot.
func reboot(t *testing.T, dir string) {
	t.Helper()
	sp, err := load(dir, specFile, decodeSpec)
	if err != nil {
		t.Fatal(err)
	}
	sp.Boot = "an-earlier-boot"
	raw, err := json.Marshal(sp)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, specFile), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestResultThatNoDiskTook: what the shim could only tell is found for as long as the daemon lives, until it is removed.
func TestResultThatNoDiskTook(t *testing.T) {
	s := open(t)
	begin := filepath.Join(t.TempDir(), "go")
	p := start(t, s, "cmd", command(t, "while ! test -e "+begin+"; do sleep 0.01; done; echo said; exit 3"))
	if err := os.Remove(filepath.Join(s.Dir, "cmd", resultFile+".tmp")); err != nil { // as a disk that fails, it takes no result
		t.Fatal(err)
	}
	if err := os.WriteFile(begin, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if res := wait(t, p); res.Exit != 3 {
		t.Fatalf("got %+v", res)
	}
	for range 2 { // whoever could not record it asks again
		again, state, err := s.Find("cmd")
		if err != nil || state != Finished {
			t.Fatalf("it is %v: %v", state, err)
		}
		if res := wait(t, again); res.Exit != 3 || string(res.Head) != "said\n" {
			t.Errorf("got %+v", res)
		}
	}
	if err := s.Remove("cmd"); err != nil {
		t.Fatal(err)
	}
	if _, state, _ := s.Find("cmd"); state != Lost {
		t.Errorf("after it was removed it is %v", state)
	}
}

// TestRoomForTheResult: before a command runs there is room for what is to be kept of it, whatever fills the disk meanwhile.
func TestRoomForTheResult(t *testing.T) {
	s := open(t)
	begin := filepath.Join(t.TempDir(), "go")
	p := start(t, s, "cmd", command(t, "while ! test -e "+begin+"; do sleep 0.01; done"))
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(s.Dir, "cmd", resultFile+".tmp"), &st); err != nil {
		t.Fatal(err)
	}
	if room := st.Blocks * 512; room < headSize+tailSize {
		t.Errorf("%d bytes are reserved", room)
	}
	if err := os.WriteFile(begin, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wait(t, p)
	if err := unix.Stat(filepath.Join(s.Dir, "cmd", resultFile), &st); err != nil || st.Blocks*512 >= headSize {
		t.Errorf("afterwards it has %d bytes: %v", st.Blocks*512, err)
	}
}

func TestTornFilesAreLost(t *testing.T) {
	for _, name := range []string{specFile, resultFile} {
		for _, content := range []string{"", "{", "null", `{"exit":-1}`, "\x00\x00\x00\x00", `{"exit":0,"omitted":-5}`, `[]`} {
			s := open(t)
			if err := s.prepare(); err != nil {
				t.Fatal(err)
			}
			dir, _, err := s.makeFolder("cmd", command(t, "true"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			want := Lost
			if name == resultFile && content == "null" {
				want = Finished // all zero is a result
			}
			if _, state, err := s.Find("cmd"); state != want || want == Lost && !td.IsKind(err, td.Corrupt) {
				t.Errorf("%s with %q: %v, %v", name, content, state, err)
			}
		}
	}
}

func TestStrangeSpool(t *testing.T) {
	s := open(t)
	if err := os.WriteFile(filepath.Join(s.Dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.Dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, state, err := s.Find("file"); state != Lost || err == nil {
		t.Errorf("a file: %v, %v", state, err)
	}
	if _, state, err := s.Find("empty"); state != Lost || err == nil {
		t.Errorf("an empty folder: %v, %v", state, err)
	}
	if _, state, err := s.Find("none"); state != Lost || err != nil {
		t.Errorf("nothing: %v, %v", state, err)
	}
	entries, err := s.List()
	if err != nil || len(entries) != 1 || entries[0].Err == nil {
		t.Errorf("list: %+v, %v", entries, err)
	}
}

func TestLeftoversAreSwept(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for name, at := range map[string]time.Time{".new-old": old, ".old-old": old, ".new-young": time.Now()} {
		if err := os.MkdirAll(filepath.Join(dir, name, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	s := openAt(t, dir)
	if err := s.prepare(); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != ".new-young" {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestUnclaimedDiesAtItsLimit(t *testing.T) {
	s := open(t)
	cmd := command(t, "sleep 60")
	cmd.Background, cmd.Timeout = true, 300*time.Millisecond
	start(t, s, "cmd", cmd)
	s.Close() // the daemon is gone
	dir := filepath.Join(s.Dir, "cmd")
	eventually(t, "it dies", func() bool { state, err := probe(dir, false); return err == nil && state == Finished })
	if res, err := load(dir, resultFile, decodeResult); err != nil || !res.TimedOut {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestClaimGivesTimeAnew(t *testing.T) {
	s := open(t)
	cmd := command(t, "sleep 60")
	cmd.Timeout = 400 * time.Millisecond
	start(t, s, "cmd", cmd)
	s.Close()
	next := openAt(t, s.Dir)
	_ = sleep(t.Context(), cmd.Timeout/2)
	p, state, err := next.Find("cmd")
	if state != StillRunning || err != nil {
		t.Fatalf("found %v, %v", state, err)
	}
	// Half the limit had passed when it was claimed; a whole one more was given.
	if res := wait(t, p); !res.TimedOut || res.Took < cmd.Timeout*5/4 {
		t.Errorf("got %+v", res)
	}
}
