package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

func TestResultOfACommand(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		exit         int
		signal, out  string
	}{
		{"true", "true", 0, "", ""},
		{"exit code", "exit 7", 7, "", ""},
		{"both streams in order", "echo one; echo two >&2; echo three", 0, "", "one\ntwo\nthree\n"},
		{"signal", "kill -SEGV $$", 139, "SIGSEGV", ""},
		{"no such program", "no-such-program-here 2>/dev/null", 127, "", ""},
		{"stdin is empty", "cat; echo end", 0, "", "end\n"},
		{"closes its stdout", "exec >&- 2>&-; exit 3", 3, "", ""},
		{"broken bytes", `printf 'a\0\xff\xfeb'`, 0, "", "a\x00\xff\xfeb"},
		{"SIGPIPE is not ignored", "yes | head -1", 0, "", "y\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res := run(t, open(t), tc.script)
			if res.Exit != tc.exit || res.Signal != tc.signal || string(res.Head) != tc.out || res.TimedOut || res.Killed {
				t.Errorf("got %+v with output %q", res, res.Head)
			}
		})
	}
}

// TestStartsTakeTurns: who finds as many commands starting as may waits for one of them, and leaves nothing behind if it is told to stop
// meanwhile.
func TestStartsTakeTurns(t *testing.T) {
	s := open(t)
	wait(t, start(t, s, "first", command(t, "true")))
	if len(s.starting) != 0 {
		t.Fatal("a command that has started counts as one that is starting")
	}
	for range mostStarting {
		s.starting <- struct{}{}
	}
	ctx, stop := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Start(ctx, "stopped", command(t, "true"))
		ended <- err
	}()
	want := errors.New("not now")
	stop(want)
	if err := <-ended; !errors.Is(err, want) {
		t.Errorf("got %v; want %v", err, want)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "stopped")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a command that never came to its turn left a folder: %v", err)
	}
	go func() {
		p, err := s.Start(t.Context(), "second", command(t, "true"))
		if err == nil {
			_, err = p.Wait(t.Context(), nil)
		}
		ended <- err
	}()
	<-s.starting // one of those before it has started
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestDeletedWorkspace(t *testing.T) {
	cmd := command(t, "true")
	if err := os.Remove(cmd.Dir); err != nil {
		t.Fatal(err)
	}
	res := wait(t, start(t, open(t), "cmd", cmd))
	if res.Exit != notExecuted || !strings.Contains(string(res.Head), "no such file") {
		t.Errorf("got exit %d, output %q", res.Exit, res.Head)
	}
}

// TestWorkspaceThatIsALink: a command does not run where a link leads that took the place of its folder, or of one above.
func TestWorkspaceThatIsALink(t *testing.T) {
	s, other := open(t), t.TempDir()
	for i, above := range []string{"", "sub"} {
		cmd := command(t, "touch made")
		if err := os.Rename(cmd.Dir, cmd.Dir+"-away"); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(other, above), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(other, cmd.Dir); err != nil {
			t.Fatal(err)
		}
		cmd.Dir = filepath.Join(cmd.Dir, above)
		_, err := s.Start(t.Context(), fmt.Sprint("cmd", i), cmd)
		if !td.IsKind(err, td.Conflict) || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("started in %s: %v", cmd.Dir, err)
		}
		if _, err := os.Stat(filepath.Join(other, above, "made")); err == nil {
			t.Error("it ran")
		}
	}
}

func TestNameIsUsedOnce(t *testing.T) {
	s := open(t)
	wait(t, start(t, s, "cmd", command(t, "true")))
	if _, err := s.Start(t.Context(), "cmd", command(t, "true")); !td.IsKind(err, td.Conflict) {
		t.Fatalf("second start of a finished name: %v", err)
	}
	if err := s.Remove("cmd"); err != nil {
		t.Fatal(err)
	}
	wait(t, start(t, s, "cmd", command(t, "true")))
	entries, err := os.ReadDir(s.Dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left in the spool: %v, %v", entries, err)
	}
}

func TestNamesThatLeadElsewhere(t *testing.T) {
	s := open(t)
	for _, name := range []string{"", ".", "..", ".x", "a/b", "../a", "a\x00b", "a\nb", strings.Repeat("x", 201)} {
		if _, err := s.Start(t.Context(), name, command(t, "true")); !td.IsKind(err, td.Invalid) {
			t.Errorf("start %q: %v", name, err)
		}
		if _, _, err := s.Find(name); !td.IsKind(err, td.Invalid) {
			t.Errorf("find %q: %v", name, err)
		}
		if err := s.Remove(name); !td.IsKind(err, td.Invalid) {
			t.Errorf("remove %q: %v", name, err)
		}
	}
}

