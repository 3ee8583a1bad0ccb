package cassette

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
)

const secret = `hunter2 "quoted" <value>`

func scripted(t testing.TB, script string) llm.Model {
	t.Helper()
	s, err := rehearsal.Parse([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	return rehearsal.New(rehearsal.Options{Default: s})
}

func record(t testing.TB, m llm.Model, path string) *Recorder {
	t.Helper()
	c, err := Record(m, path, redact.New(secret))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func replay(t testing.TB, path string, r *redact.Redactor) *Player {
	t.Helper()
	p, err := Replay(path, r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// call is what one call came to, in words that can be compared.
type call struct {
	Response llm.Response
	Err      string
	Deltas   []llm.Delta
}

// converse lets a loop of a few calls run on m, with a result that holds a secret.
func converse(t testing.TB, m llm.Model) []call {
	t.Helper()
	req := llm.Request{
		Model: "m", System: "the password is " + secret, MaxTokens: 100,
		Tools:    []llm.Tool{{Name: "Read", Schema: []byte(`{"type":"object"}`)}},
		Messages: []td.Message{{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: "go"}}}},
	}
	var calls []call
	for range 6 {
		var c call
		r, err := m.Stream(t.Context(), req, func(d llm.Delta) { c.Deltas = append(c.Deltas, d) })
		if c.Response = r; err != nil {
			c.Err = err.Error()
			calls = append(calls, c)
			req.Attempt++
			continue
		}
		req.Attempt = 0
		calls = append(calls, c)
		next := td.Message{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: "go on"}}}
		for _, u := range r.Message.ToolUses() {
			next.Blocks = append(next.Blocks, td.Block{Type: td.ToolResultBlock, ID: u.ID, Text: "found " + secret})
		}
		req.Messages = append(req.Messages, r.Message, next)
	}
	return calls
}

const script = `
chunk: {size: 3}
turns:
  - {text: first, tools: [{name: Read, input: {path: a}}], faults: [{status: 529}, {status: 429, retry_after: 2s}]}
  - {text: "I saw {{result}}", tools: [{name: Read, input: {path: "{{result}}"}}]}
  - {thinking: hm, text: last}
`

func TestPlaysWhatWasRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.jsonl")
	live := converse(t, record(t, scripted(t, script), path))
	again := converse(t, replay(t, path, redact.New(secret)))
	if len(live) != len(again) || !strings.Contains(live[0].Err, "529") || !strings.Contains(live[1].Err, "429") {
		t.Fatalf("live %+v\nagain %+v", live, again)
	}
	for i := range live {
		if live[i].Err != again[i].Err || live[i].Response.StopReason != again[i].Response.StopReason || live[i].Response.Usage != again[i].Response.Usage {
			t.Errorf("call %d: %+v, then %+v", i, live[i], again[i])
		}
	}
	if live[2].Response.Replayed || !again[2].Response.Replayed {
		t.Error("an answer does not say whether it was replayed")
	}
	again[2].Response.Replayed = false
	if d := cmp.Diff(live[2], again[2]); d != "" {
		t.Error(d)
	}
	if got := again[3].Response.Message.Text(); got != "I saw found [redacted]" {
		t.Errorf("text = %q", got)
	}
	if d := cmp.Diff([]llm.Delta{{Kind: llm.TextDelta, Text: "I saw found [redacted]"}, {Kind: llm.ToolDelta, Text: "Read"}}, again[3].Deltas); d != "" {
		t.Error(d)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, []byte("hunter2")) || bytes.Contains(raw, []byte("quoted")) {
		t.Errorf("the secret is on the tape:\n%s", raw)
	}
}

