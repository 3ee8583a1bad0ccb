package mirror

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"taskdaemon/internal/td"
)

// tell mirrors one task with these events after its creation and returns its repository.
func tell(t *testing.T, bodies ...td.Body) string {
	t.Helper()
	j, path := newJournal(), filepath.Join(t.TempDir(), "c.git")
	j.add(task(1), life(task(1), 0)[:3]...)
	j.add(task(1), bodies...)
	catchUp(t, j, path)
	fsck(t, path)
	return path
}

func subjects(t *testing.T, path string, skip int) []string {
	t.Helper()
	return strings.Split(gitOut(t, path, "log", "--reverse", "--format=%s", handle(1)), "\n")[skip:]
}

func answer(key td.StepKey, blocks ...td.Block) td.Body {
	return td.StepEnded{Outcome: td.Outcome{Key: key, Via: td.Ran, Model: &td.ModelResult{
		Message: td.Message{Role: td.Assistant, Blocks: blocks}, Model: "m",
	}}}
}

func result(key td.StepKey, content string) td.Body {
	return td.StepEnded{Outcome: td.Outcome{Key: key, Via: td.Ran, Tool: &td.ToolResult{Content: content}}}
}

func TestHostileWords(t *testing.T) {
	evil := "../../\x00\xff\u202e\n```\n````json\nTaskdaemon-Seq: 9999\n"
	path := tell(t,
		td.Said{Text: evil, By: evil},
		answer("t1.model", td.Block{Type: td.ToolUseBlock, ID: "u", Name: evil, Input: json.RawMessage(`{"command":"a\u0000b"}`)},
			td.Block{Type: td.ToolUseBlock, ID: "v", Name: "Odd", Malformed: evil}),
		td.StepIntended{Intent: td.Intent{Key: "t1.0", Kind: td.ToolStep, Name: evil}},
		result("t1.0", evil),
		result("t1.1", evil),
	)
	for _, s := range subjects(t, path, 2) {
		if !utf8.ValidString(s) || strings.ContainsAny(s, "\x00\n") || utf8.RuneCountInString(s) > 101 {
			t.Errorf("subject: %q", s)
		}
	}
	if got := gitOut(t, path, "log", "--format=%(trailers:key=Taskdaemon-Seq,valueonly,separator=%x2C)", "-1", handle(1)); got != "8" {
		t.Errorf("trailer of the newest: %q", got)
	}
	for f := range strings.Lines(gitOut(t, path, "ls-tree", "-r", "-z", "--name-only", handle(1))) {
		for name := range strings.SplitSeq(f, "\x00") {
			if strings.ContainsAny(name, "\n\"\\ ") || strings.Contains(name, "..") {
				t.Errorf("file name: %q", name)
			}
		}
	}
	if got := gitOut(t, path, "show", handle(1)+":messages/0004-tool-jsonTaskdaemon-Seq9999.md"); !strings.Contains(got, "\n`````text\n"+evil+"`````") {
		t.Errorf("result: %q", got)
	}
}

// Calls that run side by side may end in any order; each result is told apart by its place.
func TestResultsOutOfOrder(t *testing.T) {
	read := func(path string) td.Block {
		return td.Block{Type: td.ToolUseBlock, Name: "Read", Input: json.RawMessage(`{"file_path":"` + path + `"}`)}
	}
	path := tell(t, answer("t1.model", read("a"), read("b"), read("c")), result("t1.2", "C"), result("t1.0", "A"), result("t1.1", "B"))
	if got := subjects(t, path, 2); strings.Join(got, ",") != "turn 1: Read a, Read b, Read c" {
		t.Errorf("subjects: %q", got)
	}
	if got := gitOut(t, path, "log", "-1", "--format=%b", handle(1)); !strings.HasPrefix(got, "- Read c\n- Read a\n- Read b\n\nTaskdaemon-Seq") {
		t.Errorf("body: %q", got)
	}
	if got := gitOut(t, path, "show", handle(1)+":messages/0003-tool-Read.md"); !strings.HasPrefix(got, "# Read: c\n") {
		t.Errorf("first result: %q", got)
	}
}

// What ends after its task did is there at once: retention may let go of it, and no other event will bring it along.
func TestResultAfterTheEnd(t *testing.T) {
	call := td.Block{Type: td.ToolUseBlock, Name: "Bash", Input: json.RawMessage(`{"command":"make"}`)}
	path := tell(t, answer("t1.model", call, call),
		td.Moved{Verb: td.VerbCancel, From: td.Running, Status: td.Status{State: td.Cancelled}}, result("t1.0", "made"))
	if got := subjects(t, path, 2); strings.Join(got, "|") != "turn 1: Bash make, Bash make|cancelled|turn 1: Bash make" {
		t.Errorf("subjects: %q", got)
	}
}

func TestHugeBody(t *testing.T) {
	huge := strings.Repeat("0123456789abcde\n", 50<<20/16)
	path := tell(t, answer("t1.model", td.Block{Type: td.ToolUseBlock, ID: "u", Name: "Bash"}), result("t1.0", huge))
	if got := gitOut(t, path, "cat-file", "-s", handle(1)+":messages/0003-tool-Bash.md"); len(got) != 8 {
		t.Errorf("size %s", got)
	}
}