// A name that is on record has a folder from before that on. Without it, or with an emptied one, nobody can say whether the command ran.
func TestReserved(t *testing.T) {
	s := open(t)
	for range 2 {
		if err := s.Reserve("cmd"); err != nil {
			t.Fatal(err)
		}
	}
	if _, state, err := s.Find("cmd"); state != NeverStarted || err != nil {
		t.Errorf("reserved: %v, %v", state, err)
	}
	work := t.TempDir()
	wait(t, start(t, s, "cmd", Command{Shell: "echo once >> count", Dir: work, Timeout: time.Minute, Task: "task", Step: "step"}))
	if raw, err := os.ReadFile(filepath.Join(work, "count")); string(raw) != "once\n" {
		t.Errorf("it ran %q, %v", raw, err)
	}
	if err := s.Reserve("cmd"); err != nil {
		t.Fatal(err)
	}
	if _, state, err := s.Find("cmd"); state != Finished || err != nil {
		t.Errorf("after its end: %v, %v", state, err)
	}
	for what, spoil := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"emptied": func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)) },
	} {
		if err := spoil(filepath.Join(s.Dir, "cmd")); err != nil {
			t.Fatal(err)
		}
		if _, state, _ := s.Find("cmd"); state != Lost {
			t.Errorf("%s: %v", what, state)
		}
	}
	left, err := filepath.Glob(filepath.Join(s.Dir, ".new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestRemoveRefusesWhatRuns(t *testing.T) {
	s := open(t)
	p := start(t, s, "cmd", command(t, "sleep 60"))
	if err := s.Remove("cmd"); !td.IsKind(err, td.Conflict) {
		t.Fatalf("remove of a running command: %v", err)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove("cmd"); err != nil {
		t.Fatal(err)
	}
	if _, state, err := s.Find("cmd"); state != Lost || err != nil {
		t.Errorf("after remove: %v, %v", state, err)
	}
}

func TestWaitStreamsOutput(t *testing.T) {
	s := open(t)
	cmd := command(t, "echo first; until [ -e go ]; do sleep 0.01; done; echo second")
	p := start(t, s, "cmd", cmd)
	var got strings.Builder
	res, err := p.Wait(t.Context(), func(b []byte) {
		got.Write(b)
		if got.String() == "first\n" {
			if err := os.WriteFile(filepath.Join(cmd.Dir, "go"), nil, 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil || res.Exit != 0 || got.String() != "first\nsecond\n" {
		t.Errorf("got %+v, %v, %q", res, err, got.String())
	}
	chunk, next, err := p.Output(6, 3)
	if err != nil || string(chunk) != "sec" || next != 9 {
		t.Errorf("output from 6: %q, %d, %v", chunk, next, err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	s := open(t)
	p := start(t, s, "cmd", command(t, "sleep 60"))
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := p.Wait(ctx, nil); !errors.Is(err, stop) {
		t.Fatalf("wait: %v", err)
	}
	if _, state, err := s.Find("cmd"); state != StillRunning || err != nil {
		t.Errorf("after wait: %v, %v", state, err)
	}
}

func TestTimeLimit(t *testing.T) {
	s := open(t)
	cmd := command(t, "trap '' TERM; echo on; sleep 60 & wait; sleep 60")
	cmd.Timeout = 50 * time.Millisecond
	begin := time.Now()
	res := wait(t, start(t, s, "cmd", cmd))
	if !res.TimedOut || res.Killed || res.Exit != 137 || string(res.Head) != "on\n" {
		t.Errorf("got %+v, %q", res, res.Head)
	}
	if took := time.Since(begin); took < 50*time.Millisecond || took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestKillIsQuick(t *testing.T) {
	for name, script := range map[string]string{
		"plain":           "sleep 60",
		"ignores SIGTERM": "trap '' TERM; while :; do sleep 60; done",
		"daemonised":      "setsid sh -c 'trap \"\" TERM; sleep 60 & sleep 60' & sleep 60",
		"stopped":         "kill -STOP $$",
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, open(t), "cmd", command(t, script))
			begin := time.Now()
			if err := p.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took > 30*time.Second { // it would run for 60
				t.Errorf("took %v", took)
			}
			if res := wait(t, p); !res.Killed || res.Exit < 128 {
				t.Errorf("got %+v", res)
			}
		})
	}
}

func TestListShowsWithoutTouching(t *testing.T) {
	s := open(t)
	wait(t, start(t, s, "a", command(t, "true")))
	cmd := command(t, "sleep 60")
	cmd.Background = true
	start(t, s, "b", cmd)
	entries, err := s.List()
	if err != nil || len(entries) != 2 {
		t.Fatalf("list: %+v, %v", entries, err)
	}
	if a, b := entries[0], entries[1]; a.Name != "a" || a.State != Finished || b.Name != "b" || b.State != StillRunning ||
		b.Task != cmd.Task || b.Step != cmd.Step || !b.Background || !Alive(b.Shim) {
		t.Errorf("list: %+v", entries)
	}
	if exists(filepath.Join(s.Dir, "b"), claimFile) {
		t.Error("a list claimed a command")
	}
}
