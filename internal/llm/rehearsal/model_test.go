package rehearsal

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

// talk is a conversation with a model that answers every tool call with the same result.
type talk struct {
	t      *testing.T
	model  *Model
	req    llm.Request
	result string
	deltas []llm.Delta
}

func newTalk(t *testing.T, script string) *talk {
	t.Helper()
	k := &talk{t: t, model: New(Options{}), result: "a result"}
	k.req = llm.Request{
		Script: script, Messages: []td.Message{{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: "please go on"}}}},
		Tools: []llm.Tool{{Name: "Fail", Schema: json.RawMessage(`{"required":["why"]}`)}},
	}
	return k
}

func (k *talk) try() (llm.Response, error) {
	k.deltas = nil
	r, err := k.model.Stream(k.t.Context(), k.req, func(d llm.Delta) { k.deltas = append(k.deltas, d) })
	if err != nil {
		k.req.Attempt++
		return r, err
	}
	k.req.Attempt = 0
	k.req.Messages = append(k.req.Messages, r.Message)
	next := td.Message{Role: td.User}
	for _, u := range r.Message.ToolUses() {
		next.Blocks = append(next.Blocks, td.Block{Type: td.ToolResultBlock, ID: u.ID, Text: k.result})
	}
	if len(next.Blocks) == 0 {
		next.Blocks = []td.Block{{Type: td.TextBlock, Text: "go on"}}
	}
	k.req.Messages = append(k.req.Messages, next)
	return r, nil
}

func (k *talk) answer() llm.Response {
	k.t.Helper()
	r, err := k.try()
	if err != nil {
		k.t.Fatal(err)
	}
	return r
}

func (k *talk) fails(class td.FailureClass) *llm.Error {
	k.t.Helper()
	r, err := k.try()
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Class != class {
		k.t.Fatalf("got %+v, %v; want a %s error", r, err, class)
	}
	return e
}

func TestTurnsFollowTheConversation(t *testing.T) {
	k := newTalk(t, `
name: demo
turns:
  - text: one
    tools: [{name: A, input: {n: 1}}, {name: B, id: mine}]
  - text: "two: {{result}} at {{turn}}, {{other}}"
    repeat: 2
    tools: [{name: C, id: again, input: {path: "f{{turn}}", list: ["{{result}}"]}}]
  - text: last
`)
	r := k.answer()
	if r.Model != "rehearsal:demo" || r.StopReason != td.StopToolUse || r.Usage.Output == 0 || r.Usage.Input == 0 {
		t.Errorf("response = %+v", r)
	}
	want := []td.Block{
		{Type: td.TextBlock, Text: "one"},
		{Type: td.ToolUseBlock, ID: "toolu_rehearsal_0_0", Name: "A", Input: json.RawMessage(`{"n":1}`)},
		{Type: td.ToolUseBlock, ID: "mine", Name: "B", Input: json.RawMessage(`{}`)},
	}
	if d := cmp.Diff(want, r.Message.Blocks); d != "" {
		t.Error(d)
	}
	k.result = "it {{turn}} worked"
	k.req.Messages[2].Blocks[0].Text, k.req.Messages[2].Blocks[1].Text = k.result, ""
	r = k.answer()
	if got := r.Message.Text(); got != "two: it {{turn}} worked\n at 2, {{other}}" {
		t.Errorf("text = %q", got)
	}
	if got := string(r.Message.ToolUses()[0].Input); got != `{"list":["it {{turn}} worked\n"],"path":"f2"}` {
		t.Errorf("input = %s", got)
	}
	if a, b := r.Message.ToolUses()[0].ID, k.answer().Message.ToolUses()[0].ID; a != "again_1" || b != "again_2" {
		t.Errorf("ids %s and %s", a, b)
	}
	if r = k.answer(); r.Message.Text() != "last" || r.StopReason != td.EndTurn {
		t.Errorf("response = %+v", r)
	}
	for range 2 {
		if r = k.answer(); !strings.Contains(r.Message.Text(), "script has ended") || r.StopReason != td.EndTurn {
			t.Errorf("response = %+v", r)
		}
	}
}

func TestScenes(t *testing.T) {
	script := "scenes:\n  - {when: (?i)GO, turns: [{text: going}]}\nturns: [{text: otherwise}]"
	k := newTalk(t, script)
	if got := k.answer().Message.Text(); got != "going" {
		t.Errorf("text = %q", got)
	}
	k = newTalk(t, script)
	k.req.Messages[0].Blocks[0].Text = "stay"
	if got := k.answer().Message.Text(); got != "otherwise" {
		t.Errorf("text = %q", got)
	}
	k = newTalk(t, "scenes:\n  - {when: never, turns: [{text: going}]}")
	if got := k.answer(); got.Model != "rehearsal" || !strings.Contains(got.Message.Text(), "no model is called") {
		t.Errorf("response = %+v", got)
	}
}

func TestBuiltinSaysWhatItIs(t *testing.T) {
	k := newTalk(t, "")
	synctest.Test(t, func(t *testing.T) {
		k.t = t
		if u := k.answer().Message.ToolUses(); len(u) != 1 || u[0].Name != "Glob" {
			t.Errorf("calls = %+v", u)
		}
		r := k.answer()
		u := r.Message.ToolUses()
		if r.Model != "rehearsal" || len(u) != 1 || u[0].Name != "Complete" ||
			!strings.Contains(string(u[0].Input), "No model was called and nothing was changed") {
			t.Errorf("response = %+v", r)
		}
	})
}

