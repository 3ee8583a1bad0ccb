package anthropic

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/td"
)

// playing is a model whose every call is answered with this stream.
func playing(body func() io.Reader) *Model {
	return New(Options{APIKey: testKey, HTTP: llmtest.Playing(body)})
}

// player plays one stream after the other: thousands of cut ones do not need a model each.
var player struct {
	sync.Mutex
	model  *Model
	stream string
}

func play(ctx context.Context, stream string) (llm.Response, error) {
	player.Lock()
	defer player.Unlock()
	if player.model == nil {
		player.model = playing(func() io.Reader { return strings.NewReader(player.stream) })
	}
	player.stream = stream
	return player.model.Stream(ctx, llm.Request{Model: "m"}, nil)
}

// recordings are what the server sends for these scripts, each of one turn.
var recordings = []string{
	"{text: Hello.}",
	"{text: Hello there, chunk: {size: 3}}",
	"{text: 'Grüße, 世界 😀', chunk: {size: 1}}",
	"{thinking: I think., text: I say.}",
	"{thinking: A long thought, chunk: {size: 4}, text: Short.}",
	"{thinking: Only a thought., stop: max_tokens}",
	"{tools: [{name: Read, input: {path: a.go}}]}",
	"{text: I read., tools: [{name: Read, input: {path: a.go, offset: 10}}]}",
	"{thinking: Hm., text: I read., tools: [{name: Read, input: {path: a.go}}]}",
	"{tools: [{name: Read, input: {path: a}}, {name: Read, input: {path: b}}]}",
	"{text: All three., tools: [{name: A}, {name: B, input: {x: [1, 2]}}, {name: C, input: {s: 'with \"quotes\"'}}]}",
	"{tools: [{name: Write, input: {path: a, content: \"line one\\nline two\\n\"}}]}",
	"{text: Too lon, stop: max_tokens}",
	"{text: I read., tools: [{name: Read, input: {path: a}}], stop: max_tokens}",
	"{text: I cannot., stop: refusal}",
	"{stop: refusal}",
	"{text: Wait., stop: pause_turn}",
	"{text: Full., stop: model_context_window_exceeded}",
	"{text: Stop here., stop: stop_sequence}",
	"{text: Half of it, faults: [{error: overloaded_error}]}",
	"{text: Half of it, tools: [{name: A}], faults: [{error: api_error}]}",
	"{text: Too fast, faults: [{error: rate_limit_error}]}",
	"{text: I try., tools: [{name: Read, input: {path: a}}], faults: [{garbage: true}]}",
	"{text: Counted., usage: {input: 1, output: 2, cache_read: 3, cache_write: 4}}",
}

func record(t testing.TB, turn string) []llmtest.Frame {
	t.Helper()
	script, err := rehearsal.Parse([]byte("turns: [" + turn + "]"))
	if err != nil {
		t.Fatal(err)
	}
	return llmtest.Frames(script.Play(llm.Request{}))
}

// expected is what a stream that ends after some whole frames must come to, read off the frames' names.
type expected struct {
	texts  []string // whole text blocks
	tool   bool
	done   bool
	failed td.FailureClass
}

func (e *expected) see(t *testing.T, f llmtest.Frame) {
	var ev struct {
		ContentBlock struct{ Type string } `json:"content_block"`
		Delta        struct{ Text string }
		Error        struct{ Type string }
	}
	_, data, _ := strings.Cut(string(f.Bytes), "data: ")
	if err := json.Unmarshal([]byte(data), &ev); err != nil {
		t.Fatal(err)
	}
	switch f.Event {
	case "content_block_start":
		e.tool = e.tool || ev.ContentBlock.Type == "tool_use"
		e.texts = append(e.texts, "")
	case "content_block_delta":
		e.texts[len(e.texts)-1] += ev.Delta.Text
	case "content_block_stop":
		e.texts[len(e.texts)-1] += "\x00" // whole
	case "message_stop":
		e.done = true
	case "error":
		e.failed = llm.ClassOfType(ev.Error.Type)
	}
}

func (e *expected) kept() string {
	var kept []string
	for _, s := range e.texts {
		if whole, ok := strings.CutSuffix(s, "\x00"); ok && whole != "" {
			kept = append(kept, whole)
		}
	}
	return strings.Join(kept, "\n")
}