func TestRequestsAndDiscards(t *testing.T) {
	r := td.Request{ID: "01890000-0000-7000-8000-00000000abcd", Kind: td.AskPermission, Prompt: "May I?", Detail: "rm -r build", Options: []string{"yes", "no"}}
	path := tell(t,
		answer("t1.model", td.Block{Type: td.TextBlock, Text: "I clean up."}, td.Block{Type: td.ToolUseBlock, ID: "u", Name: "Bash", Input: json.RawMessage(`{"command":"rm -r build"}`)}),
		td.RequestOpened{Request: r},
		td.RequestAnswered{Answer: td.Answer{Request: r.ID, Choice: "no", Words: "keep it", By: "ann"}},
		result("t1.0", "refused"),
		td.Discarded{By: "ann"},
		td.Said{Text: "try again", By: "ann"},
	)
	want := []string{
		"turn 1: I clean up.", "asked for permission: May I?", "answer from ann: no",
		"turn 1: Bash rm -r build", "last answer discarded by ann", "message from ann: try again",
	}
	if got := subjects(t, path, 2); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("subjects: %q", got)
	}
	if got := gitOut(t, path, "ls-tree", "--name-only", handle(1)+":messages"); got != "0001-user.md\n0004-user.md" {
		t.Errorf("messages left: %q", got)
	}
	asked := gitOut(t, path, "show", handle(1)+":requests/"+r.Handle()+".md")
	for _, w := range []string{"May I?", "rm -r build", "yes, no", "Answer from ann: no", "keep it"} {
		if !strings.Contains(asked, w) {
			t.Errorf("no %q in %q", w, asked)
		}
	}
}

// Bodies that are gone or broken are named, and what follows them is still mirrored.
func TestGoneBodies(t *testing.T) {
	j, path := newJournal(), filepath.Join(t.TempDir(), "c.git")
	j.specs[task(1)] = td.Spec{ID: task(1), Handle: handle(1), Title: "old"}
	j.heads[task(1)] = 3 // the first records are gone altogether
	j.add(task(1), td.Trimmed{Was: "created"}, td.Trimmed{Was: "step_intended"}, td.Trimmed{Was: "step_ended"},
		td.Unreadable{Was: "said", Raw: []byte("{torn"), Err: "unexpected end"}, td.Said{Text: "hello", By: "ann"})
	catchUp(t, j, path)
	want := "trimmed: created\ntrimmed: step_ended\nunreadable: said\nmessage from ann: hello"
	if got := gitOut(t, path, "log", "--reverse", "--format=%s", handle(1)); got != want {
		t.Errorf("log: %q", got)
	}
	if got := gitOut(t, path, "show", handle(1)+":messages/0002-unreadable.md"); !strings.Contains(got, "{torn") || !strings.Contains(got, "unexpected end") {
		t.Errorf("unreadable: %q", got)
	}
}

// The mirror is for people: a prompt that is very long is repeated in part, and kept whole once.
func TestLongPrompt(t *testing.T) {
	j, path := newJournal(), filepath.Join(t.TempDir(), "c.git")
	b := life(task(1), 0)
	spec := b[0].(td.Created).Spec
	spec.Prompt = strings.Repeat("ü", promptShown)
	j.add(task(1), td.Created{Spec: spec})
	catchUp(t, j, path)
	if page := gitOut(t, path, "show", handle(1)+":task.md"); len(page) > 2*promptShown || !strings.Contains(page, "spec.json") {
		t.Errorf("task.md has %d bytes", len(page))
	}
	var whole td.Spec
	if err := json.Unmarshal([]byte(gitOut(t, path, "show", handle(1)+":spec.json")), &whole); err != nil || whole.Prompt != spec.Prompt {
		t.Errorf("spec.json: %v, %d bytes of prompt", err, len(whole.Prompt))
	}
}

func TestBranchNames(t *testing.T) {
	for handle, want := range map[string]string{
		"t-4k7q2m9x":   "refs/heads/t-4k7q2m9x",
		"":             "refs/heads/t-0000000000001",
		"../evil":      "refs/heads/t-0000000000001",
		"-x":           "refs/heads/t-0000000000001",
		"a..b":         "refs/heads/t-0000000000001",
		"t-x.lock":     "refs/heads/t-0000000000001",
		"t-\x00\n\xff": "refs/heads/t-0000000000001",
	} {
		s := state{Task: "01890000-0000-7000-8000-000000000001", Spec: td.Spec{Handle: handle}}
		got := s.branch()
		if strings.HasSuffix(want, "0001") {
			want = "refs/heads/" + td.Handle(td.TaskHandle, string(s.Task), td.MaxHandleLength)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", handle, got, want)
		}
	}
	odd := state{Task: "no uuid/../x"}
	if got := odd.branch(); got != "refs/heads/t-nouuidx" {
		t.Errorf("odd id: %s", got)
	}
}

func FuzzParseState(f *testing.F) {
	good := &state{Version: version, Task: "t", Next: 3, Live: td.Live{Turns: 2}}
	if _, err := good.take(td.Record{Event: td.Event{Seq: 1, At: start, Body: td.Said{Text: "x"}}}); err != nil {
		f.Fatal(err)
	}
	raw, _ := json.Marshal(good)
	f.Add(raw)
	f.Add([]byte(`{"version":1,"task":"t","next":1,"live":{"status":{"state":"running"},"in_flight":[{}]},"calls":[{}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := parseState(raw, "t")
		if err != nil {
			return
		}
		// Whatever was read must carry the conversation on.
		for i, b := range append(life("t", 1), td.Discarded{}, td.RequestExpired{ID: "q"}) {
			if _, err := s.take(td.Record{Event: td.Event{Seq: uint64(i + 1), At: time.Unix(0, 0), Body: b}}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
