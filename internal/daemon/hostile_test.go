package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/config"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/td"
)

// playing is an API that gives these answers in order, and Complete after them.
func playing(t *testing.T, plays ...rehearsal.Play) (url string) {
	t.Helper()
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := rehearsal.Play{Model: "fake", Stop: td.StopToolUse, Message: td.Message{Role: td.Assistant, Blocks: []td.Block{{
			Type: td.ToolUseBlock, ID: "toolu_end", Name: "Complete", Input: json.RawMessage(`{"summary":"over"}`),
		}}}}
		if i := int(n.Add(1)) - 1; i < len(plays) {
			p = plays[i]
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, f := range llmtest.Frames(p) {
			if _, err := w.Write(f.Bytes); err != nil {
				return
			}
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func answered(stop td.StopReason, blocks ...td.Block) rehearsal.Play {
	return rehearsal.Play{Model: "fake", Stop: stop, Message: td.Message{Role: td.Assistant, Blocks: blocks}, Pace: rehearsal.Pace{Size: 64 << 10}}
}

func startOn(t *testing.T, url string) *live {
	t.Helper()
	return start(t, t.TempDir(), func(c *config.Config) {
		c.Provider, c.BaseURL = config.Anthropic, url
		c.Retry.Network = []time.Duration{0, time.Millisecond, time.Millisecond}
	})
}

func (l *live) finish(t *testing.T, in api.AddTask) td.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if in.Dir == "" {
		in.Dir = t.TempDir()
	}
	in.Prompt, in.Yes = "go", true
	task, err := l.AddTask(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	for item, err := range l.Events(ctx, api.EventQuery{Refs: []string{task.Handle}, Follow: true, Types: []td.EventType{td.Moved{}.Type()}}) {
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := item.Event.Body.(td.Moved); ok && m.Status.State.Terminal() {
			break
		}
	}
	task, err = l.Task(ctx, task.Handle)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// TestMegabytesOfAnswer: an answer of 3 MB, near the most that is taken, is recorded, given back, mirrored and gone on from.
func TestMegabytesOfAnswer(t *testing.T) {
	huge := strings.Repeat("three megabytes of words, ", 120_000)
	l := startOn(t, playing(t, answered(td.EndTurn, td.Block{Type: td.TextBlock, Text: huge})))
	task := l.finish(t, api.AddTask{})
	if task.Status.State != td.Completed {
		t.Fatalf("%s: %+v", task.Status.State, task.Status.Failed)
	}
	h, err := l.History(t.Context(), task.Handle)
	if err != nil {
		t.Fatal(err)
	}
	if got := h.Messages[1].Text(); got != huge {
		t.Errorf("the answer came back with %d bytes instead of %d", len(got), len(huge))
	}
	if _, err := l.Checkpoint(t.Context(), task.Handle); err != nil {
		t.Errorf("mirror: %v", err)
	}
}

// TestHostileCalls: whatever a model calls with whatever input, the call has a result and the task goes on.
func TestHostileCalls(t *testing.T) {
	var blocks []td.Block
	for i, c := range []struct{ name, input string }{
		{"Read", `{"path":"/etc/passwd"}`},
		{"Read", `{"path":"../../../../etc/passwd"}`},
		{"Read", `{"path":"a\u0000b"}`},
		{"Read", `{"path":5}`},
		{"Read", `[]`},
		{"Read", `null`},
		{"Write", `{"path":"/tmp/escaped-by-a-test","content":"x"}`},
		{"Write", `{"path":"` + strings.Repeat("x/", 3000) + `","content":"x"}`},
		{"Edit", `{"path":".","old_string":"a","new_string":"b"}`},
		{"Bash", `{"command":"printf '\\000\\377\\376broken'; exit 7"}`},
		{"Bash", `{"command":""}`},
		{"Bash", `{"command":"true","timeout":-1}`},
		{"Glob", `{"pattern":"[[["}`},
		{"Grep", `{"pattern":"(((("}`},
		{"Todo", `{"todos":[{"text":"x","status":"later"}]}`},
		{"BashKill", `{"job":"nope"}`},
	} {
		blocks = append(blocks, td.Block{Type: td.ToolUseBlock, ID: fmt.Sprint("toolu_", i), Name: c.name, Input: json.RawMessage(c.input)})
	}
	l := startOn(t, playing(t, answered(td.StopToolUse, blocks...)))
	task := l.finish(t, api.AddTask{})
	if task.Status.State != td.Completed {
		t.Fatalf("%s: %+v", task.Status.State, task.Status.Failed)
	}
	h, err := l.History(t.Context(), task.Handle)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range h.Events {
		if b, ok := ev.Body.(td.StepEnded); ok && b.Failure != nil {
			t.Fatalf("the answer was not taken: %s", b.Failure.Message)
		}
	}
	results := h.Messages[2].Blocks
	if len(results) != len(blocks) {
		t.Fatalf("%d results for %d calls: %+v", len(results), len(blocks), results)
	}
	for i, r := range results {
		if !r.IsError || r.Text == "" {
			t.Errorf("call %d (%s %.60s): %q, want an error that says why", i, blocks[i].Name, blocks[i].Input, r.Text)
		}
		if strings.ContainsRune(r.Text, 0) || strings.Contains(r.Text, "root:x:0") {
			t.Errorf("call %d: the result holds what it must not: %q", i, r.Text)
		}
	}
}