// A stream may break off after any byte: there is never a panic, never a call from a stream that is not
// whole, and the class is right.
func TestCutAtEveryByte(t *testing.T) {
	cuts := 0
	for _, turn := range recordings {
		var e expected
		stream := ""
		for _, f := range record(t, turn) {
			for n := range f.Bytes {
				checkCut(t, stream+string(f.Bytes[:n]), e)
				cuts++
			}
			stream += string(f.Bytes)
			e.see(t, f)
		}
		checkCut(t, stream, e)
	}
	t.Logf("%d recordings, %d cuts", len(recordings), cuts)
}

func checkCut(t *testing.T, stream string, e expected) {
	t.Helper()
	r, err := play(t.Context(), stream)
	switch {
	case e.failed != "":
		llmtest.WantClass(t, err, e.failed)
	case e.done:
		if err != nil || r.Cut || r.StopReason == "" {
			t.Fatalf("whole stream: %+v, %v", r, err)
		}
	case e.tool || e.kept() == "":
		llmtest.WantClass(t, err, td.Network)
	default:
		if err != nil || !r.Cut || r.Message.Text() != e.kept() {
			t.Fatalf("cut after %q: %+v, %v; want text %q", stream, r, err, e.kept())
		}
	}
	if !e.done && len(r.Message.ToolUses()) > 0 {
		t.Fatalf("a call from a cut stream: %+v", r)
	}
}

func sseOf(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "event: x\ndata: %s\n\n", e)
	}
	return b.String()
}

const (
	evStart = `{"type":"message_start","message":{"model":"m","usage":{"input_tokens":1}}}`
	evText  = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	evTool  = `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"A","input":{}}}`
	evHi    = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`
	evClose = `{"type":"content_block_stop","index":0}`
	evEnd   = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`
	evCall  = `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`
	evStop  = `{"type":"message_stop"}`
)

func input(s string) string {
	raw, _ := json.Marshal(s)
	return `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":` + string(raw) + `}}`
}

