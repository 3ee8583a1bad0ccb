package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/api/apitest"
	"taskdaemon/internal/client"
	"taskdaemon/internal/td"
)

var update = flag.Bool("update", false, "rewrite generated pages")

// rehearsing is a fake that is known to be one.
type rehearsing struct{ *apitest.Fake }

func (rehearsing) Peer() (client.Peer, bool) {
	return client.Peer{Provider: "rehearsal", Version: Version()}, true
}

type bench struct {
	*app
	fake   *apitest.Fake
	stdout *bytes.Buffer
	stderr *bytes.Buffer
	env    map[string]string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{fake: apitest.NewFake(), stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, env: map[string]string{"HOME": t.TempDir(), "USER": "me"}}
	b.app = &app{
		stdin: strings.NewReader(""), stdout: b.stdout, stderr: b.stderr, now: time.Now,
		getenv:  func(k string) string { return b.env[k] },
		environ: func() []string { return nil },
		service: func(context.Context) (api.Service, error) { return rehearsing{b.fake}, nil },
	}
	return b
}

// do runs a command line and returns its exit code.
func (b *bench) do(t *testing.T, args ...string) int {
	t.Helper()
	b.stdout.Reset()
	b.stderr.Reset()
	return b.run(t.Context(), args)
}

// add makes a task, straight in the service.
func (b *bench) add(t *testing.T, in api.AddTask) td.Task {
	t.Helper()
	in.Dir = "/"
	if in.Prompt == "" {
		in.Prompt = "do it"
	}
	task, err := b.fake.AddTask(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func wantIn(t *testing.T, what, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not say %q:\n%s", what, w, text)
		}
	}
}

func TestReferenceIsUpToDate(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "cli.md")
	if *update {
		if err := os.WriteFile(path, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != Reference() {
		t.Errorf("docs/cli.md is out of date (%v): go test ./internal/cli -update", err)
	}
}

// Every command has what the help promises: a line, exit codes, one example that names it, --json.
func TestEveryCommandHelps(t *testing.T) {
	eachCommand(newRootCmd(newBench(t).app), func(cmd *cobra.Command) {
		if cmd.Name() == "help" || cmd.Name() == "completion" || cmd.HasParent() && cmd.Parent().Name() == "completion" {
			return
		}
		if cmd.Short == "" || len(exitLines(cmd)) == 0 || !strings.Contains(cmd.Example, "taskdaemon") {
			t.Errorf("%s: short %q, exit codes %v, example %q", cmd.CommandPath(), cmd.Short, exitLines(cmd), cmd.Example)
		}
		if cmd.RunE == nil && cmd.HasParent() {
			t.Errorf("%s does nothing", cmd.CommandPath())
		}
		for _, line := range exitLines(cmd) {
			if strings.TrimSpace(line[3:]) == "" {
				t.Errorf("%s: exit code without a meaning: %q", cmd.CommandPath(), line)
			}
		}
	})
}

func TestEveryKindHasAnExitCode(t *testing.T) {
	want := map[td.Kind]int{
		td.NotFound: 3, td.Ambiguous: 3, td.Invalid: 2, td.Conflict: 6, td.Fenced: 6, td.Unknown: 7, td.Locked: 8,
		td.Storage: 9, td.Corrupt: 9, td.Newer: 9, td.Unavailable: 7, td.Refused: 6, td.Timeout: 7,
		td.Interrupted: 130, td.Auth: 1, td.Internal: 1,
	}
	for kind, code := range want {
		if got := exitCode(td.Errorf(kind, "x")); got != code {
			t.Errorf("%s exits with %d, want %d", kind, got, code)
		}
	}
	if exitCode(errors.New("x")) != exitFailed {
		t.Error("an error without a kind")
	}
}

func TestTaskAdd(t *testing.T) {
	b := newBench(t)
	script := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(script, []byte(apitest.Script), 0o600); err != nil {
		t.Fatal(err)
	}
	code := b.do(t, "task", "add", "fix", "it", "--dir", "/", "--title", "T", "--validate", "true", "--yes", "--interactive",
		"--tier", "expert", "--model", "m", "--priority", "0", "--label", "a,b", "--max-turns", "3", "--rehearse", script)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, b.stderr)
	}
	handle := strings.TrimSpace(b.stdout.String())
	task, err := b.fake.Task(t.Context(), handle)
	if err != nil {
		t.Fatal(err)
	}
	if task.Prompt != "fix it" || task.Title != "T" || task.Validator != "true" || !task.Yes || task.Mode != td.Interactive ||
		task.Tier != td.Expert || task.Model != "m" || task.Priority != 0 || !slices.Equal(task.Labels, []string{"a", "b"}) ||
		task.MaxTurns != 3 || task.Rehearsal != apitest.Script || task.CreatedBy != "me" {
		t.Errorf("task is %+v", task.Spec)
	}
	wantIn(t, "stderr", b.stderr.String(), "rehearsal model: no key in the environment; nothing leaves this machine",
		"taskdaemon loop attach "+handle)
}

