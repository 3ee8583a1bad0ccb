package builtin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

func TestBashResults(t *testing.T) {
	for name, tc := range map[string]struct {
		in      args
		exit    int
		isError bool
		says    []string
	}{
		"output":         {args{"command": "echo hello; pwd"}, 0, false, []string{"hello\n", "[exit code 0]"}},
		"silence":        {args{"command": "true"}, 0, false, []string{"(no output)\n[exit code 0]"}},
		"failure":        {args{"command": "echo no >&2; exit 3"}, 3, true, []string{"no\n[exit code 3]"}},
		"signal":         {args{"command": "kill -9 $$"}, 137, true, []string{"[ended by SIGKILL, exit code 137]"}},
		"time limit":     {args{"command": "echo a; sleep 60", "timeout": 1}, 143, true, []string{"a\n[timed out after 1s"}},
		"harmless bytes": {args{"command": `printf 'a\0b\377c\033[31mred\033[0m\rz'`}, 0, false, []string{"a\uFFFDb\uFFFDcred\nz\n[exit"}},
		"empty stdin":    {args{"command": "cat; read x; echo got=$x"}, 0, false, []string{"got=\n"}},
		"closed stdout":  {args{"command": "exec >&- 2>&-; exit 0"}, 0, false, []string{"[exit code 0]"}},
		"no secrets":     {args{"command": "env"}, 0, false, []string{"TASKDAEMON_STEP=1.1", "TERM=dumb"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("ANTHROPIC_API_KEY", "sk-secret")
			b := newBench(t)
			res := b.do("Bash", tc.in)
			if res.IsError != tc.isError || res.Exit == nil || *res.Exit != tc.exit {
				t.Errorf("got %+v", res)
			}
			for _, s := range tc.says {
				if !strings.Contains(res.Content, s) {
					t.Errorf("%q is not in %q", s, res.Content)
				}
			}
			if strings.Contains(res.Content, "sk-secret") {
				t.Error("the key was handed on")
			}
		})
	}
}

func TestBashBadInput(t *testing.T) {
	b := newBench(t)
	b.bad("Bash", args{}, "command")
	b.bad("Bash", args{"command": ""}, "schema")
	b.bad("Bash", args{"command": "true", "timeout": 601}, "601")
	b.bad("Bash", args{"command": "a\x00b"}, "NUL")
	if call := b.prepare("Bash", args{"command": "ls"}); call.Command != "ls" || call.Effect != td.Opaque {
		t.Errorf("got %+v", call)
	}
}

func TestBashCutsLongOutput(t *testing.T) {
	b := newBench(t)
	res := b.ok("Bash", args{"command": "seq 1 100000"})
	if n := len([]rune(res.Content)); n > tool.MaxOutput+100 || n < tool.MaxOutput-100 {
		t.Errorf("%d characters", n)
	}
	if !strings.HasPrefix(res.Content, "1\n2\n3\n") || !strings.Contains(res.Content, "omitted]") || !strings.HasSuffix(res.Content, "\n100000\n[exit code 0]") {
		t.Errorf("head %q, tail %q", res.Content[:20], res.Content[len(res.Content)-40:])
	}
}

// inFlight starts a command as a daemon that then dies, and gives the spool of the next daemon.
func inFlight(b *bench, call tool.Call) {
	b.Helper()
	ctx, cancel := context.WithCancelCause(b.Context())
	done := make(chan error, 1)
	go func() {
		_, err := call.Run(ctx)
		done <- err
	}()
	eventually(b, "the command runs", func() bool {
		entries, err := b.spool.List()
		return err == nil && len(entries) > 0 && entries[0].State != sandbox.NeverStarted
	})
	cancel(tool.ErrDetach)
	if err := <-done; err != nil && !errors.Is(err, tool.ErrDetach) {
		b.Fatalf("detached run: %v", err)
	}
	b.spool.Close()
	b.spool = &sandbox.Spool{Dir: b.spool.Dir, Self: b.spool.Self}
	b.env.Spool = b.spool
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		}
	}
}

func TestBashIsAdopted(t *testing.T) {
	for name, wait := range map[string]bool{"still running": false, "finished meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			in := args{"command": "echo once >> ../count; echo begin; until [ -e go ]; do sleep 0.01; done; echo end"}
			b.put("ws/x", "")
			w, err := tool.OpenWorkspace(filepath.Join(b.dir, "ws"))
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			b.env.Root = w
			call := b.prepare("Bash", in)
			inFlight(b, call)
			release := func() { b.put("ws/go", "") }
			if wait {
				release()
				eventually(t, "it ends", func() bool {
					entries, err := b.spool.List()
					return err == nil && entries[0].State == sandbox.Finished
				})
			}
			var live strings.Builder
			b.env.Emit = func(p []byte) {
				live.Write(p)
				release()
			}
			res := b.resolve("Bash", in, call)
			if res.State != tool.Done || res.Via != td.Adopted || res.Result.Content != "begin\nend\n[exit code 0]" {
				t.Errorf("got %+v", res)
			}
			if live.String() != "begin\nend\n" {
				t.Errorf("live output %q", live.String())
			}
			if got := b.get("count"); got != "once\n" {
				t.Errorf("it ran %q", got)
			}
		})
	}
}

