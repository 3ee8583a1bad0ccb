package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/td"
)

// Trait is what a model's protocol cannot say, and the suite therefore cannot ask of it.
type Trait int

// TextHasNoEnd: the protocol does not mark the end of a text, so that a cut stream leaves none that is
// known to be whole. The model must then give an error, not a guess.
const TextHasNoEnd Trait = iota

// Run is the suite every model passes. newModel makes the model under test such that it plays the
// script, whatever way that takes.
func Run(t *testing.T, newModel func(t *testing.T, script *rehearsal.Script) llm.Model, traits ...Trait) {
	start := func(t *testing.T, script string) *talk {
		t.Helper()
		s, err := rehearsal.Parse([]byte(script))
		if err != nil {
			t.Fatal(err)
		}
		return &talk{t: t, model: newModel(t, s), req: opener()}
	}
	t.Run("Deltas", func(t *testing.T) { testDeltas(t, start) })
	t.Run("ParallelTools", func(t *testing.T) { testParallelTools(t, start) })
	t.Run("Usage", func(t *testing.T) { testUsage(t, start) })
	t.Run("StopReasons", func(t *testing.T) { testStopReasons(t, start) })
	t.Run("Faults", func(t *testing.T) { testFaults(t, start) })
	t.Run("Garbage", func(t *testing.T) { testGarbage(t, start) })
	if slices.Contains(traits, TextHasNoEnd) {
		t.Run("CutText", func(t *testing.T) { testCutTextIsNoAnswer(t, start) })
	} else {
		t.Run("CutText", func(t *testing.T) { testCutText(t, start) })
	}
	t.Run("Foreign", func(t *testing.T) { testForeign(t, start) })
	t.Run("Cancel", func(t *testing.T) { testCancel(t, start) })
	t.Run("Concurrent", func(t *testing.T) { testConcurrent(t, start) })
}

type starter = func(t *testing.T, script string) *talk

// talk is a conversation with the model under test.
type talk struct {
	t      *testing.T
	model  llm.Model
	req    llm.Request
	deltas []llm.Delta
}

func opener() llm.Request {
	return llm.Request{
		Model: "claude-sonnet-4-5", System: "You are tested.", MaxTokens: 1000, Wire: &llm.Wire{},
		Tools:    []llm.Tool{{Name: "Read", Description: "reads", Schema: json.RawMessage(`{"type":"object"}`)}},
		Messages: []td.Message{{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: "please begin"}}}},
	}
}

// try makes one call, and takes the answer into the conversation with a result for each tool call.
func (k *talk) try(ctx context.Context) (llm.Response, error) {
	k.deltas = nil
	r, err := k.model.Stream(ctx, k.req, func(d llm.Delta) { k.deltas = append(k.deltas, d) })
	if err != nil {
		k.req.Attempt++
		return r, err
	}
	k.req.Attempt = 0
	next := td.Message{Role: td.User}
	for _, u := range r.Message.ToolUses() {
		next.Blocks = append(next.Blocks, td.Block{Type: td.ToolResultBlock, ID: u.ID, Text: "result of " + u.Name})
	}
	if len(next.Blocks) == 0 {
		next.Blocks = []td.Block{{Type: td.TextBlock, Text: "go on"}}
	}
	k.req.Messages = append(k.req.Messages, r.Message, next)
	return r, nil
}

func (k *talk) answer() llm.Response {
	k.t.Helper()
	r, err := k.try(k.t.Context())
	if err != nil {
		k.t.Fatal(err)
	}
	return r
}

func (k *talk) fails(class td.FailureClass) *llm.Error {
	k.t.Helper()
	r, err := k.try(k.t.Context())
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Class != class {
		k.t.Fatalf("got %+v, %v; want a %s error", r, err, class)
	}
	return e
}

