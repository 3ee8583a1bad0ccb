package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/api/apitest"
	"taskdaemon/internal/td"
)

func TestAttachShowsTheLoop(t *testing.T) {
	b := newBench(t)
	task := b.add(t, api.AddTask{Title: "the work"})
	run := td.NewRunID()
	exit := 1
	done := make(chan int, 1)
	go func() { done <- b.do(t, "loop", "attach", task.Handle) }()
	f := b.fake
	f.Append(task.ID,
		td.Moved{Verb: td.VerbStart, From: td.Queued, Status: td.Status{State: td.Running, Running: &td.RunningData{Run: run}}},
		td.StepIntended{Intent: td.Intent{Key: "t1.model", Kind: td.ModelStep, Name: "m"}},
		td.StepEnded{Outcome: td.Outcome{Key: "t1.model", Failure: &td.ModelFailure{Class: td.Overloaded, Message: "busy", RetryAt: time.Now()}}},
		td.StepIntended{Intent: td.Intent{Key: "t1.model", Kind: td.ModelStep, Name: "m", Attempt: 1}},
		td.StepEnded{Outcome: td.Outcome{Key: "t1.model", Model: &td.ModelResult{Message: td.Message{Role: td.Assistant, Blocks: []td.Block{
			{Type: td.TextBlock, Text: "I run \x1b]0;pwned\x07the test."},
			{Type: td.ToolUseBlock, ID: "a", Name: "Bash", Input: json.RawMessage(`{"command":"go test\n./..."}`)},
			{Type: td.ToolUseBlock, ID: "b", Name: "Read", Input: json.RawMessage(`{"path":"main.go"}`)},
		}}}}},
		td.StepIntended{Intent: td.Intent{Key: "t1.0", Kind: td.ToolStep, Name: "Bash"}},
		td.StepEnded{Outcome: td.Outcome{
			Key: "t1.0", Via: td.Adopted, Took: 1200 * time.Millisecond,
			Tool: &td.ToolResult{Content: strings.Repeat("line\n", 50), Exit: &exit},
		}},
		td.StepEnded{Outcome: td.Outcome{Key: "t1.1", Via: td.Ran, Tool: &td.ToolResult{Content: "no such file", IsError: true}}},
		td.Said{Text: "hurry", By: "me"},
		td.Moved{Verb: td.VerbComplete, From: td.Running, Status: td.Status{State: td.Completed, Completed: &td.CompletedData{Summary: "It works."}}},
	)
	if code := <-done; code != 0 {
		t.Errorf("exit %d: %s", code, b.stderr)
	}
	wantIn(t, "attach", b.stdout.String(), "the work", "! the model call failed (overloaded): busy; retrying at", "m, attempt 2",
		"I run ␛]0;pwned␇the test.", "▸ Bash go test ./...", "▸ Read main.go",
		"  ✓ Bash go test ./... · exit 1 · 1.2s · adopted: its process outlived the daemon",
		"… 41 lines left out …", "  ✗ Read main.go", "» me: hurry", "✓ completed: It works.", "1 turn, $0")
	if strings.ContainsRune(b.stdout.String(), '\x1b') {
		t.Error("an escape reached the terminal")
	}
}

func viewOf(b *bench) (*view, *strings.Builder) {
	var out strings.Builder
	return newView(b.app, &out, style{}), &out
}

func modelEnded(key td.StepKey, text string) td.Event {
	return td.Event{Body: td.StepEnded{Outcome: td.Outcome{Key: key, Model: &td.ModelResult{
		Message: td.Message{Role: td.Assistant, Blocks: []td.Block{{Type: td.TextBlock, Text: text}}},
	}}}}
}

func TestStreamedTextIsNotShownTwice(t *testing.T) {
	v, out := viewOf(newBench(t))
	for _, piece := range []string{"Hel", "lo\nwor", "ld"} {
		v.live(api.Live{Step: "t1.model", Kind: api.LiveText, Text: piece})
	}
	v.event(modelEnded("t1.model", "Hello\nworld"), td.Task{}, true)
	if out.String() != "  │ Hello\n  │ world\n" {
		t.Errorf("shown is %q", out.String())
	}
}