func TestTaskAddTakesThePromptFromAnywhere(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(t.TempDir(), "prompt")
	if err := os.WriteFile(file, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.stdin = strings.NewReader("from stdin")
	for want, args := range map[string][]string{"from stdin": {"-"}, "from a file": {"--file", file}, "two words": {"two", "words"}} {
		if code := b.do(t, append([]string{"task", "add", "--json"}, args...)...); code != 0 {
			t.Errorf("%v: exit %d: %s", args, code, b.stderr)
		}
		var task td.Task
		if err := json.Unmarshal(b.stdout.Bytes(), &task); err != nil || task.Prompt != want || task.Priority != 2 {
			t.Errorf("%v: %v, %q, priority %d", args, err, task.Prompt, task.Priority)
		}
	}
	for _, args := range [][]string{
		{},
		{"x", "--file", file},
		{"--file", "/absent"},
		{"x", "--dir", "/absent"},
		{"x", "--nonsense"},
		{"x", "--wait", "--attach"},
		{"x", "--priority", "7"},
	} {
		if code := b.do(t, append([]string{"task", "add"}, args...)...); code != exitUsage {
			t.Errorf("%v: exit %d, want %d: %s", args, code, exitUsage, b.stderr)
		}
		wantIn(t, "stderr", b.stderr.String(), "error: ", "next: ")
	}
}

func TestTaskAddWaitExitsWithTheOutcome(t *testing.T) {
	for state, want := range map[td.State]int{td.Completed: 0, td.Failed: 1, td.Cancelled: 4, td.Abandoned: 1, td.Waiting: 5, td.Paused: 5, td.Blocked: 5} {
		b := newBench(t)
		done := make(chan int, 1)
		go func() { done <- b.do(t, "task", "add", "x", "--wait") }()
		tasks := eventually(t, func() []td.Task {
			tasks, _ := b.fake.Tasks(t.Context(), api.TaskQuery{})
			return tasks
		})
		id := tasks[0].ID
		b.fake.Append(id, td.Moved{Verb: td.VerbStart, From: td.Queued, Status: td.Status{State: td.Running, Running: &td.RunningData{}}})
		verbs := map[td.State]td.Verb{
			td.Completed: td.VerbComplete, td.Failed: td.VerbFail, td.Cancelled: td.VerbCancel,
			td.Abandoned: td.VerbAbandon, td.Waiting: td.VerbAsk, td.Paused: td.VerbPause, td.Blocked: td.VerbBlock,
		}
		b.fake.Append(id, td.Moved{Verb: verbs[state], From: td.Running, Status: td.Status{State: state}})
		if got := <-done; got != want {
			t.Errorf("%s: exit %d, want %d: %s", state, got, want, b.stderr)
		}
		if got := b.stdout.String(); got != tasks[0].Handle+"\n" {
			t.Errorf("%s: stdout is %q", state, got)
		}
	}
}

// eventually polls until get returns something.
func eventually[T any](t *testing.T, get func() []T) []T {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for {
		if v := get(); len(v) > 0 {
			return v
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it does not happen")
		}
	}
}

func TestTaskListAndShow(t *testing.T) {
	b := newBench(t)
	if code := b.do(t, "task", "list"); code != 0 || b.stdout.Len() != 0 {
		t.Errorf("empty: exit %d, %q", code, b.stdout)
	}
	wantIn(t, "stderr", b.stderr.String(), "--all")
	asking := b.add(t, api.AddTask{Title: "asks \x1b[31mred", Rehearsal: apitest.Script})
	ended := b.add(t, api.AddTask{Title: "ended"})
	if _, err := b.fake.Command(t.Context(), ended.Handle, api.Command{Type: td.CmdCancel}); err != nil {
		t.Fatal(err)
	}
	b.do(t, "task", "list")
	wantIn(t, "list", b.stdout.String(), "TASK", asking.Handle, "waiting: question", "asks ␛[31mred")
	if strings.Contains(b.stdout.String(), ended.Handle) || strings.Contains(b.stdout.String(), "\x1b") {
		t.Errorf("list is %q", b.stdout)
	}
	b.do(t, "task", "list", "--all")
	wantIn(t, "list --all", b.stdout.String(), ended.Handle, "cancelled")
	b.do(t, "task", "list", "--only", "cancelled", "--json")
	var tasks []td.Task
	if err := json.Unmarshal(b.stdout.Bytes(), &tasks); err != nil || len(tasks) != 1 || tasks[0].ID != ended.ID {
		t.Errorf("list --only: %v, %v", tasks, err)
	}
	if code := b.do(t, "task", "list", "--only", "dancing"); code != exitUsage {
		t.Errorf("an unknown state exits with %d", code)
	}

	b.do(t, "task", "show", asking.Handle)
	wantIn(t, "show", b.stdout.String(), asking.Handle, "waiting: question", "Which colour?", "in flight", "Ask t1.0",
		"taskdaemon task answer "+asking.Requests[0].Handle()+" red\n", "task answer "+asking.Requests[0].Handle()+" blue\n", "me", "do it")
	if code := b.do(t, "task", "show", "t-none"); code != exitNotFound {
		t.Errorf("an unknown task exits with %d", code)
	}
	wantIn(t, "stderr", b.stderr.String(), "error: no task matches", "next:  taskdaemon task list --all")
	if code := b.do(t, "--json", "task", "show", "t-"); code != exitNotFound {
		t.Errorf("an ambiguous task exits with %d", code)
	}
	var e struct {
		Error struct{ Kind, Message, Hint string }
	}
	if err := json.Unmarshal(b.stderr.Bytes(), &e); err != nil || e.Error.Kind != "ambiguous" || !strings.Contains(e.Error.Message, ended.Handle) {
		t.Errorf("error as JSON: %v, %s", err, b.stderr)
	}
}

func TestTaskAnswer(t *testing.T) {
	b := newBench(t)
	task := b.add(t, api.AddTask{Rehearsal: apitest.Script})
	if code := b.do(t, "task", "answer", task.Requests[0].Handle()[:6], "blue"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.stderr)
	}
	done, _ := b.fake.Task(t.Context(), task.Handle)
	if done.Status.State != td.Completed {
		t.Errorf("task is %s", done.Status.State)
	}
	if code := b.do(t, "task", "answer", task.Handle, "red"); code != exitConflict {
		t.Errorf("a second answer exits with %d: %s", code, b.stderr)
	}
	wantIn(t, "stderr", b.stderr.String(), "asks nothing")
}