func testDeltas(t *testing.T, start starter) {
	k := start(t, `
chunk: {size: 5}
turns:
  - thinking: first I think about it
    text: "then I say it: ä€😀"
    tools: [{name: Read, input: {path: a, n: 1, s: "quote \" and <b>"}}]
  - text: "and on: {{result}}"
`)
	r := k.answer()
	var kinds []string
	said := map[llm.DeltaKind]string{}
	for _, d := range k.deltas {
		if len(kinds) == 0 || kinds[len(kinds)-1] != string(d.Kind) {
			kinds = append(kinds, string(d.Kind))
		}
		said[d.Kind] += d.Text
	}
	if got := strings.Join(kinds, " "); got != "thinking text tool" || len(k.deltas) < 8 {
		t.Errorf("%d deltas of kinds %s", len(k.deltas), got)
	}
	if said[llm.ThinkingDelta] != "first I think about it" || said[llm.TextDelta] != "then I say it: ä€😀" || said[llm.ToolDelta] != "Read" {
		t.Errorf("deltas say %q", said)
	}
	if r.Message.Role != td.Assistant || len(r.Message.Blocks) != 3 || r.StopReason != td.StopToolUse || r.Cut || r.FirstToken <= 0 {
		t.Fatalf("response = %+v", r)
	}
	b := r.Message.Blocks
	if b[0].Type != td.ThinkingBlock || b[0].Text != said[llm.ThinkingDelta] || b[1].Type != td.TextBlock || b[1].Text != said[llm.TextDelta] {
		t.Errorf("blocks = %+v", b)
	}
	var input map[string]any
	if err := json.Unmarshal(b[2].Input, &input); err != nil || b[2].Type != td.ToolUseBlock || b[2].Name != "Read" || b[2].ID == "" || b[2].Malformed != "" {
		t.Errorf("call = %+v, %v", b[2], err)
	}
	if d := cmp.Diff(map[string]any{"path": "a", "n": 1.0, "s": `quote " and <b>`}, input); d != "" {
		t.Error(d)
	}
	if got := k.answer(); got.Message.Text() != "and on: result of Read" || got.StopReason != td.EndTurn {
		t.Errorf("response = %+v", got)
	}
}

func testParallelTools(t *testing.T, start starter) {
	k := start(t, `
turns:
  - tools: [{name: A, input: {n: 1}}, {name: B, input: {n: 2}}, {name: A}]
  - text: "{{result}}"
`)
	uses := k.answer().Message.ToolUses()
	if len(uses) != 3 || uses[0].Name+uses[1].Name+uses[2].Name != "ABA" || string(uses[2].Input) != "{}" {
		t.Fatalf("calls = %+v", uses)
	}
	if uses[0].ID == uses[1].ID || uses[0].ID == uses[2].ID || uses[1].ID == uses[2].ID {
		t.Errorf("ids are not distinct: %+v", uses)
	}
	if got := k.answer().Message.Text(); got != "result of A\nresult of B\nresult of A" {
		t.Errorf("text = %q", got)
	}
}

func testUsage(t *testing.T, start starter) {
	k := start(t, `turns: [{text: a, usage: {input: 11, output: 22, cache_read: 33, cache_write: 44}}]`)
	if got := k.answer().Usage; got != (td.Usage{Input: 11, Output: 22, CacheRead: 33, CacheWrite: 44}) {
		t.Errorf("usage = %+v", got)
	}
}

func testStopReasons(t *testing.T, start starter) {
	for _, stop := range []td.StopReason{
		td.EndTurn, td.StopSequence, td.StopToolUse, td.MaxTokens, td.PauseTurn, td.WindowExceeded, td.Refusal,
	} {
		turn := fmt.Sprintf("{text: a, stop: %s}", stop)
		if stop == td.StopToolUse {
			turn = "{tools: [{name: A}], stop: tool_use}"
		}
		if got := start(t, "turns: ["+turn+"]").answer().StopReason; got != stop {
			t.Errorf("stop reason %s came as %s", stop, got)
		}
	}
	if r := start(t, "turns: [{stop: refusal}]").answer(); r.StopReason != td.Refusal || len(r.Message.Blocks) != 0 {
		t.Errorf("an empty refusal came as %+v", r)
	}
}

func testFaults(t *testing.T, start starter) {
	for _, c := range []struct {
		fault string
		class td.FailureClass
	}{
		{"{status: 400}", td.BadRequest},
		{"{too_long: 1}", td.TooLong},
		{"{status: 401}", td.AuthFailed},
		{"{status: 403}", td.AuthFailed},
		{"{status: 404}", td.BadRequest},
		{"{status: 408}", td.Network},
		{"{status: 413}", td.BadRequest},
		{"{status: 429, retry_after: 3s}", td.RateLimited},
		{"{status: 500}", td.Network},
		{"{status: 502}", td.Network},
		{"{status: 503}", td.Network},
		{"{status: 504}", td.Network},
		{"{status: 529}", td.Overloaded},
		{"{error: overloaded_error}", td.Overloaded},
		{"{error: rate_limit_error}", td.RateLimited},
		{"{error: api_error}", td.Network},
		{"{error: authentication_error}", td.AuthFailed},
		{"{error: invalid_request_error}", td.BadRequest},
		{"{error: some_new_error}", td.Network},
		{"{cut: 0}", td.Network},
		{"{cut: 4}", td.Network},
		{"{cut: 1000}", td.Network},
		{"{silence: 1500ms}", td.Network},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			k := start(t, "turns: [{text: a text, tools: [{name: A}], faults: ["+c.fault+"]}]")
			e := k.fails(c.class)
			if c.class == td.RateLimited && e.Status == 429 && e.RetryAfter != 3*time.Second {
				t.Errorf("retry after %v", e.RetryAfter)
			}
			if r := k.answer(); r.Message.Text() != "a text" || len(r.Message.ToolUses()) != 1 {
				t.Errorf("after the fault: %+v", r)
			}
		})
	}
}