func TestMissNamesTheDifference(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.jsonl")
	ask := llm.Request{
		Model: "m", System: "a long system prompt that ends here", MaxTokens: 10,
		Tools:    []llm.Tool{{Name: "Read", Description: "reads"}},
		Messages: []td.Message{{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: "please fix the test"}}}},
	}
	c := record(t, scripted(t, "turns: [{text: a}]"), path)
	if _, err := c.Stream(t.Context(), ask, nil); err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		name   string
		change func(*llm.Request)
		want   string
	}{
		{"model", func(r *llm.Request) { r.Model = "n" }, `its model is "m", now it is "n"`},
		{"max", func(r *llm.Request) { r.MaxTokens = 11 }, "max_tokens is 10, now it is 11"},
		{"thinking", func(r *llm.Request) { r.Thinking = 11 }, "thinking is 0, now it is 11"},
		{"system", func(r *llm.Request) { r.System = "a long system prompt that ends there" }, `prompt that ends there"`},
		{"tools", func(r *llm.Request) { r.Tools = nil }, "its tools are [Read], now they are []"},
		{"tool", func(r *llm.Request) { r.Tools = []llm.Tool{{Name: "Read", Description: "writes"}} }, `its tool Read says`},
		{"message", func(r *llm.Request) {
			r.Messages = []td.Message{{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: "please fix the toast"}}}}
		}, "its message 1 (user) says"},
		{"count", func(r *llm.Request) { r.Messages = append(r.Messages, td.Message{Role: td.Assistant}) }, "it has 1 messages, now there are 2"},
	} {
		req := ask
		k.change(&req)
		_, err := replay(t, path, nil).Stream(t.Context(), req, nil)
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Class != td.BadRequest || e.Hint == "" || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%s: %v", k.name, err)
		}
	}
	p := replay(t, path, nil)
	if _, err := p.Stream(t.Context(), ask, nil); err != nil {
		t.Error(err)
	}
	if _, err := p.Stream(t.Context(), ask, nil); err == nil || !strings.Contains(err.Error(), "all its answers were played") {
		t.Errorf("asked too often: %v", err)
	}
}

