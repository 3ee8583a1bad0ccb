package anthropic

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/td"
)

func encoded(t testing.TB, req llm.Request) string {
	t.Helper()
	return encodedBy(t, new(encoder), req)
}

func encodedBy(t testing.TB, e *encoder, req llm.Request) string {
	t.Helper()
	b, err := e.encode(req, false)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := b.Open()
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(raw) {
		t.Fatalf("not JSON: %s", raw)
	}
	return string(raw)
}

func TestEncode(t *testing.T) {
	got := encoded(t, llm.Request{
		Model: "claude-sonnet-4-5", System: "Be good.", MaxTokens: 100, Thinking: 2000,
		Tools: []llm.Tool{{Name: "A", Description: "does \"a\"", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "B"}},
		Messages: []td.Message{
			{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: "one"}}},
			{Role: td.Assistant, Blocks: []td.Block{
				{Type: td.ThinkingBlock, Text: "hm", Signature: "s1"},
				{Type: td.ThinkingBlock, Text: "without a seal"},
				{Type: td.RedactedThinkingBlock, Data: "d1"},
				{Type: td.TextBlock, Text: " \n"},
				{Type: td.ToolUseBlock, ID: "t1", Name: "A", Input: json.RawMessage(`{ "x": "<&>" }`)},
				{Type: td.ToolUseBlock, ID: "t2", Name: "B", Input: json.RawMessage(`{}`), Malformed: `{"x`},
			}},
			{Role: td.User, Blocks: []td.Block{
				{Type: td.TextBlock, Text: "and hurry"},
				{Type: td.ToolResultBlock, ID: "t1", Text: "fine"},
				{Type: td.ToolResultBlock, ID: "t2", IsError: true},
			}},
			{Role: td.Assistant},
			{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: "end\x00\xff"}}},
		},
	})
	want := `{"model":"claude-sonnet-4-5","thinking":{"type":"enabled","budget_tokens":2000},"max_tokens":2100,"stream":true,` +
		`"tools":[{"name":"A","description":"does \"a\"","input_schema":{"type":"object"}},` +
		`{"name":"B","description":"","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}],` +
		`"system":[{"type":"text","text":"Be good.","cache_control":{"type":"ephemeral"}}],"messages":[` +
		`{"role":"user","content":[{"type":"text","text":"one"}]},` +
		`{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s1"},{"type":"redacted_thinking","data":"d1"},` +
		`{"type":"tool_use","id":"t1","name":"A","input":{"x":"\u003c\u0026\u003e"}},{"type":"tool_use","id":"t2","name":"B","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"fine"},{"type":"tool_result","tool_use_id":"t2","content":"(nothing)","is_error":true},` +
		`{"type":"text","text":"and hurry","cache_control":{"type":"ephemeral"}}]},` +
		`{"role":"assistant","content":[{"type":"text","text":"(nothing)"}]},` +
		`{"role":"user","content":[{"type":"text","text":"end\u0000` + "\ufffd" + `","cache_control":{"type":"ephemeral"}}]}]}`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestTemperatureIsNotSentBesideThinking(t *testing.T) {
	for _, c := range []struct {
		req  llm.Request
		want bool
	}{
		{llm.Request{Model: "claude-sonnet-4-5", Temperature: "0.7"}, true},
		{llm.Request{Model: "claude-sonnet-4-5", Temperature: "0.7", Thinking: 2000}, false},
		{llm.Request{Model: "claude-sonnet-4-5"}, false},
	} {
		if got := strings.Contains(encoded(t, c.req), `,"temperature":0.7,`); got != c.want {
			t.Errorf("%+v: sent is %v", c.req, got)
		}
	}
}

