package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/exchange"
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
	"{text: 'Grüße, 世界 😀', chunk: {size: 1}}",
	"{thinking: I think., text: I say.}",
	"{thinking: Only a thought., stop: max_tokens}",
	"{tools: [{name: Read, input: {path: a.go}}]}",
	"{thinking: Hm., text: I read., tools: [{name: Read, input: {path: a.go}}]}",
	"{tools: [{name: Read, input: {path: a}}, {name: Read, input: {path: b}}]}",
	"{text: All three., tools: [{name: A}, {name: B, input: {x: [1, 2]}}, {name: C, input: {s: 'with \"quotes\"'}}]}",
	"{text: Too lon, stop: max_tokens}",
	"{text: I read., tools: [{name: Read, input: {path: a}}], stop: max_tokens}",
	"{stop: refusal}",
	"{text: Wait., stop: pause_turn}",
	"{text: Half of it, faults: [{error: overloaded_error}]}",
	"{text: Half of it, tools: [{name: A}], faults: [{error: api_error}]}",
	"{text: I try., tools: [{name: Read, input: {path: a}}], faults: [{garbage: true}]}",
	"{text: Counted., usage: {input: 1, output: 2, cache_read: 3, cache_write: 4}}",
}

func record(t testing.TB, turn string) []llmtest.Frame {
	t.Helper()
	script, err := rehearsal.Parse([]byte("turns: [" + turn + "]"))
	if err != nil {
		t.Fatal(err)
	}
	return llmtest.ChatFrames(script.Play(llm.Request{}))
}

// A stream may break off after any byte: there is never a panic, never an answer before the finish reason
// came, always the same one after it, and the class is right.
func TestCutAtEveryByte(t *testing.T) {
	cuts := 0
	for _, turn := range recordings {
		frames := record(t, turn)
		stream, finished, failed := "", false, false
		var whole string // the answer, once there is one
		for _, f := range append(frames, llmtest.Frame{Bytes: []byte("\n")}) {
			for n := range f.Bytes {
				cuts++
				r, err := play(t.Context(), stream+string(f.Bytes[:n]))
				switch {
				case !finished && !failed:
					llmtest.WantClass(t, err, td.Network)
				case failed:
					if e, ok := errors.AsType[*llm.Error](err); !ok || !strings.Contains(e.Error(), "the script plays this failure") {
						t.Fatalf("after an error: %+v, %v", r, err)
					}
				case err != nil || r.Cut || r.StopReason == "":
					t.Fatalf("%s: cut behind the finish reason: %+v, %v", turn, r, err)
				default:
					now := fmt.Sprint(r.StopReason, r.Message)
					if whole == "" {
						whole = now
					}
					if now != whole {
						t.Fatalf("%s: the answer became %s, and was %s", turn, now, whole)
					}
				}
				if err != nil && len(r.Message.Blocks) > 0 {
					t.Fatalf("%s: an error and an answer: %+v", turn, r)
				}
			}
			stream += string(f.Bytes)
			finished = finished || f.Event == "finish"
			failed = failed || f.Event == "error"
		}
	}
	t.Logf("%d recordings, %d cuts", len(recordings), cuts)
}

func sseOf(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "data: %s\n\n", e)
	}
	return b.String()
}

const (
	evRole  = `{"model":"gpt-test","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	evHi    = `{"choices":[{"index":0,"delta":{"content":"hi"}}]}`
	evStop  = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	evCalls = `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
	evLong  = `{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`
	evCount = `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`
	evDone  = `[DONE]`
)

// calling is a chunk with these pieces of tool calls.
func calling(pieces ...string) string {
	return `{"choices":[{"index":0,"delta":{"tool_calls":[` + strings.Join(pieces, ",") + `]}}]}`
}

