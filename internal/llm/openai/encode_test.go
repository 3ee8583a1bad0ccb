package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/td"
)

// failer is a test, or one draw of a property.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func encoded(t failer, req llm.Request) string {
	t.Helper()
	return encodedBy(t, &encoder{limit: tokens}, req)
}

func encodedBy(t failer, e *encoder, req llm.Request) string {
	t.Helper()
	b, err := e.encode(req)
	if err != nil {
		t.Fatal(err)
	}
	var copies [2]string // a body can be sent again
	for i := range copies {
		r, _ := b.Open()
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		copies[i] = string(raw)
	}
	if !json.Valid([]byte(copies[0])) || copies[0] != copies[1] {
		t.Fatalf("not JSON, or not twice the same: %s", copies)
	}
	return copies[0]
}

func say(role td.Role, blocks ...td.Block) td.Message { return td.Message{Role: role, Blocks: blocks} }

func text(s string) td.Block { return td.Block{Type: td.TextBlock, Text: s} }

func TestEncode(t *testing.T) {
	got := encoded(t, llm.Request{
		Model: "gpt-5", System: "Be good.", MaxTokens: 100, Thinking: 2000,
		Tools: []llm.Tool{
			{Name: "A", Description: "does \"a\"", Schema: json.RawMessage(`{"type":"object","properties":{"x":{}}}`)},
			{Name: "B"}, {Name: "C", Schema: json.RawMessage(` {} `)},
		},
		Messages: []td.Message{
			say(td.User, text("one"), text(" "), text("two")),
			say(td.Assistant,
				td.Block{Type: td.ThinkingBlock, Text: "hm", Signature: "s1"},
				td.Block{Type: td.RedactedThinkingBlock, Data: "d1"},
				text(" \n"),
				td.Block{Type: td.ToolUseBlock, ID: "t1", Name: "A", Input: json.RawMessage(`{ "x": "<&>\\u003c" }`)},
				td.Block{Type: td.ToolUseBlock, ID: "t2", Name: "B", Input: json.RawMessage(`{}`), Malformed: `{"x`},
				td.Block{Type: td.ToolUseBlock, ID: "t3", Name: "B"},
			),
			say(td.User,
				text("and hurry"),
				td.Block{Type: td.ToolResultBlock, ID: "t1", Text: "fine"},
				td.Block{Type: td.ToolResultBlock, ID: "t2", Text: "not JSON", IsError: true},
				td.Block{Type: td.ToolResultBlock, ID: "t3"},
			),
			say(td.Assistant, text("I do."), td.Block{Type: td.ToolUseBlock, ID: "t4", Name: "A", Input: json.RawMessage(`{}`)}),
			say(td.User, td.Block{Type: td.ToolResultBlock, ID: "t4", Text: "ok"}),
			say(td.Assistant),
			say(td.User, text("end\x00\xff")),
		},
	})
	want := `{"model":"gpt-5","stream":true,"stream_options":{"include_usage":true},"max_tokens":100,"tools":[` +
		`{"type":"function","function":{"name":"A","description":"does \"a\"","parameters":{"type":"object","properties":{"x":{}}}}},` +
		`{"type":"function","function":{"name":"B","description":"","parameters":{"properties":{},"type":"object"}}},` +
		`{"type":"function","function":{"name":"C","description":"","parameters":{"properties":{}}}}],"messages":[` +
		`{"role":"system","content":"Be good."},` +
		`{"role":"user","content":"one\n\ntwo"},` +
		`{"role":"assistant","content":null,"tool_calls":[` +
		`{"id":"t1","type":"function","function":{"name":"A","arguments":"{\"x\":\"<&>\\\\u003c\"}"}},` +
		`{"id":"t2","type":"function","function":{"name":"B","arguments":"{}"}},` +
		`{"id":"t3","type":"function","function":{"name":"B","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"t1","content":"fine"},` +
		`{"role":"tool","tool_call_id":"t2","content":"Error: not JSON"},` +
		`{"role":"tool","tool_call_id":"t3","content":"(nothing)"},` +
		`{"role":"user","content":"and hurry"},` +
		`{"role":"assistant","content":"I do.","tool_calls":[{"id":"t4","type":"function","function":{"name":"A","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"t4","content":"ok"},` +
		`{"role":"assistant","content":"(nothing)"},` +
		`{"role":"user","content":"end\u0000` + "\ufffd" + `"}]}`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestSharedBeginningsAreTheirOwn: whatever differs between two calls differs in their bodies, though one encoder made both.
func TestSharedBeginningsAreTheirOwn(t *testing.T) {
	tools := []llm.Tool{{Name: "A"}, {Name: "B"}}
	said := []td.Message{{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: "one"}}}}
	plain := llm.Request{Model: "m", System: "Be good.", MaxTokens: 100, Tools: tools, Messages: said}
	e := encoder{limit: tokens}
	for _, change := range []func(*llm.Request){
		func(*llm.Request) {},
		func(r *llm.Request) { r.Model = "n" },
		func(r *llm.Request) { r.System = "Be bad." },
		func(r *llm.Request) { r.System = "" },
		func(r *llm.Request) { r.MaxTokens = 200 },
		func(r *llm.Request) { r.Temperature = "0.5" },
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

func TestEncodeWithoutAnything(t *testing.T) {
	want := `{"model":"","stream":true,"stream_options":{"include_usage":true},"messages":[]}`
	if got := encoded(t, llm.Request{}); got != want {
		t.Error(got)
	}
	want = strings.Replace(want, "[]", `[{"role":"system","content":"s"}]`, 1)
	if got := encoded(t, llm.Request{System: "s"}); got != want {
		t.Error(got)
	}
}

func TestLimit(t *testing.T) {
	for _, c := range []struct {
		baseURL string
		want    limit
	}{
		{"", completionTokens},
		{"https://api.openai.com/v1", completionTokens},
		{"https://eu.api.openai.com/v1", completionTokens},
		{"https://mine.openai.azure.com/openai/v1", completionTokens},
		{"http://localhost:11434/v1", tokens},
		{"https://openrouter.ai/api/v1", tokens},
		{"https://notopenai.com/v1", tokens},
		{"http://[", tokens},
	} {
		m := New(Options{BaseURL: c.baseURL})
		b, err := m.encoder.encode(llm.Request{MaxTokens: 7})
		r, _ := b.Open()
		raw, _ := io.ReadAll(r)
		if want := fmt.Sprintf(`,%q:7,`, c.want); err != nil || !strings.Contains(string(raw), want) {
			t.Errorf("%q: %s, %v; want %s", c.baseURL, raw, err, want)
		}
	}
}

func TestEncodeRefusesABrokenSchema(t *testing.T) {
	for _, schema := range []string{`{"x`, `[]`, `"object"`, `null`, `{} {}`} {
		_, err := New(Options{}).Stream(t.Context(), llm.Request{Tools: []llm.Tool{{Name: "A", Schema: json.RawMessage(schema)}}}, nil)
		llmtest.WantClass(t, err, td.BadRequest)
		if !strings.Contains(err.Error(), "tool A") {
			t.Error(err)
		}
	}
}

// genConversation draws what a loop may come to hold: answers of this and other models, each call with its
// result, and things said by people in between.
func genConversation(t *rapid.T) []td.Message {
	words := rapid.SampledFrom([]string{"", " ", "yes", "a\x00b", "\xff", "<b>&\u2028", `\u003c "q"`, "line\nline", "世界"})
	inputs := rapid.SampledFrom([]string{`{}`, `{ "a" : "<&>" }`, `{"a":"\u003C\u003c\\u003e"}`, `{"n":[1, 2]}`, `{"s":"` + "\u2028" + `"}`, ``})
	messages := []td.Message{say(td.User, text("begin"))}
	for n := range rapid.IntRange(1, 12).Draw(t, "turns") {
		answer, next := say(td.Assistant), say(td.User)
		if rapid.Bool().Draw(t, "thinks") {
			answer.Blocks = append(answer.Blocks, td.Block{Type: td.ThinkingBlock, Text: words.Draw(t, "thought"), Signature: words.Draw(t, "seal")})
		}
		for range rapid.IntRange(0, 2).Draw(t, "texts") {
			answer.Blocks = append(answer.Blocks, text(words.Draw(t, "text")))
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "calls") {
			id := fmt.Sprintf("call_%d_%d", n, i)
			use := td.Block{Type: td.ToolUseBlock, ID: id, Name: "A", Input: json.RawMessage(inputs.Draw(t, "input"))}
			if rapid.IntRange(0, 4).Draw(t, "malformed") == 0 {
				use.Input, use.Malformed = json.RawMessage("{}"), `{"a`
			}
			answer.Blocks = append(answer.Blocks, use)
			next.Blocks = append(next.Blocks, td.Block{
				Type: td.ToolResultBlock, ID: id, Text: words.Draw(t, "result"), IsError: rapid.Bool().Draw(t, "error"),
			})
		}
		for range rapid.IntRange(0, 2).Draw(t, "said") {
			next.Blocks = append(next.Blocks, text(words.Draw(t, "said")))
		}
		messages = append(messages, answer, next)
	}
	return messages
}

// What was sent stays the same bytes as the conversation grows, and so it does when a restarted daemon
// reads the conversation back from the journal.
func TestPrefixIsByteIdentical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := genConversation(t)
		req := llm.Request{
			Model: "m", System: rapid.SampledFrom([]string{"", "Be good."}).Draw(t, "system"), MaxTokens: 10,
			Tools: []llm.Tool{{Name: "A"}}, Wire: &llm.Wire{},
		}
		before := ""
		for n := 1; n <= len(all); n += 2 {
			req.Messages = all[:n]
			now := encoded(t, req)
			if !strings.HasPrefix(now, strings.TrimSuffix(before, "]}")) {
				t.Fatalf("the prefix changed at %d messages:\n%s\n%s", n, before, now)
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
			if again := encoded(t, later); again != now {
				t.Fatalf("after a restart %d messages are encoded differently:\n%s\n%s", n, now, again)
			}
		}
	})
}

// The arguments a server gets mean what the input means.
func TestArgumentsKeepTheirMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`(\\|u003c|u0026|<|>|&|"|n){0,12}`)).Draw(t, "s")
		raw, err := json.Marshal(map[string]string{"s": s})
		if err != nil {
			t.Fatal(err)
		}
		var want, got map[string]string
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		sent := arguments(td.Block{Input: raw})
		if err := json.Unmarshal([]byte(sent), &got); err != nil || got["s"] != want["s"] {
			t.Fatalf("%q went out as %s, %v", s, sent, err)
		}
	})
}