func TestWordsBecomeAnswers(t *testing.T) {
	permission := td.Request{ID: "r", Kind: td.AskPermission, Options: []string{"yes", "no"}}
	lost := td.Request{ID: "r", Kind: td.AskQuestion, About: td.AboutUnknown, Options: []string{"retry", "skip", "done"}}
	colour := td.Request{ID: "r", Kind: td.AskQuestion, Options: []string{"dark red", "blue"}}
	free := td.Request{ID: "r", Kind: td.AskQuestion}
	talk := td.Request{ID: "r", Kind: td.AskConversation}
	for _, tc := range []struct {
		request      td.Request
		words        string
		kind         td.CommandType
		answer, text string
	}{
		{permission, "yes", td.CmdAnswer, "yes", ""},
		{permission, "Y", td.CmdAnswer, "yes", ""},
		{permission, "n not here", td.CmdAnswer, "no", "not here"},
		{permission, "NO", td.CmdAnswer, "no", ""},
		{permission, "perhaps", td.CmdAnswer, "perhaps", ""}, // the daemon says which answers there are
		{lost, "done it worked", td.CmdAnswer, "done", "it worked"},
		{colour, "Dark red", td.CmdAnswer, "dark red", ""},
		{colour, "blue please", td.CmdAnswer, "blue", "please"},
		{free, "y the second one", td.CmdAnswer, "y the second one", ""},
		{talk, "yes go on", td.CmdMessage, "", "yes go on"},
	} {
		got := answerTo(tc.request, strings.Fields(tc.words))
		if got.Type != tc.kind || got.Answer != tc.answer || got.Text != tc.text {
			t.Errorf("%q to %s becomes %+v", tc.words, tc.request.Kind, got)
		}
	}
}