func TestBashNeverStarted(t *testing.T) {
	b := newBench(t)
	in := args{"command": "true"}
	call := b.prepare("Bash", in)
	if res := b.resolve("Bash", in, call); res.State != tool.Unsure {
		t.Errorf("without its folder: %+v", res)
	}
	if err := b.spool.Reserve(tool.SpoolName(b.env.Task, b.env.Step)); err != nil {
		t.Fatal(err)
	}
	if res := b.resolve("Bash", in, call); res.State != tool.NotDone {
		t.Errorf("got %+v", res)
	}
	if res := b.ok("Bash", in); *res.Exit != 0 {
		t.Errorf("got %+v", res)
	}
}

func TestBashLostIsAskedAbout(t *testing.T) {
	b := newBench(t)
	b.put("old", "")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(b.dir, "old"), old, old); err != nil {
		t.Fatal(err)
	}
	in := args{"command": "mkdir .git; echo x > .git/x; echo x > new; sleep 60"}
	call := b.prepare("Bash", in)
	inFlight(b, call)
	eventually(t, "it writes", func() bool { _, err := os.Stat(filepath.Join(b.dir, "new")); return err == nil })
	entries, err := b.spool.List()
	if err != nil {
		t.Fatal(err)
	}
	shim, err := os.FindProcess(entries[0].Shim.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := shim.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is lost", func() bool { entries, err := b.spool.List(); return err == nil && entries[0].State == sandbox.Lost })
	res := b.resolve("Bash", in, call)
	if res.State != tool.Unsure || !strings.Contains(res.Changed, "\n  new") || strings.Contains(res.Changed, "old") || strings.Contains(res.Changed, ".git/x\n") {
		t.Errorf("got %+v", res)
	}
	orphans, err := sandbox.Orphans(b.spool.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range orphans { // the sleep outlived its shell, which died with the shim
		if err := sandbox.KillOrphan(o); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "the orphans are gone", func() bool { o, err := sandbox.Orphans(b.spool.Dir); return err == nil && len(o) == 0 })
}

func TestBashOfAnotherBootIsAskedAbout(t *testing.T) {
	b := newBench(t)
	in := args{"command": "true"}
	call := b.prepare("Bash", in)
	boot, err := sandbox.BootID()
	if err != nil {
		t.Fatal(err)
	}
	call.Evidence = []byte(strings.ReplaceAll(string(call.Evidence), boot, "another-boot"))
	if res := b.resolve("Bash", in, call); res.State != tool.Unsure {
		t.Errorf("got %+v", res)
	}
}

func TestBashCancelKillsTheTree(t *testing.T) {
	b := newBench(t)
	call := b.prepare("Bash", args{"command": "trap '' TERM; echo up; setsid sleep 61 & sleep 60"})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	begin := make(chan struct{}, 1)
	b.env.Emit = func([]byte) { begin <- struct{}{} }
	cancelled := make(chan time.Time, 1)
	go func() {
		<-begin
		cancelled <- time.Now()
		cancel(errors.New("the task was cancelled"))
	}()
	res, err := call.Run(ctx)
	took := time.Since(<-cancelled)
	if err != nil || !res.IsError || !strings.Contains(res.Content, "up\n[killed: the task was cancelled]") {
		t.Errorf("got %+v, %v", res, err)
	}
	if took > 30*time.Second { // it would run for 60
		t.Errorf("took %v", took)
	}
}

// TestTitleHidesNothing is about what a person is shown before they say yes.
func TestTitleHidesNothing(t *testing.T) {
	b := newBench(t)
	call := b.prepare("Bash", args{"command": "echo hi\nrm -rf x \x1b[2K\r\u202e#"})
	if want := `Run echo hi ⏎ rm -rf x \u{1b}[2K\u{d}\u{202e}#`; call.Title != want {
		t.Errorf("got %q", call.Title)
	}
	long := strings.Repeat("a", 5000) + "; rm -rf x"
	if call := b.prepare("Bash", args{"command": long}); !strings.HasSuffix(call.Title, long) {
		t.Error("the end is hidden")
	}
}