func TestAcceptedStreams(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		check        func(llm.Response) bool
	}{
		{
			"unknown event", sseOf(evStart, `{"type":"future","x":1}`, evText, evHi, evClose, evEnd, evStop),
			func(r llm.Response) bool { return r.Message.Text() == "hi" && r.Usage.Output == 2 },
		},
		{
			"unknown block", sseOf(evStart, `{"type":"content_block_start","index":0,"content_block":{"type":"hologram"}}`, evHi, evClose, evEnd, evStop),
			func(r llm.Response) bool { return len(r.Message.Blocks) == 0 && r.StopReason == td.EndTurn },
		},
		{
			"unknown delta", sseOf(evStart, evText, `{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta"}}`, evHi, evClose, evEnd, evStop),
			func(r llm.Response) bool { return r.Message.Text() == "hi" },
		},
		{
			"unknown stop reason", sseOf(evStart, strings.Replace(evEnd, "end_turn", "bored", 1), evStop),
			func(r llm.Response) bool { return r.StopReason == "bored" },
		},
		{
			"after message_stop", sseOf(evStart, evEnd, evStop, evText, "garbage"),
			func(r llm.Response) bool { return len(r.Message.Blocks) == 0 },
		},
		{
			"windows line ends", strings.ReplaceAll(sseOf(evStart, evText, evHi, evClose, evEnd, evStop), "\n", "\r\n"),
			func(r llm.Response) bool { return r.Message.Text() == "hi" },
		},
		{
			"comments and empty data", ": hello\n\nevent: x\n\n" + sseOf(evStart, evEnd, evStop),
			func(r llm.Response) bool { return r.StopReason == td.EndTurn },
		},
		{
			"escaped NUL and lone surrogate", sseOf(evStart, evText, strings.Replace(evHi, "hi", `a\u0000b\ud800c`, 1), evClose, evEnd, evStop),
			func(r llm.Response) bool { return r.Message.Text() == "a\x00b\ufffdc" },
		},
		{
			"broken UTF-8", sseOf(evStart, evText, strings.Replace(evHi, "hi", "a\xff\xfeb", 1), evClose, evEnd, evStop),
			func(r llm.Response) bool { return r.Message.Text() == "a\ufffd\ufffdb" },
		},
		{
			"negative usage", sseOf(evStart, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":-5}}`, evStop),
			func(r llm.Response) bool { return r.Usage == td.Usage{Input: 1} },
		},
		{
			"input in the start", sseOf(evStart, strings.Replace(evTool, `"input":{}`, `"input":{"a":1}`, 1), evClose, evCall, evStop),
			func(r llm.Response) bool { return string(r.Message.ToolUses()[0].Input) == `{"a":1}` },
		},
		{
			"torn input", sseOf(evStart, evTool, input(`{"a`), input(`":1}`), evClose, evCall, evStop),
			func(r llm.Response) bool { return string(r.Message.ToolUses()[0].Input) == `{"a":1}` },
		},
		{
			"input that is no object", sseOf(evStart, evTool, input(`[1]`), evClose, evCall, evStop),
			func(r llm.Response) bool {
				u := r.Message.ToolUses()[0]
				return string(u.Input) == "{}" && u.Malformed == "[1]"
			},
		},
		{
			"half an input at max_tokens", sseOf(evStart, evTool, input(`{"a":`), evClose, `{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}`, evStop),
			func(r llm.Response) bool {
				u := r.Message.ToolUses()[0]
				return string(u.Input) == "{}" && u.Malformed == `{"a":` && r.StopReason == td.MaxTokens
			},
		},
		{
			"signature in pieces", sseOf(evStart, `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"ab"}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"cd"}}`, evClose, evEnd, evStop),
			func(r llm.Response) bool { return r.Message.Blocks[0].Signature == "abcd" },
		},
		{
			"redacted thinking", sseOf(evStart, `{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"xyz"}}`, evClose, evEnd, evStop),
			func(r llm.Response) bool { return r.Message.Blocks[0].Data == "xyz" },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := play(t.Context(), c.stream)
			if err != nil || r.Cut || !c.check(r) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

func TestGarbledStreams(t *testing.T) {
	for _, c := range []struct{ name, stream string }{
		{"nothing", ""},
		{"not SSE", "<html>hello</html>"},
		{"no start", sseOf(evText, evHi, evClose, evEnd, evStop)},
		{"two starts", sseOf(evStart, evStart)},
		{"duplicate index", sseOf(evStart, evText, evClose, evText)},
		{"gap in the indices", sseOf(evStart, strings.Replace(evText, `"index":0`, `"index":7`, 1))},
		{"negative index", sseOf(evStart, strings.Replace(evText, `"index":0`, `"index":-1`, 1))},
		{"no index", sseOf(evStart, strings.Replace(evText, `"index":0,`, ``, 1))},
		{"index of another kind", sseOf(evStart, strings.Replace(evText, `"index":0`, `"index":"zero"`, 1))},
		{"huge index", sseOf(evStart, strings.Replace(evText, `"index":0`, `"index":99999999999999999999`, 1))},
		{"block in a block", sseOf(evStart, evText, strings.Replace(evText, `"index":0`, `"index":1`, 1))},
		{"delta for an unknown block", sseOf(evStart, evHi)},
		{"delta for a closed block", sseOf(evStart, evText, evClose, evHi)},
		{"delta of another type", sseOf(evStart, evTool, evHi)},
		{"delta without content", sseOf(evStart, evText, `{"type":"content_block_delta","index":0}`)},
		{"stop for an unknown block", sseOf(evStart, evClose)},
		{"stop twice", sseOf(evStart, evText, evClose, evClose)},
		{"block without content", sseOf(evStart, `{"type":"content_block_start","index":0}`)},
		{"open block at the end", sseOf(evStart, evText, evHi, evEnd, evStop)},
		{"no stop reason", sseOf(evStart, evText, evHi, evClose, evStop)},
		{"no call to stop for", sseOf(evStart, evText, evHi, evClose, evCall, evStop)},
		{"call without id", sseOf(evStart, strings.Replace(evTool, `"id":"t"`, `"id":""`, 1))},
		{"call without name", sseOf(evStart, strings.Replace(evTool, `"name":"A",`, ``, 1))},
		{"name with an escape sequence", sseOf(evStart, strings.Replace(evTool, `"A"`, `"A\u001b[2J"`, 1))},
		{"the same id twice", sseOf(evStart, evTool, evClose, strings.Replace(evTool, `"index":0`, `"index":1`, 1))},
		{"truncated JSON", sseOf(evStart, evText[:30])},
		{"JSON of another kind", sseOf(evStart, `[1,2,3]`)},
		{"raw NUL", sseOf(evStart, evText, strings.Replace(evHi, "hi", "a\x00b", 1))},
		{"error without words", sseOf(evStart, `{"type":"error"}`)},
		{"deep nesting", sseOf(evStart, strings.Repeat("[", 100_000))},
		{"only pings", strings.Repeat("event: ping\ndata: {\"type\":\"ping\"}\n\n", 1000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := play(t.Context(), c.stream)
			if err == nil {
				t.Fatalf("taken for an answer: %+v", r)
			}
			llmtest.WantClass(t, err, td.Network)
		})
	}
}