// TestSharedBeginningsAreTheirOwn: whatever differs between two calls differs in their bodies, though one encoder made both.
func TestSharedBeginningsAreTheirOwn(t *testing.T) {
	tools := []llm.Tool{{Name: "A"}, {Name: "B"}}
	said := []td.Message{{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: "one"}}}}
	plain := llm.Request{Model: "m", System: "Be good.", MaxTokens: 100, Tools: tools, Messages: said}
	var e encoder
	for _, change := range []func(*llm.Request){
		func(*llm.Request) {},
		func(r *llm.Request) { r.Model = "n" },
		func(r *llm.Request) { r.System = "Be bad." },
		func(r *llm.Request) { r.System = "" },
		func(r *llm.Request) { r.MaxTokens = 200 },
		func(r *llm.Request) { r.Temperature = "0.5" },
		func(r *llm.Request) { r.Thinking = 5000 },
		func(r *llm.Request) { r.Tools = tools[:1] },
		func(r *llm.Request) { r.Tools = []llm.Tool{{Name: "C"}, {Name: "B"}} },
		func(r *llm.Request) { r.Tools = nil },
		func(r *llm.Request) { r.Messages = nil },
	} {
		for range 2 {
			req := plain
			change(&req)
			if d := cmp.Diff(encoded(t, req), encodedBy(t, &e, req)); d != "" {
				t.Error(d)
			}
		}
	}
}

func TestEncodeThinking(t *testing.T) {
	for _, c := range []struct {
		model    string
		thinking int
		want     string
	}{
		{"claude-opus-4-5-20251101", 100, `"thinking":{"type":"enabled","budget_tokens":1024},"max_tokens":4000,`},
		{"claude-opus-4-5-20251101", 8000, `"thinking":{"type":"enabled","budget_tokens":8000},"max_tokens":12000,`},
		{"claude-opus-4-7", 8000, `"thinking":{"type":"adaptive"},"max_tokens":4000,`},
		{"claude-sonnet-5-5", 1, `"thinking":{"type":"adaptive"},"max_tokens":4000,`},
		{"other", 2000, `"thinking":{"type":"enabled","budget_tokens":2000},"max_tokens":4000,`},
		{"claude-opus-4-7", 0, `"model":"claude-opus-4-7","max_tokens":4000,`},
	} {
		if got := encoded(t, llm.Request{Model: c.model, Thinking: c.thinking, MaxTokens: 4000}); !strings.Contains(got, c.want) {
			t.Errorf("%s with %d: %s", c.model, c.thinking, got)
		}
	}
}

func TestEncodeRefusesABrokenSchema(t *testing.T) {
	m := New(Options{APIKey: testKey})
	_, err := m.Stream(t.Context(), llm.Request{Tools: []llm.Tool{{Name: "A", Schema: json.RawMessage(`{"x`)}}}, nil)
	llmtest.WantClass(t, err, td.BadRequest)
	if !strings.Contains(err.Error(), "tool A") {
		t.Error(err)
	}
}

// What was sent stays the same bytes, breakpoints aside, as the conversation grows, and so it does when a
// restarted daemon reads the conversation back from the journal.
func TestPrefixIsByteIdentical(t *testing.T) {
	req := benchRequest(20)
	all := req.Messages
	bare := func(s string) string { return strings.TrimSuffix(strings.ReplaceAll(s, breakpoint, ""), "]}") }
	before := ""
	for n := 1; n <= len(all); n += 2 {
		req.Messages = all[:n]
		now := encoded(t, req)
		if marks := strings.Count(now, breakpoint); marks != min(4, 2+(n+1)/2) {
			t.Errorf("%d messages have %d breakpoints", n, marks)
		}
		if !strings.HasPrefix(bare(now), bare(before)) {
			t.Fatalf("the prefix changed at %d messages", n)
		}
		before = now

		raw, err := json.Marshal(req.Messages)
		if err != nil {
			t.Fatal(err)
		}
		later := req
		later.Wire, later.Messages = nil, nil
		if err := json.Unmarshal(raw, &later.Messages); err != nil {
			t.Fatal(err)
		}
		if encoded(t, later) != now {
			t.Fatalf("after a restart %d messages are encoded differently", n)
		}
	}
}