// piece is one of a call; what is empty is left out.
func piece(index, id, name, arguments string) string {
	fields := []string{}
	if index != "" {
		fields = append(fields, `"index":`+index)
	}
	if id != "" {
		fields = append(fields, fmt.Sprintf(`"id":%q`, id))
	}
	function := []string{}
	if name != "" {
		function = append(function, fmt.Sprintf(`"name":%q`, name))
	}
	if arguments != "" {
		raw, _ := json.Marshal(arguments)
		function = append(function, `"arguments":`+string(raw))
	}
	fields = append(fields, `"function":{`+strings.Join(function, ",")+`}`)
	return `{` + strings.Join(fields, ",") + `}`
}

// Servers differ most in how they send calls.
func TestToolCalls(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []string
		want   string // names and inputs
	}{
		{"by the protocol", []string{
			calling(piece("0", "a", "A", "")), calling(piece("0", "", "", `{"x"`)), calling(piece("0", "", "", `:1}`)),
			calling(piece("1", "b", "B", "")), calling(piece("1", "", "", `{}`)),
		}, `A{"x":1} B{}`},
		{"interleaved", []string{
			calling(piece("0", "a", "A", "")), calling(piece("1", "b", "B", "")),
			calling(piece("1", "", "", `{"y":`), piece("0", "", "", `{"x":`)), calling(piece("0", "", "", `1}`), piece("1", "", "", `2}`)),
		}, `A{"x":1} B{"y":2}`},
		{"several in one chunk", []string{
			calling(piece("0", "a", "A", `{"x":1}`), piece("1", "b", "B", `{"x":2}`), piece("2", "c", "A", `{}`)),
		}, `A{"x":1} B{"x":2} A{}`},
		{"all with the same index", []string{
			calling(piece("0", "a", "A", `{"x":1}`)), calling(piece("0", "b", "A", `{"x":2}`)), calling(piece("0", "c", "B", "")),
		}, `A{"x":1} A{"x":2} B{}`},
		{"the same index and no ids", []string{
			calling(piece("0", "", "A", `{"x":1}`)), calling(piece("0", "", "A", `{"x":2}`)), calling(piece("0", "", "B", `{}`)),
		}, `A{"x":1} A{"x":2} B{}`},
		{"no index", []string{
			calling(piece("", "a", "A", "")), calling(piece("", "", "", `{"x":1}`)), calling(piece("", "b", "A", `{"x":2}`)),
		}, `A{"x":1} A{"x":2}`},
		{"neither index nor id", []string{
			calling(piece("", "", "A", `{"x":1}`), piece("", "", "A", `{"x":2}`)),
		}, `A{"x":1} A{"x":2}`},
		{"no ids", []string{
			calling(piece("0", "", "A", `{"x":1}`)), calling(piece("1", "", "A", `{"x":2}`)),
		}, `A{"x":1} A{"x":2}`},
		{"id and name in every piece", []string{
			calling(piece("0", "a", "A", `{"x":`)), calling(piece("0", "a", "A", `1}`)),
		}, `A{"x":1}`},
		{"name in every piece and no id", []string{
			calling(piece("0", "", "A", `{"x":"}`)), calling(piece("0", "", "A", `{\"{"`)), calling(piece("0", "", "A", `}`)),
		}, `A{"x":"}{\"{"}`},
		{"the id first, the name later", []string{
			calling(piece("0", "a", "", "")), calling(piece("0", "", "A", `{}`)),
		}, `A{}`},
		{"gaps and disorder in the indices", []string{
			calling(piece("7", "a", "A", `{}`)), calling(piece("3", "b", "B", `{}`)),
		}, `A{} B{}`},
		{"an object instead of a string", []string{
			`{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"A","arguments":{"x": 1}}}]}}]}`,
		}, `A{"x": 1}`},
		{"null instead of a string", []string{
			`{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"A","arguments":null}}]}}]}`,
		}, `A{}`},
		{"arguments that are no object", []string{calling(piece("0", "a", "A", `[1]`))}, `A{}![1]`},
		{"arguments that break off", []string{calling(piece("0", "a", "A", `{"x":`))}, `A{}!{"x":`},
	} {
		for _, end := range []string{evStop, evCalls} {
			t.Run(c.name, func(t *testing.T) {
				begun := 0
				r, err := playing(func() io.Reader {
					return strings.NewReader(sseOf(evRole) + sseOf(c.events...) + sseOf(end, evDone))
				}).Stream(t.Context(), llm.Request{}, func(d llm.Delta) {
					if d.Kind == llm.ToolDelta {
						begun++
					}
				})
				sane(t, r, err)
				var got []string
				for _, u := range r.Message.ToolUses() {
					s := u.Name + string(u.Input)
					if u.Malformed != "" {
						s += "!" + u.Malformed
					}
					got = append(got, s)
				}
				if s := strings.Join(got, " "); s != c.want || r.StopReason != td.StopToolUse || begun != len(got) {
					t.Errorf("%s with %d beginnings, %s, %v; want %s", s, begun, r.StopReason, err, c.want)
				}
			})
		}
	}
}