func testGarbage(t *testing.T, start starter) {
	k := start(t, `
turns:
  - {text: a, tools: [{name: A, input: {x: 1}}], faults: [{garbage: true}]}
  - {text: b}
`)
	u := k.answer().Message.ToolUses()
	if len(u) != 1 || u[0].Malformed != rehearsal.Garbled || string(u[0].Input) != "{}" {
		t.Fatalf("calls = %+v", u)
	}
	u = k.answer().Message.ToolUses()
	if len(u) != 1 || u[0].Malformed != "" || string(u[0].Input) != `{"x":1}` {
		t.Errorf("calls = %+v", u)
	}
	if got := k.answer().Message.Text(); got != "b" {
		t.Errorf("text = %q", got)
	}
}

func testCutText(t *testing.T, start starter) {
	k := start(t, `
turns:
  - {text: whole text, tools: [{name: A}], faults: [{cut: 10}]}
  - {text: b}
`)
	r := k.answer()
	if !r.Cut || r.Message.Text() != "whole text" || len(r.Message.ToolUses()) != 0 || r.StopReason != "" {
		t.Errorf("cut = %+v", r)
	}
	if r = k.answer(); r.Cut || len(r.Message.ToolUses()) != 1 {
		t.Errorf("rest = %+v", r)
	}
}

func testCutTextIsNoAnswer(t *testing.T, start starter) {
	k := start(t, `
turns:
  - {text: whole text, tools: [{name: A}], faults: [{cut: 10}]}
  - {text: b}
`)
	k.fails(td.Network)
	if r := k.answer(); r.Cut || r.Message.Text() != "whole text" || len(r.Message.ToolUses()) != 1 {
		t.Errorf("second attempt = %+v", r)
	}
	if got := k.answer().Message.Text(); got != "b" {
		t.Errorf("text = %q", got)
	}
}

func testCancel(t *testing.T, start starter) {
	for _, turn := range []string{
		"{text: a, faults: [{silence: 1h}]}",
		"{text: a, latency: 1h}",
		"{text: aaaa, chunk: {size: 1, delay: 1h}}",
	} {
		k := start(t, "turns: ["+turn+"]")
		cause := errors.New("a person said stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		timer := time.AfterFunc(100*time.Millisecond, func() { cancel(cause) })
		begun := time.Now()
		_, err := k.try(ctx)
		if took := time.Since(begun); !errors.Is(err, cause) || took > time.Minute {
			t.Errorf("%s: %v after %v", turn, err, took)
		}
		timer.Stop()
	}
}

func testConcurrent(t *testing.T, start starter) {
	k := start(t, "turns: [{text: some text, latency: 20ms, chunk: {size: 2}}]")
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			req := opener()
			var said strings.Builder
			r, err := k.model.Stream(t.Context(), req, func(d llm.Delta) { said.WriteString(d.Text) })
			if err != nil || r.Message.Text() != "some text" || said.String() != "some text" {
				t.Errorf("response %+v, %v; deltas %q", r, err, said.String())
			}
		})
	}
	wg.Wait()
}

// testForeign goes on with a conversation that another provider's model began: with ids and names that this one would not give, thoughts
// that it has not sealed, an error without a word, and thinking switched on in the midst of a turn.
func testForeign(t *testing.T, start starter) {
	talk := start(t, "turns: [{text: a}, {text: b}, {text: c}]")
	talk.req.Model, talk.req.Thinking, talk.req.MaxTokens = "claude-sonnet-4-5", 2048, 4096
	use := func(id, name string) td.Block {
		return td.Block{Type: td.ToolUseBlock, ID: id, Name: name, Input: json.RawMessage(`{}`)}
	}
	long := strings.Repeat("long", 50)
	talk.req.Messages = []td.Message{
		{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: "do it"}}},
		{Role: td.Assistant, Blocks: []td.Block{
			{Type: td.ThinkingBlock, Text: "not sealed"}, {Type: td.TextBlock, Text: " "}, use("functions.Look:0", "functions.Look"), use("functions.Look:1", "Look"), use(long, long),
		}},
		{Role: td.User, Blocks: []td.Block{
			{Type: td.ToolResultBlock, ID: "functions.Look:0", IsError: true}, {Type: td.ToolResultBlock, ID: "functions.Look:1", Text: " "}, {Type: td.ToolResultBlock, ID: long},
		}},
	}
	r, err := talk.model.Stream(t.Context(), talk.req, nil)
	if err != nil || r.Message.Text() != "b" {
		t.Errorf("%q, %v", r.Message.Text(), err)
	}
}