func TestTaskSend(t *testing.T) {
	b := newBench(t)
	task := b.add(t, api.AddTask{Rehearsal: apitest.Script})
	bodies := func() []td.Body {
		h, err := b.fake.History(t.Context(), task.Handle)
		if err != nil {
			t.Fatal(err)
		}
		var out []td.Body
		for _, ev := range h.Events[task.Head:] {
			out = append(out, ev.Body)
		}
		return out
	}
	for _, words := range []string{"use Go", "/etc/passwd is not yours", "/model expert", "/compact", "/retry", "/pause", "/resume", "/cancel too slow"} {
		if code := b.do(t, append([]string{"task", "send", task.Handle}, strings.Fields(words)...)...); code != 0 {
			t.Errorf("%s: exit %d: %s", words, code, b.stderr)
		}
	}
	got := fmt.Sprintf("%+v", bodies())
	wantIn(t, "the journal", got, "use Go", "/etc/passwd is not yours", "Model:expert", "paused", "resume", "too slow")
	for words, code := range map[string]int{"/model": exitUsage, "/dance": exitUsage, "late words": exitConflict} {
		if got := b.do(t, append([]string{"task", "send", task.Handle}, strings.Fields(words)...)...); got != code {
			t.Errorf("%s: exit %d, want %d: %s", words, got, code, b.stderr)
		}
		wantIn(t, "stderr", b.stderr.String(), "next: ")
	}
	if code := b.do(t, "task", "send", task.Handle, "/context"); code != 0 {
		t.Fatal(b.stderr)
	}
	wantIn(t, "/context", b.stdout.String(), "base prompt", "200000", "last call")
}

func TestControls(t *testing.T) {
	b := newBench(t)
	task := b.add(t, api.AddTask{})
	for _, step := range []struct {
		args []string
		want td.State
	}{
		{[]string{"task", "pause"}, td.Paused},
		{[]string{"task", "resume"}, td.Queued},
		{[]string{"loop", "pause"}, td.Paused},
		{[]string{"resume"}, td.Queued},
		{[]string{"loop", "stop"}, td.Cancelled},
		{[]string{"loop", "resume"}, td.Queued},
		{[]string{"task", "cancel"}, td.Cancelled},
	} {
		if code := b.do(t, append(step.args, task.Handle)...); code != 0 {
			t.Errorf("%v: exit %d: %s", step.args, code, b.stderr)
		}
		if got, _ := b.fake.Task(t.Context(), task.Handle); got.Status.State != step.want {
			t.Errorf("%v: task is %s, want %s", step.args, got.Status.State, step.want)
		}
	}
	if code := b.do(t, "task", "cancel", task.Handle); code != exitConflict {
		t.Errorf("cancelling twice exits with %d", code)
	}
}

func TestSmallCommands(t *testing.T) {
	b := newBench(t)
	task := b.add(t, api.AddTask{Rehearsal: apitest.Script})
	for _, tc := range []struct {
		args []string
		code int
		out  string
	}{
		{[]string{"version"}, 0, "taskdaemon "},
		{[]string{"status"}, 0, "waiting for you"},
		{[]string{"recover"}, 0, "No pending tasks to recover."},
		{[]string{"checkpoint", task.Handle}, 0, "0123456789abcdef"},
		{[]string{"doctor"}, 0, "ok    journal"},
		{[]string{"loop", "history", task.Handle}, 0, "Which colour?"},
		{[]string{"loop", "history", "--events", task.Handle}, 0, `"type":"created"`},
		{[]string{"audit", task.Handle}, 0, `"type":"request_opened"`},
		{[]string{"config", "path"}, 0, "config.yaml"},
		{[]string{"config", "show"}, 0, "timeouts.tool"},
		{[]string{"config", "check"}, 0, ""},
		{[]string{"task"}, 0, "Commands:"},
		{[]string{"--help"}, 0, "Exit codes:"},
		{[]string{"task", "ad"}, exitUsage, ""},
		{[]string{"nonsense"}, exitUsage, ""},
		{[]string{"checkpoint"}, exitUsage, ""},
		{[]string{"audit", "--since", "yesterday"}, exitUsage, ""},
	} {
		if code := b.do(t, tc.args...); code != tc.code {
			t.Errorf("%v: exit %d, want %d: %s", tc.args, code, tc.code, b.stderr)
		}
		wantIn(t, strings.Join(tc.args, " "), b.stdout.String(), tc.out)
		if tc.code == 0 && len(tc.args) > 0 && tc.args[0] != "audit" && tc.args[len(tc.args)-1] != "--help" && tc.args[0] != "task" &&
			!slices.Contains(tc.args, "--events") {
			if code := b.do(t, append(tc.args, "--json")...); code != 0 || !json.Valid(b.stdout.Bytes()) {
				t.Errorf("%v --json: exit %d, %s", tc.args, code, b.stdout)
			}
		}
	}
	if strings.Contains(b.stdout.String(), "step_ended") {
		t.Error("audit exports what is no audit record")
	}
}

