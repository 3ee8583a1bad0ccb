package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"taskdaemon/internal/api"
	"taskdaemon/internal/api/apitest"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

// The test binary is also the program, so that these tests run real daemons. Which of the two it is
// follows from the arguments alone: a daemon's child has another environment, and if it took itself for
// a test it would start daemons without end.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		if os.Args[1] == "exec" {
			os.Exit(sandbox.ExecMain())
		}
		os.Exit(Main())
	}
	os.Exit(m.Run())
}

// program is the real thing on a state folder of its own.
type program struct {
	dir string // holds state, config and workspace
}

func newProgram(t *testing.T) *program {
	t.Helper()
	p := &program{t.TempDir()}
	if err := os.Mkdir(filepath.Join(p.dir, "ws"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.run(t, "daemon", "stop") })
	return p
}

func (p *program) cmd(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir = filepath.Join(p.dir, "ws")
	cmd.Env = append(os.Environ(), "TASKDAEMON_STATE="+filepath.Join(p.dir, "state"),
		"XDG_CONFIG_HOME="+filepath.Join(p.dir, "config"), "ANTHROPIC_API_KEY=", "TASKDAEMON_CONFIG=", "USER=me")
	return cmd
}

func (p *program) run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := p.cmd(args...)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), talk.String(), cmd.ProcessState.ExitCode()
}

// must runs a command that has to work.
func (p *program) must(t *testing.T, args ...string) string {
	t.Helper()
	out, talk, code := p.run(t, args...)
	if code != 0 {
		t.Fatalf("%v: exit %d: %s%s", args, code, out, talk)
	}
	return out
}

func (p *program) status(t *testing.T) api.Status {
	t.Helper()
	var st api.Status
	if err := json.Unmarshal([]byte(p.must(t, "daemon", "status", "--json")), &st); err != nil {
		t.Fatal(err)
	}
	return st
}

func (p *program) script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(p.dir, "script.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// asking adds a task that asks a question, and returns when it does.
func (p *program) asking(t *testing.T) string {
	t.Helper()
	out, talk, code := p.run(t, "task", "add", "ask", "--rehearse", p.script(t, apitest.Script), "--wait")
	if code != exitPerson {
		t.Fatalf("exit %d, want %d: %s", code, exitPerson, talk)
	}
	wantIn(t, "stderr", talk, "Which colour?", "taskdaemon task answer q-")
	return strings.TrimSpace(out)
}

// Commands that race to start one daemon all work, and find the same one.
func TestRacingCommandsStartOneDaemon(t *testing.T) {
	p := newProgram(t)
	const racers = 4
	pids := make([]int, racers)
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			out, talk, code := p.run(t, "status", "--json")
			var st api.Status
			if err := json.Unmarshal([]byte(out), &st); err != nil || code != 0 {
				t.Errorf("racer %d: exit %d, %v: %s", i, code, err, talk)
			}
			pids[i] = st.Pid
		})
	}
	wg.Wait()
	for _, pid := range pids {
		if pid != pids[0] || pid == 0 {
			t.Errorf("daemons are %v", pids)
		}
	}
	for _, args := range [][]string{{"daemon", "start"}, {"daemon", "start", "--foreground"}} {
		if _, talk, code := p.run(t, args...); code != exitLocked || !strings.Contains(talk, fmt.Sprint(pids[0])) {
			t.Errorf("%v beside a daemon: exit %d: %s", args, code, talk)
		}
	}
	p.must(t, "daemon", "stop")
	if _, talk, code := p.run(t, "daemon", "status"); code != exitUnavailable || !strings.Contains(talk, "daemon start") {
		t.Errorf("after stop: exit %d: %s", code, talk)
	}
	p.must(t, "daemon", "stop") // no daemon is no error
}