// Each id occurs once in a conversation, whatever servers think of as an id.
func TestIDsAreDistinct(t *testing.T) {
	earlier := []td.Message{say(td.User, text("a")), say(td.Assistant, td.Block{Type: td.ToolUseBlock, ID: "call_0", Name: "A"})}
	m := playing(func() io.Reader {
		return strings.NewReader(sseOf(calling(
			piece("0", "call_0", "A", ""), piece("1", "call_1", "A", ""), piece("2", "call_1", "A", ""),
			piece("3", "", "A", ""), piece("4", strings.Repeat("x", 1000), "A", ""), piece("5", "a b", "A", ""),
		), evCalls, evDone))
	})
	r, err := m.Stream(t.Context(), llm.Request{Messages: earlier}, nil)
	sane(t, r, err)
	uses := r.Message.ToolUses()
	if len(uses) != 6 || uses[1].ID != "call_1" {
		t.Fatalf("%+v", uses)
	}
	seen := map[string]bool{"call_0": true}
	for _, u := range uses {
		if seen[u.ID] || !exchange.Word(u.ID) || len(u.ID) > 40 { // the longest OpenAI takes back
			t.Errorf("id %q", u.ID)
		}
		seen[u.ID] = true
	}
}

func TestAcceptedStreams(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		check        func(llm.Response) bool
	}{
		{
			"by the protocol", sseOf(evRole, evHi, evStop, evCount, evDone),
			func(r llm.Response) bool {
				return r.Message.Text() == "hi" && r.StopReason == td.EndTurn && r.Model == "gpt-test" &&
					r.Usage == td.Usage{Input: 6, Output: 2, CacheRead: 4}
			},
		},
		{
			"no usage", sseOf(evRole, evHi, evStop, evDone),
			func(r llm.Response) bool { return r.Message.Text() == "hi" && r.Usage == td.Usage{} },
		},
		{
			"no [DONE]", sseOf(evRole, evHi, evStop, evCount),
			func(r llm.Response) bool { return r.Message.Text() == "hi" && r.Usage.Output == 2 },
		},
		{
			"no model, no role, no index", sseOf(`{"choices":[{"delta":{"content":"hi"}}]}`, `{"choices":[{"finish_reason":"stop"}]}`, evDone),
			func(r llm.Response) bool { return r.Message.Text() == "hi" && r.Model == "m" },
		},
		{
			"the end in the last piece", sseOf(`{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`, evDone),
			func(r llm.Response) bool { return r.Message.Text() == "hi" && r.Usage.Input == 1 },
		},
		{
			"usage in every chunk", sseOf(evCount, evHi, strings.Replace(evCount, `"completion_tokens":2`, `"completion_tokens":9`, 1), evStop, evDone),
			func(r llm.Response) bool { return r.Usage == td.Usage{Input: 6, Output: 9, CacheRead: 4} },
		},
		{
			"usage that cannot be", sseOf(evHi, `{"usage":{"prompt_tokens":5,"completion_tokens":-1,"prompt_tokens_details":{"cached_tokens":7,"cache_write_tokens":9}}}`, evStop, evDone),
			func(r llm.Response) bool { return r.Usage == td.Usage{CacheRead: 5} },
		},
		{
			"usage of another kind", sseOf(evHi, `{"usage":{"prompt_tokens":"many"}}`, `{"usage":7}`, `{"usage":null}`, evStop, evDone),
			func(r llm.Response) bool { return r.Message.Text() == "hi" && r.Usage == td.Usage{} },
		},
		{
			"details are null", sseOf(evHi, `{"usage":{"prompt_tokens":5,"prompt_tokens_details":null}}`, evStop, evDone),
			func(r llm.Response) bool { return r.Usage == td.Usage{Input: 5} },
		},
		{
			"reasoning of vLLM and DeepSeek", sseOf(`{"choices":[{"delta":{"reasoning_content":"hm","content":null}}]}`, evHi, evStop, evDone),
			func(r llm.Response) bool {
				return len(r.Message.Blocks) == 2 && r.Message.Blocks[0].Type == td.ThinkingBlock && r.Message.Blocks[0].Text == "hm"
			},
		},
		{
			"reasoning of OpenRouter", sseOf(`{"choices":[{"delta":{"reasoning":"hm","reasoning_details":[{}],"content":""}}]}`, evHi, evStop, evDone),
			func(r llm.Response) bool { return r.Message.Blocks[0].Text == "hm" },
		},
		{
			"reasoning by both names", sseOf(`{"choices":[{"delta":{"reasoning":"hm","reasoning_content":"hm"}}]}`, evHi, evStop, evDone),
			func(r llm.Response) bool { return r.Message.Blocks[0].Text == "hm" },
		},
		{
			"reasoning that is no text", sseOf(`{"choices":[{"delta":{"reasoning":{"summary":"hm"}}}]}`, evHi, evStop, evDone),
			func(r llm.Response) bool { return len(r.Message.Blocks) == 1 },
		},
		{
			"content filter", sseOf(evHi, strings.Replace(evStop, `"stop"`, `"content_filter"`, 1), evDone),
			func(r llm.Response) bool { return r.StopReason == td.Refusal && r.Message.Text() == "hi" },
		},
		{
			"a refusal", sseOf(`{"choices":[{"delta":{"refusal":"I can"}}]}`, `{"choices":[{"delta":{"refusal":"not."}}]}`, evStop, evDone),
			func(r llm.Response) bool { return r.StopReason == td.Refusal && r.Message.Text() == "I cannot." },
		},
		{
			"unknown finish reason", sseOf(evHi, strings.Replace(evStop, `"stop"`, `"bored"`, 1), evDone),
			func(r llm.Response) bool { return r.StopReason == "bored" },
		},
		{
			"empty finish reasons on the way", sseOf(strings.Replace(evHi, `}}`, `},"finish_reason":""}`, 1), evStop, evDone),
			func(r llm.Response) bool { return r.StopReason == td.EndTurn },
		},
		{
			"half a call at the limit", sseOf(calling(piece("0", "a", "A", `{"x":`)), evLong, evDone),
			func(r llm.Response) bool {
				u := r.Message.ToolUses()[0]
				return string(u.Input) == "{}" && u.Malformed == `{"x":` && r.StopReason == td.MaxTokens
			},
		},
		{
			"another choice", sseOf(evHi, `{"choices":[{"index":1,"delta":{"content":"ho"},"finish_reason":"length"}]}`, evStop, evDone),
			func(r llm.Response) bool { return r.Message.Text() == "hi" && r.StopReason == td.EndTurn },
		},
		{
			"null for everything", sseOf(`{"choices":null,"error":null,"usage":null,"model":null}`, `null`, `{"choices":[{"delta":null}]}`, `{"choices":[{"delta":{"content":null,"tool_calls":null}}]}`, evHi, evStop, evDone),
			func(r llm.Response) bool { return r.Message.Text() == "hi" },
		},
		{
			"after [DONE]", sseOf(evHi, evStop, evDone, "garbage", `{"error":"late"}`),
			func(r llm.Response) bool { return r.Message.Text() == "hi" },
		},
		{
			"windows line ends", strings.ReplaceAll(sseOf(evHi, evStop, evDone), "\n", "\r\n"),
			func(r llm.Response) bool { return r.Message.Text() == "hi" },
		},
		{
			"comments, a name without data and no space", ": OPENROUTER PROCESSING\n\nevent: error\n\ndata:" + evHi + "\n\nid: 7\nretry: 1\n\n" + sseOf(evStop, evDone),
			func(r llm.Response) bool { return r.Message.Text() == "hi" },
		},
		{
			"escaped NUL and lone surrogate", sseOf(strings.Replace(evHi, "hi", `a\u0000b\ud800c`, 1), evStop, evDone),
			func(r llm.Response) bool { return r.Message.Text() == "a\x00b\ufffdc" },
		},
		{
			"broken UTF-8", sseOf(strings.Replace(evHi, "hi", "a\xff\xfeb", 1), evStop, evDone),
			func(r llm.Response) bool { return r.Message.Text() == "a\ufffd\ufffdb" },
		},
		{
			"a name for a model that is none", sseOf(`{"model":"a\u001b[2J"}`, `{"model":["x"]}`, evHi, evStop, evDone),
			func(r llm.Response) bool { return r.Model == "m" },
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
		{"only comments", strings.Repeat(": processing\n\n", 1000)},
		{"no finish reason", sseOf(evRole, evHi, evDone)},
		{"no finish reason but a count", sseOf(evRole, evHi, evCount)},
		{"whole text without an end", sseOf(evRole, evHi)},
		{"no call to stop for", sseOf(evHi, evCalls, evDone)},
		{"an error without words", sseOf(evHi, strings.Replace(evStop, `"stop"`, `"error"`, 1), evDone)},
		{"call without name", sseOf(calling(piece("0", "a", "", "{}")), evCalls, evDone)},
		{"arguments of nothing", sseOf(calling(piece("0", "", "", "{}")), evCalls, evDone)},
		{"negative index", sseOf(calling(piece("-1", "a", "A", "")), evCalls, evDone)},
		{"index of another kind", sseOf(calling(piece(`"zero"`, "a", "A", "")), evCalls, evDone)},
		{"huge index", sseOf(calling(piece("99999999999999999999", "a", "A", "")), evCalls, evDone)},
		{"name with an escape sequence", sseOf(strings.Replace(calling(piece("0", "a", "A", "")), `"A"`, `"A\u001b[2J"`, 1), evCalls, evDone)},
		{"arguments of another kind", sseOf(`{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"A","arguments":7}}]}}]}`, evCalls, evDone)},
		{"finish reason with an escape sequence", sseOf(evHi, strings.Replace(evStop, `"stop"`, `"a\u001b[2J"`, 1), evDone)},
		{"content of another kind", sseOf(strings.Replace(evHi, `"hi"`, `7`, 1), evStop, evDone)},
		{"truncated JSON", sseOf(evRole, evHi[:30], evStop, evDone)},
		{"JSON of another kind", sseOf(`[1,2,3]`, evStop, evDone)},
		{"raw NUL", sseOf(strings.Replace(evHi, "hi", "a\x00b", 1), evStop, evDone)},
		{"deep nesting", sseOf(strings.Repeat("[", 100_000), evStop, evDone)},
		{"garbage after the finish reason", sseOf(evHi, evStop, "garbage", evDone)},
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