func TestDoctorProblemsAreAnExitCode(t *testing.T) {
	b := newBench(t)
	b.fake.Diagnosis = api.Diagnosis{Problems: 1, Checks: []api.Check{{Name: "claims", Findings: []string{"a claim"}, Fix: "release it"}}}
	if code := b.do(t, "doctor"); code != exitStorage {
		t.Errorf("exit %d", code)
	}
	wantIn(t, "doctor", b.stdout.String(), "bad   claims", "a claim", "release it")
	if strings.Contains(b.stderr.String(), "--fix") {
		t.Errorf("--fix is offered for what it does not repair: %s", b.stderr)
	}
	b.fake.Diagnosis.Checks[0].Fix = fixCommand
	b.do(t, "doctor")
	wantIn(t, "stderr", b.stderr.String(), "doctor --fix")
}

func TestInitIsSafeTwice(t *testing.T) {
	b := newBench(t)
	if code := b.do(t, "init"); code != 0 {
		t.Fatal(b.stderr)
	}
	file := filepath.Join(b.env["HOME"], ".config", "taskdaemon", "config.yaml")
	if err := os.WriteFile(file, []byte("provider: rehearsal\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := b.do(t, "init"); code != 0 {
		t.Fatal(b.stderr)
	}
	if raw, _ := os.ReadFile(file); string(raw) != "provider: rehearsal\n" {
		t.Errorf("init overwrote the file: %q", raw)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".config-*"))
	info, err := os.Stat(filepath.Join(b.env["HOME"], ".local", "state", "taskdaemon"))
	if err != nil || info.Mode().Perm() != 0o700 || len(left) != 0 {
		t.Errorf("state folder: %v, left over: %v", err, left)
	}
	if err := os.WriteFile(file, []byte("provder: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init"}, {"config", "check"}, {"config", "show"}} {
		if code := b.do(t, args...); code != exitUsage {
			t.Errorf("%v on a bad file exits with %d", args, code)
		}
		wantIn(t, "stderr", b.stderr.String(), file+":1:1", "did you mean provider?")
	}
}

func TestNoSecretIsPrinted(t *testing.T) {
	b := newBench(t)
	b.env["ANTHROPIC_API_KEY"] = "sk-ant-verysecret"
	for _, args := range [][]string{{"config", "show"}, {"config", "show", "--json"}, {"status"}, {"task", "list"}} {
		b.do(t, args...)
		if strings.Contains(b.stdout.String()+b.stderr.String(), "verysecret") {
			t.Errorf("%v prints the key", args)
		}
	}
	wantIn(t, "stderr", b.stderr.String(), "started without your key")
}

// Why no model is at work depends on the settings and on all keys, not on one variable.
func TestWhyRehearsal(t *testing.T) {
	for _, c := range []struct {
		name, config string
		env          map[string]string
		want         string
	}{
		{"no key", "", nil, "no key in the environment"},
		{"the standard key", "", map[string]string{"ANTHROPIC_API_KEY": "k"}, "started without your key"},
		{"a key of another name", "api_key_env: MINE\n", map[string]string{"MINE": "k"}, "started without your key"},
		{"the key of the other provider", "provider: openai\n", map[string]string{"OPENAI_API_KEY": "k"}, "started without your key"},
		{"a key nobody chose", "", map[string]string{"OPENAI_API_KEY": "k"}, "chooses no provider"},
		{"rehearsals by choice", "provider: rehearsal\n", map[string]string{"ANTHROPIC_API_KEY": "k"}, "the config says so"},
		{"a config that cannot be read", "provder: x\n", nil, "taskdaemon config check"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(c.config), 0o600); err != nil {
				t.Fatal(err)
			}
			maps.Copy(b.env, c.env)
			b.do(t, "--config", file, "task", "list")
			wantIn(t, "stderr", b.stderr.String(), "rehearsal model: ", c.want, "nothing leaves this machine")
		})
	}
}

func TestHintsReachTheSameDaemon(t *testing.T) {
	b := newBench(t)
	task := b.add(t, api.AddTask{Rehearsal: apitest.Script})
	b.do(t, "--state", "/some where", "task", "show", task.Handle)
	wantIn(t, "show", b.stdout.String(), "taskdaemon --state '/some where' task answer")
	b.do(t, "--state", "/x", "task", "show", "nope")
	wantIn(t, "stderr", b.stderr.String(), "taskdaemon --state /x task list")
}