// A daemon that cannot start says why in its own words, and at once.
func TestDaemonsOwnErrorIsShown(t *testing.T) {
	p := newProgram(t)
	file := filepath.Join(p.dir, "config", "taskdaemon", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("limits:\n  turn: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, talk, code := p.run(t, "task", "list")
	if code != exitUsage {
		t.Errorf("exit %d", code)
	}
	wantIn(t, "stderr", talk, file+":2:3", "did you mean limits.turns?", "next: ")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(p.dir, "state")
	if err := os.WriteFile(filepath.Join(state, "journal.db"), []byte("this is no database, and never was one"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, talk, code = p.run(t, "task", "list")
	if code != exitStorage || !strings.Contains(talk, "journal.db") {
		t.Errorf("a foreign database: exit %d: %s", code, talk)
	}
	if err := os.Remove(filepath.Join(state, "journal.db")); err != nil {
		t.Fatal(err)
	}
}

// The whole life of a watched task: the daemon is killed under the viewer, comes back, and the viewer
// sees the task to its end.
func TestAttachOutlivesTheDaemon(t *testing.T) {
	p := newProgram(t)
	handle := p.asking(t)
	attach := p.cmd("loop", "attach", handle)
	out, err := attach.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var talk syncBuffer
	attach.Stderr = &talk
	if err := attach.Start(); err != nil {
		t.Fatal(err)
	}
	seen := &syncBuffer{}
	var reading sync.WaitGroup
	reading.Go(func() { seen.readFrom(out) })
	seen.wait(t, "Which colour?")

	if err := syscall.Kill(p.status(t).Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	talk.wait(t, "the daemon is gone; the task goes on when it is back")
	_, started, code := p.run(t, "daemon", "start")
	if code != 0 {
		t.Fatalf("start: exit %d: %s", code, started)
	}
	wantIn(t, "the report", started, "after a crash", handle)
	talk.wait(t, "the daemon is back")
	p.must(t, "task", "answer", handle, "blue")
	reading.Wait()
	if err := attach.Wait(); err != nil {
		t.Errorf("attach: %v: %s", err, talk.String())
	}
	wantIn(t, "attach", seen.String(), "» "+socketUser()+": blue", "✓ completed")
	wantIn(t, "recover", p.must(t, "recover"), handle)
}

// Ctrl-C detaches; the task goes on.
func TestCtrlCDetaches(t *testing.T) {
	p := newProgram(t)
	handle := p.asking(t)
	attach := p.cmd("loop", "attach", handle)
	var out, talk syncBuffer
	attach.Stdout, attach.Stderr = &out, &talk
	if err := attach.Start(); err != nil {
		t.Fatal(err)
	}
	out.wait(t, "Which colour?")
	if err := attach.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := attach.Wait(); err != nil {
		t.Errorf("attach: %v: %s", err, talk.String())
	}
	wantIn(t, "stderr", talk.String(), "detached; the task runs on")
	wantIn(t, "show", p.must(t, "task", "show", handle), "waiting: question")
}

// On a terminal a question is answered in place, and there is colour.
func TestAnswerOnATerminal(t *testing.T) {
	p := newProgram(t)
	handle := p.asking(t)
	attach := p.cmd("loop", "attach", handle)
	attach.Env = append(attach.Env, "TERM=xterm", "NO_COLOR=")
	tty, err := pty.Start(attach)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	seen := &syncBuffer{}
	var reading sync.WaitGroup
	reading.Go(func() { seen.readFrom(tty) }) // ends with an error when the terminal is gone
	seen.wait(t, "Ctrl-C detaches")           // before it is shown that a question is open: it was when the task was found
	if _, err := tty.WriteString("dark blue\n"); err != nil {
		t.Fatal(err)
	}
	err = attach.Wait()
	reading.Wait()
	if err != nil {
		t.Errorf("attach: %v: %s", err, seen.String())
	}
	wantIn(t, "the terminal", seen.String(), socketUser()+": dark blue", "\x1b[32m✓ completed")
}

func TestSecondSignalDoesNotWait(t *testing.T) {
	p := newProgram(t)
	p.must(t, "init", "--no-graph")
	cmd := p.cmd("daemon", "start", "--foreground", "--set", "timeouts.shutdown=10m")
	var talk syncBuffer
	cmd.Stderr = &talk
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	talk.wait(t, "ready")
	// A command that does not end keeps the daemon from stopping.
	script := p.script(t, "turns:\n  - tools:\n      - name: Bash\n        input: {command: sleep 300}\n")
	p.must(t, "task", "add", "sleep", "--yes", "--rehearse", script)
	eventually(t, func() []td.StepRef {
		var tasks []td.Task
		if err := json.Unmarshal([]byte(p.must(t, "task", "list", "--json")), &tasks); err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			for _, s := range task.InFlight {
				if s.Kind == td.ToolStep {
					return task.InFlight
				}
			}
		}
		return nil
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	talk.wait(t, "stopping")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit %d: %s", code, talk.String())
	}
	p.must(t, "task", "cancel", "t-") // nothing is left running behind the test
	eventually(t, func() []string {
		return strings.Fields(p.must(t, "task", "list", "--all", "--only", "cancelled"))
	})
}

func TestLogsAreShownAndFollowed(t *testing.T) {
	p := newProgram(t)
	if _, talk, code := p.run(t, "daemon", "logs"); code != exitNotFound || !strings.Contains(talk, "daemon start") {
		t.Errorf("no log: exit %d: %s", code, talk)
	}
	p.must(t, "daemon", "start")
	wantIn(t, "logs", p.must(t, "daemon", "logs"), "info ready", "provider=rehearsal")
	follow := p.cmd("daemon", "logs", "-f", "--json")
	var out syncBuffer
	follow.Stdout = &out
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	out.wait(t, `"msg":"ready"`)
	// Rotate under the follower, as the daemon would.
	path := logPath(filepath.Join(p.dir, "state"))
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"msg":"after rotation"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out.wait(t, "after rotation")
	if err := follow.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := follow.Wait(); err != nil {
		t.Error(err)
	}
}

// syncBuffer is a buffer that a test may look into while a process writes.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *syncBuffer) readFrom(r io.Reader) {
	p := make([]byte, 4096)
	for {
		n, err := r.Read(p)
		_, _ = b.Write(p[:n])
		if err != nil {
			return
		}
	}
}

func (b *syncBuffer) wait(t *testing.T, text string) {
	t.Helper()
	b.waitCount(t, text, 1)
}

// waitCount waits until the text has come n times.
func (b *syncBuffer) waitCount(t *testing.T, text string, n int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for strings.Count(b.String(), text) < n {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%q does not come:\n%s", text, b.String())
		}
	}
}

// What a daemon says when it dies is heard, also after who listened was killed.
func TestLastWords(t *testing.T) {
	p := newProgram(t)
	var st api.Status
	if err := json.Unmarshal([]byte(p.must(t, "status", "--json")), &st); err != nil {
		t.Fatal(err)
	}
	first := listenerOf(t, st.Pid, 0)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	listenerOf(t, st.Pid, first)
	if err := syscall.Kill(st.Pid, syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() []byte {
		said, _ := os.ReadFile(errPath(filepath.Join(p.dir, "state")))
		if !bytes.Contains(said, []byte("SIGQUIT")) || !bytes.Contains(said, []byte("goroutine")) {
			return nil
		}
		return said
	})
}

// listenerOf waits for the process that listens to a daemon, to which the daemon's standard error leads, and is not the one that did before.
func listenerOf(t *testing.T, daemon, before int) int {
	t.Helper()
	return eventually(t, func() (found []int) {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", daemon))
		for _, list := range lists {
			raw, _ := os.ReadFile(list)
			for word := range strings.FieldsSeq(string(raw)) {
				pid, _ := strconv.Atoi(word)
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				said, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/2", daemon))
				heard, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", pid))
				if pid != before && bytes.Contains(line, []byte("last-words")) && said != "" && said == heard {
					found = append(found, pid)
				}
			}
		}
		return found
	})[0]
}
