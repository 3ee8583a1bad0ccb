package hook

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

// TestMain makes the test binary its own shim, as taskdaemon is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "exec" {
		os.Exit(sandbox.ExecMain())
	}
	os.Exit(m.Run())
}

// shells are those at hand that a wrapper may find itself in.
func shells(t testing.TB) []string {
	t.Helper()
	out := []string{"/bin/sh"}
	for _, name := range []string{"bash", "dash"} {
		if path, err := exec.LookPath(name); err == nil {
			out = append(out, path)
		}
	}
	return out
}

// run wraps a command and runs it in a shell, without a shim.
func run(t testing.TB, shell, dir, command string) Output {
	t.Helper()
	cmd := exec.Command(shell, "-c", Wrap(dir, command))
	cmd.Dir = t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if stdout.Len() > 0 {
		t.Errorf("the wrapper itself wrote %q", stdout.String())
	}
	out, err := Collect(dir)
	if err != nil {
		t.Fatal(err)
	}
	return Output{Exit: cmd.ProcessState.ExitCode(), Stdout: out, Stderr: stderr.Bytes()}
}

func TestWrap(t *testing.T) {
	for _, shell := range shells(t) {
		for name, c := range map[string]struct {
			command string
			exit    int
			out     string
			errors  string
		}{
			"nothing":             {"true", 0, "", ""},
			"reads its payload":   {"cat", 0, "pay'load\n", ""},
			"ignores it":          {"echo hi", 0, "hi\n", ""},
			"blocks":              {"echo no >&2; exit 2", 2, "", "no\n"},
			"both":                {"echo out; echo err >&2; exit 7", 7, "out\n", "err\n"},
			"single quotes":       {`echo 'it'"'"'s' "$HOME"; : '`, 2, "", ""},
			"odd words":           {`printf '%s' "a  b" '$(x)' \; "\` + "`" + `"`, 0, "a  b$(x);`", ""},
			"several lines":       {"a=1\n# a comment '\necho $a", 0, "1\n", ""},
			"ends in a backslash": {`: a \`, 0, "", ""},
			"exits early":         {"exit 3; echo never", 3, "", ""},
			"its own pipes":       {"cat | tr a-z A-Z", 0, "PAY'LOAD\n", ""},
			"killed":              {"kill -9 $$", 137, "", ""},
			"writes at fd 4":      {"echo 9 >&4 2>/dev/null; exit 5", 5, "", ""},
			"not found":           {"/no/such/command 2>/dev/null", 127, "", ""},
		} {
			t.Run(filepath.Base(shell)+"/"+name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "a 'b' $c\n`d`;\"", "-x")
				if err := Prepare(dir, []byte("pay'load\n")); err != nil {
					t.Fatal(err)
				}
				o := run(t, shell, dir, c.command)
				if o.Exit != c.exit || string(o.Stdout) != c.out || c.errors != "" && string(o.Stderr) != c.errors {
					t.Errorf("exit %d, out %q, err %q", o.Exit, o.Stdout, o.Stderr)
				}
			})
		}
	}
}

// A flood ends by itself: the disk keeps no more than the cap, and nothing else of it counts.
func TestWrapFlood(t *testing.T) {
	for _, shell := range shells(t) {
		dir := t.TempDir()
		if err := Prepare(dir, nil); err != nil {
			t.Fatal(err)
		}
		o := run(t, shell, dir, "yes")
		if len(o.Stdout) != MaxOutput+1 {
			t.Errorf("%s: kept %d bytes", shell, len(o.Stdout))
		}
		if r := Interpret(at(TaskStarted), sampleTaskStarted, o); r.Failure == "" || r.Inject != nil {
			t.Errorf("%s: %+v", shell, r)
		}
		o.Exit = 0 // had it not died of it
		if r := Interpret(at(TaskStarted), sampleTaskStarted, o); !strings.Contains(r.Failure, "more than") {
			t.Errorf("%s: %+v", shell, r)
		}
	}
}

// When the wrapper cannot do its work, that is neither a yes nor a block.
func TestWrapUnable(t *testing.T) {
	for _, shell := range shells(t) {
		missing := filepath.Join(t.TempDir(), "missing")
		noHead := t.TempDir()
		if err := Prepare(noHead, nil); err != nil {
			t.Fatal(err)
		}
		noInput := t.TempDir()
		full := t.TempDir()
		if err := errors.Join(Prepare(full, nil), os.Symlink("/dev/full", filepath.Join(full, outFile))); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct{ dir, path string }{
			"no folder": {missing, os.Getenv("PATH")},
			"no input":  {noInput, os.Getenv("PATH")},
			"no head":   {noHead, "/nonexistent"},
			"disk full": {full, os.Getenv("PATH")},
		} {
			cmd := exec.Command(shell, "-c", Wrap(c.dir, "echo hi"))
			cmd.Env = []string{"PATH=" + c.path}
			_ = cmd.Run()
			if got := cmd.ProcessState.ExitCode(); got != lostExit {
				t.Errorf("%s, %s: exit %d", shell, name, got)
			}
		}
	}
}

func TestPrepareAndCollect(t *testing.T) {
	if err := Prepare("relative", nil); !td.IsKind(err, td.Invalid) {
		t.Errorf("a relative folder: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "deep", "folder")
	if _, err := Collect(dir); !td.IsKind(err, td.Unavailable) {
		t.Errorf("no folder: %v", err)
	}
	if err := Prepare(dir, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if _, err := Collect(dir); !td.IsKind(err, td.Unavailable) {
		t.Errorf("not started: %v", err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others may look: %v %v", info.Mode(), err)
	}
	if o := run(t, "/bin/sh", dir, "cat"); string(o.Stdout) != "one" {
		t.Errorf("got %q", o.Stdout)
	}
	if err := Prepare(dir, []byte("two")); err != nil {
		t.Fatal(err)
	}
	if _, err := Collect(dir); !td.IsKind(err, td.Unavailable) {
		t.Errorf("the answer of an attempt before: %v", err)
	}
	if o := run(t, "/bin/sh", dir, "cat"); string(o.Stdout) != "two" {
		t.Errorf("got %q", o.Stdout)
	}
	for _, boot := range []string{"another boot", ""} {
		if err := os.WriteFile(filepath.Join(dir, bootFile), []byte(boot), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := Collect(dir); !td.IsKind(err, td.Unavailable) {
			t.Errorf("boot %q: %q, %v", boot, out, err)
		}
	}
	if err := errors.Join(Discard(dir), Discard(dir)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
}

// spool makes one whose commands end with the test.
func spool(t testing.TB) *sandbox.Spool {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &sandbox.Spool{Dir: filepath.Join(t.TempDir(), "spool"), Self: self}
	t.Cleanup(s.Close)
	return s
}

// command is a spec's command as a daemon would start it.
func command(dir, cwd string, s Spec) sandbox.Command {
	return sandbox.Command{Shell: Wrap(dir, s.Command), Dir: cwd, Timeout: s.Timeout, Task: "task", Run: "run", Step: "step"}
}

// answer is what a command that runs or ran under a shim comes to.
func answer(t testing.TB, proc sandbox.Process, dir string, s Spec, p Payload) Result {
	t.Helper()
	res, err := proc.Wait(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Collect(dir)
	if err != nil {
		return Failed(s, err)
	}
	return Interpret(s, p, Output{Exit: res.Exit, Stdout: out, Stderr: append(res.Head, res.Tail...), TimedOut: res.TimedOut})
}

// Under the real shim: what a command says is heard, by the daemon that started it and by the next one.
func TestUnderTheShim(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		timeout time.Duration
		check   func(Result) bool
	}{
		"says nothing": {"cat >/dev/null", time.Minute, func(r Result) bool { return r.Failure == "" && !r.Blocked }},
		"blocks": {"echo not today >&2; exit 2", time.Minute, func(r Result) bool {
			return r.Blocked && r.Reason == "not today"
		}},
		"decides": {`echo '{"tool_input":{"command":"true"},"inject":"x"}'`, time.Minute, func(r Result) bool {
			return string(r.Changes["tool_input"]) == `{"command":"true"}` && r.Inject[0] == "x"
		}},
		"hangs": {"sleep 600", 200 * time.Millisecond, func(r Result) bool {
			return strings.Contains(r.Failure, "it took longer than 200ms")
		}},
		"floods both": {"yes >&2 & yes", time.Minute, func(r Result) bool { return r.Failure != "" && !r.Blocked }},
	} {
		t.Run(name, func(t *testing.T) {
			first := spool(t)
			s := at(PreToolUse)
			s.Command, s.Timeout = c.command, c.timeout
			stdin, err := Encode(samplePreToolUse)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "it's here")
			if err := Prepare(dir, stdin); err != nil {
				t.Fatal(err)
			}
			proc, err := first.Start(t.Context(), "step", command(dir, t.TempDir(), s))
			if err != nil {
				t.Fatal(err)
			}
			if r := answer(t, proc, dir, s, samplePreToolUse); !c.check(r) {
				t.Errorf("got %+v", r)
			}
			next := &sandbox.Spool{Dir: first.Dir, Self: first.Self}
			defer next.Close()
			again, state, err := next.Find("step")
			if err != nil || state != sandbox.Finished {
				t.Fatalf("%s, %v", state, err)
			}
			if r := answer(t, again, dir, s, samplePreToolUse); !c.check(r) {
				t.Errorf("the next daemon got %+v", r)
			}
		})
	}
}

// A hook that still runs when its daemon dies is waited for by the next one.
func TestAdopted(t *testing.T) {
	first := spool(t)
	dir, gate := t.TempDir(), filepath.Join(t.TempDir(), "gate")
	s := at(PreToolUse)
	s.Command = `while ! [ -e '` + gate + `' ]; do sleep 0.01; done; echo '{"decision":"block","reason":"late"}'`
	if err := Prepare(dir, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Start(context.Background(), "step", command(dir, t.TempDir(), s)); err != nil {
		t.Fatal(err)
	}
	next := &sandbox.Spool{Dir: first.Dir, Self: first.Self}
	defer next.Close()
	proc, state, err := next.Find("step")
	if err != nil || state != sandbox.StillRunning {
		t.Fatalf("%s, %v", state, err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := answer(t, proc, dir, s, samplePreToolUse); !r.Blocked || r.Reason != "late" {
		t.Errorf("got %+v", r)
	}
}