func TestExpect(t *testing.T) {
	k := newTalk(t, `
turns:
  - tools: [{name: A}]
  - expect: worked
    text: fine
`)
	k.answer()
	r := k.answer()
	u := r.Message.ToolUses()
	if len(u) != 1 || u[0].Name != "Fail" || !strings.Contains(string(u[0].Input), `{"why":`) || r.StopReason != td.StopToolUse {
		t.Errorf("response = %+v", r)
	}
	k = newTalk(t, k.req.Script)
	k.result = "it worked"
	k.answer()
	if got := k.answer().Message.Text(); got != "fine" {
		t.Errorf("text = %q", got)
	}
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTalk(t, `
turns:
  - text: hello there
    tools: [{name: A}]
    faults:
      - {status: 429, retry_after: 2s}
      - {status: 529}
      - {error: overloaded_error}
      - {error: api_error}
      - {cut: 5}
      - {cut: 12}
      - {silence: 10s}
      - {garbage: true}
      - {status: 500}
      - {cut: 11}
      - {status: 401}
  - text: done
`)
		if e := k.fails(td.RateLimited); e.RetryAfter != 2*time.Second || e.Status != 429 {
			t.Errorf("error = %+v", e)
		}
		_ = k.fails(td.Overloaded)
		_ = k.fails(td.Overloaded)
		if d := cmp.Diff([]llm.Delta{{Kind: llm.TextDelta, Text: "hello"}}, k.deltas); d != "" {
			t.Error(d)
		}
		_ = k.fails(td.Network)
		_ = k.fails(td.Network) // cut inside the text
		_ = k.fails(td.Network) // cut inside the tool call
		start := time.Now()
		_ = k.fails(td.Network)
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("silent for %v", took)
		}
		u := k.answer().Message.ToolUses()
		if len(u) != 1 || u[0].Malformed == "" || string(u[0].Input) != "{}" || json.Valid([]byte(u[0].Malformed)) {
			t.Errorf("garbage = %+v", u)
		}
		_ = k.fails(td.Network)
		r := k.answer()
		if !r.Cut || r.Message.Text() != "hello there" || len(r.Message.ToolUses()) != 0 {
			t.Errorf("cut = %+v", r)
		}
		_ = k.fails(td.AuthFailed)
		r = k.answer() // the text was kept, the tools are left
		if r.Message.Text() != "" || len(r.Message.ToolUses()) != 1 || r.Message.ToolUses()[0].ID == u[0].ID {
			t.Errorf("rest = %+v", r)
		}
		if got := k.answer().Message.Text(); got != "done" {
			t.Errorf("text = %q", got)
		}
	})
}

func TestPace(t *testing.T) {
	for _, c := range []struct {
		name, turn string
		total      time.Duration
		first      time.Duration
		pieces     int
	}{
		{"at once", "{text: aaaaaaaaaa}", 0, 0, 1},
		{"latency is the whole", "{text: aaaaaaaaaaaaaaaaaaaaaaaa, latency: 1s}", time.Second, 500 * time.Millisecond, 2},
		{"latency in pieces", "{text: aaaaaaaaaa, latency: 1s, chunk: {size: 1}}", time.Second, 100 * time.Millisecond, 10},
		{"delay", "{text: aaaaaaaaaa, chunk: {size: 2, delay: 10ms}}", 50 * time.Millisecond, 10 * time.Millisecond, 5},
		{"both", "{text: aaaaaaaaaa, latency: 1s, chunk: {size: 2, delay: 10ms}}", time.Second, 960 * time.Millisecond, 5},
		{"no text", "{tools: [{name: A}], latency: 1s}", time.Second, time.Second, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newTalk(t, "turns: ["+c.turn+"]")
				start := time.Now()
				r := k.answer()
				if took := time.Since(start); took != c.total || len(k.deltas) != c.pieces || r.FirstToken.Truncate(time.Millisecond) != c.first {
					t.Errorf("took %v, first after %v, %d pieces", took, r.FirstToken, len(k.deltas))
				}
			})
		})
	}
}

func TestBrokenScript(t *testing.T) {
	k := newTalk(t, "turns: [{txet: a}]")
	if e := k.fails(td.BadRequest); e.Hint == "" || !strings.Contains(e.Error(), `did you mean "text"`) {
		t.Errorf("error = %v, hint %q", e, e.Hint)
	}
}

func TestGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("cancelled by a person")
		for _, turn := range []string{"{text: a, faults: [{silence: 1h}]}", "{text: a, latency: 1h}", "{text: aaaa, chunk: {size: 1, delay: 1h}}"} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			start := time.Now()
			_, err := New(Options{}).Stream(ctx, llm.Request{Script: "turns: [" + turn + "]"}, nil)
			if !errors.Is(err, cause) || time.Since(start) != time.Second {
				t.Errorf("%s: %v after %v", turn, err, time.Since(start))
			}
		}
	})
}