// A crash may tear the last line anywhere: what came before is played, and recording goes on behind it.
func TestTornAtEveryByte(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "c.jsonl")
	converse(t, record(t, scripted(t, script), whole))
	raw, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	torn := filepath.Join(t.TempDir(), "torn.jsonl")
	for n := range len(raw) + 1 {
		lines := bytes.Count(raw[:n], []byte("\n"))
		if got, err := parse(raw[:n]); err != nil || len(got) != lines {
			t.Fatalf("torn at %d: %d calls of %d, %v", n, len(got), lines, err)
		}
		if n%97 != 0 {
			continue
		}
		if err := os.WriteFile(torn, raw[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		c := record(t, scripted(t, "turns: [{text: a}]"), torn)
		if _, err := c.Stream(t.Context(), llm.Request{Model: "m"}, nil); err != nil {
			t.Fatal(err)
		}
		if p := replay(t, torn, nil); len(p.entries) != lines+1 {
			t.Fatalf("torn at %d: %d calls after going on, want %d", n, len(p.entries), lines+1)
		}
	}
}

func TestReplayErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := Replay(filepath.Join(dir, "none"), nil); !td.IsKind(err, td.NotFound) {
		t.Errorf("missing: %v", err)
	}
	bad := filepath.Join(dir, "bad")
	for _, content := range []string{"{}\n", "\n\nnonsense\n", `{"hash":"x"}` + "\n", `{"hash":"x","response":{},"error":{}}` + "\n"} {
		if err := os.WriteFile(bad, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Replay(bad, nil); !td.IsKind(err, td.Corrupt) || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q: %v", content, err)
		}
	}
	if err := os.WriteFile(bad, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := replay(t, bad, nil).Stream(t.Context(), llm.Request{}, nil); err == nil || !strings.Contains(err.Error(), "it is empty") {
		t.Errorf("empty: %v", err)
	}
	if _, err := Record(nil, filepath.Join(dir, "no", "folder"), nil); !td.IsKind(err, td.Storage) {
		t.Errorf("no folder: %v", err)
	}
}

// A tape with a gap would play wrong answers: when it cannot be written, the call fails.
func TestRecordingThatCannotBeWritten(t *testing.T) {
	c := record(t, scripted(t, "turns: [{text: a, repeat: forever}]"), filepath.Join(t.TempDir(), "c.jsonl"))
	if err := c.file.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r, err := c.Stream(t.Context(), llm.Request{}, nil); err == nil || len(r.Message.Blocks) > 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

func TestGivenUpIsNotRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.jsonl")
	c := record(t, scripted(t, "turns: [{text: a, latency: 1h}]"), path)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Stream(ctx, llm.Request{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	if p := replay(t, path, nil); len(p.entries) != 0 {
		t.Errorf("%d calls recorded", len(p.entries))
	}
}

func TestReplayCanBeGivenUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.jsonl")
	c := record(t, scripted(t, "turns: [{text: aaaaaaaa, chunk: {size: 1}}]"), path)
	if _, err := c.Stream(t.Context(), llm.Request{}, nil); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	pieces := 0
	_, err := replay(t, path, nil).Stream(ctx, llm.Request{}, func(llm.Delta) {
		if pieces++; pieces == 2 {
			cancel(cause)
		}
	})
	if !errors.Is(err, cause) || pieces != 2 {
		t.Errorf("%v after %d pieces", err, pieces)
	}
}

// A recorder changes nothing about the model behind it.
func TestConformance(t *testing.T) {
	llmtest.Run(t, func(t *testing.T, s *rehearsal.Script) llm.Model {
		return record(t, rehearsal.New(rehearsal.Options{Default: s}), filepath.Join(t.TempDir(), "c.jsonl"))
	})
}

func FuzzParse(f *testing.F) {
	path := filepath.Join(f.TempDir(), "c.jsonl")
	converse(f, record(f, scripted(f, script), path))
	raw, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	line, _, _ := bytes.Cut(raw, []byte("\n"))
	f.Add(append(line, '\n'))
	f.Add([]byte(`{"hash":"x","request":{"messages":[{"role":"user","blocks":[{"type":"tool_use","input":1}]}]},"error":{"class":"network"}}` + "\n"))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		entries, err := parse(raw)
		if err != nil {
			return
		}
		p := &Player{entries: entries, places: map[string][]int{}}
		for i, e := range entries {
			p.places[e.Hash] = append(p.places[e.Hash], i)
		}
		// Whatever is on the tape, a request that is not must come to an error and a reason.
		if _, err := p.Stream(t.Context(), llm.Request{Model: "nobody asked"}, nil); err == nil || err.Error() == "" {
			t.Errorf("an answer out of nowhere: %v", err)
		}
	})
}

// A tool's input is played as the model wrote it, not as requests are compared.
func TestInputsAreBitForBit(t *testing.T) {
	const input = `{"b": "<a> & 1", "a" :1.0}`
	answer := llm.Response{Message: td.Message{Role: td.Assistant, Blocks: []td.Block{
		{Type: td.TextBlock, Text: "so"}, {Type: td.ToolUseBlock, ID: "u", Name: "T", Input: json.RawMessage(input)},
	}}}
	line, err := json.Marshal(newResponse(answer, 0, nil))
	if err != nil {
		t.Fatal(err)
	}
	var read response
	if err := json.Unmarshal(line, &read); err != nil {
		t.Fatal(err)
	}
	if got := string(read.response().Message.Blocks[1].Input); got != input {
		t.Errorf("recorded %s, played %s", input, got)
	}
}

// A loop asks a rehearsal in another way than a model: the tape must say whose it is.
func TestTheProviderIsOnTheTape(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.jsonl")
	c := record(t, scripted(t, "turns: [{text: a}]"), path)
	if _, err := c.Stream(t.Context(), llm.Request{}, nil); err != nil {
		t.Fatal(err)
	}
	if got := replay(t, path, nil).Provider(); got != llm.Rehearsal {
		t.Errorf("played by %s", got)
	}
}