func TestWhatWasMissedIsShownWhole(t *testing.T) {
	v, out := viewOf(newBench(t))
	v.live(api.Live{Step: "t1.model", Kind: api.LiveText, Text: "world"}) // attached in the middle
	v.event(modelEnded("t1.model", "Hello world"), td.Task{}, true)
	if out.String() != "  │ world\n  (the whole answer)\n  │ Hello world\n" {
		t.Errorf("shown is %q", out.String())
	}
	out.Reset()
	v.live(api.Live{Step: "t2.model", Kind: api.LiveText, Text: "Hel"})
	v.live(api.Live{Kind: api.LiveGap})
	v.event(modelEnded("t2.model", "Hello"), td.Task{}, true)
	if got := out.String(); !strings.HasSuffix(got, "left out here)\n  │ Hello\n") {
		t.Errorf("shown is %q", got)
	}
}

func TestOutputOfACommandIsShownAsItComes(t *testing.T) {
	v, out := viewOf(newBench(t))
	v.live(api.Live{Step: "t1.0", Kind: api.LiveOutput, Text: "one\ntw"})
	v.live(api.Live{Step: "t1.0", Kind: api.LiveOutput, Text: "o\r\n\x1b[2J"})
	v.live(api.Live{Step: "t1.0", Kind: api.LiveThinking, Text: "secret thoughts"})
	exit := 0
	v.event(td.Event{Body: td.StepIntended{Intent: td.Intent{Key: "t1.0", Name: "Bash"}}}, td.Task{}, true)
	v.event(td.Event{Body: td.StepEnded{Outcome: td.Outcome{Key: "t1.0", Tool: &td.ToolResult{Content: "one\ntwo\n", Exit: &exit}}}}, td.Task{}, true)
	want := "  │ one\n  │ two\n  │ ␛[2J\n  ✓ Bash · exit 0\n"
	if out.String() != want {
		t.Errorf("shown is %q, want %q", out.String(), want)
	}
}

func TestDetachLeavesTheTaskRunning(t *testing.T) {
	b := newBench(t)
	task := b.add(t, api.AddTask{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := runLoopAttach(ctx, loopAttachOptions{app: b.app, ref: task.Handle, tail: -1}); err != nil {
		t.Errorf("detaching is an error: %v", err)
	}
	wantIn(t, "stderr", b.stderr.String(), "detached; the task runs on: taskdaemon loop attach "+task.Handle)
	err := runTaskAdd(ctx, taskAddOptions{app: b.app, words: []string{"x"}, dir: "/", wait: true, priority: -1})
	if code, ok := errors.AsType[outcome](err); !ok || int(code) != exitInterrupted {
		t.Errorf("a wait that was interrupted ends with %v", err)
	}
}

func TestAttachAsJSON(t *testing.T) {
	b := newBench(t)
	task := b.add(t, api.AddTask{Rehearsal: apitest.Script})
	if _, err := b.fake.Command(t.Context(), task.Handle, api.Command{Type: td.CmdAnswer, Answer: "red"}); err != nil {
		t.Fatal(err)
	}
	if code := b.do(t, "loop", "attach", "--json", "--tail", "-1", task.Handle); code != 0 {
		t.Fatal(b.stderr)
	}
	n := uint64(0)
	for line := range strings.Lines(b.stdout.String()) {
		var it api.Item
		if err := json.Unmarshal([]byte(line), &it); err != nil {
			t.Fatal(err)
		}
		if n++; it.Event.Seq != n {
			t.Errorf("line %d has event %d", n, it.Event.Seq)
		}
	}
	if n < 8 {
		t.Errorf("%d lines", n)
	}
	b.do(t, "loop", "attach", "--json", "--tail", "2", task.Handle)
	if got := strings.Count(b.stdout.String(), "\n"); got != 2 {
		t.Errorf("--tail 2 prints %d lines", got)
	}
}

func FuzzLogLine(f *testing.F) {
	f.Add(`{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"hi","n":1,"s":"a b"}`)
	f.Add(`not json`)
	f.Add(`{"time":1}`)
	f.Fuzz(func(t *testing.T, line string) {
		if got := logLine(line, style{}); strings.ContainsRune(got, '\x1b') {
			t.Errorf("%q", got)
		}
	})
}
