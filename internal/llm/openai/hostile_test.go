package openai

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/td"
)

// sane fails the test unless a call came to something the loop can work with.
func sane(t testing.TB, r llm.Response, err error) {
	t.Helper()
	if err != nil {
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Class == "" || e.Error() == "" {
			t.Fatalf("error %v (%T)", err, err)
		}
		if len(r.Message.Blocks) > 0 {
			t.Fatalf("an error and an answer: %+v", r)
		}
		return
	}
	if r.Cut || r.StopReason == "" {
		t.Fatalf("an answer without a stop reason: %+v", r)
	}
	if u := r.Usage; min(u.Input, u.Output, u.CacheRead, u.CacheWrite) < 0 {
		t.Fatalf("usage %+v", u)
	}
	ids := map[string]bool{}
	for _, b := range r.Message.Blocks {
		if !utf8.ValidString(b.Text) || !utf8.Valid(b.Input) || !utf8.ValidString(b.Malformed) {
			t.Fatalf("a block is not UTF-8: %+v", b)
		}
		if b.Type != td.ToolUseBlock {
			continue
		}
		if b.ID == "" || b.Name == "" || ids[b.ID] || !json.Valid(b.Input) || b.Input[0] != '{' || b.Malformed != "" && string(b.Input) != "{}" {
			t.Fatalf("call %+v", b)
		}
		ids[b.ID] = true
	}
}

func TestHugeText(t *testing.T) {
	const size = 3 << 20
	piece := sseOf(strings.Replace(evHi, "hi", strings.Repeat("x", 64<<10), 1))
	parts := []io.Reader{strings.NewReader(sseOf(evRole))}
	for range size / (64 << 10) {
		parts = append(parts, strings.NewReader(piece))
	}
	parts = append(parts, strings.NewReader(sseOf(evStop, evDone)))
	deltas := 0
	r, err := playing(func() io.Reader { return io.MultiReader(parts...) }).
		Stream(t.Context(), llm.Request{}, func(d llm.Delta) { deltas += len(d.Text) })
	if err != nil || len(r.Message.Text()) != size || deltas != size {
		t.Errorf("%d bytes, %d in deltas, %v", len(r.Message.Text()), deltas, err)
	}
}

func TestHugeLine(t *testing.T) {
	for _, c := range []struct {
		size int
		ok   bool
	}{{3 << 20, true}, {40 << 20, false}} {
		r, err := play(t.Context(), sseOf(strings.Replace(evHi, "hi", strings.Repeat("x", c.size), 1), evStop, evDone))
		if c.ok != (err == nil) || c.ok && len(r.Message.Text()) != c.size {
			t.Errorf("a line of %d MiB: %d bytes, %v", c.size>>20, len(r.Message.Text()), err)
		}
		if err != nil {
			llmtest.WantClass(t, err, td.Endless) // no outage, which would be waited for
		}
		if err != nil && !strings.Contains(err.Error(), "an event is longer than 8 MiB") {
			t.Error(err)
		}
		sane(t, r, err)
	}
}

// endless repeats a text for ever.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

func TestEndlessStreams(t *testing.T) {
	long := strings.Repeat("y", 8<<10)
	for name, c := range map[string]struct{ head, body string }{
		"text":      {sseOf(evRole), sseOf(strings.Replace(evHi, "hi", long, 1))},
		"comments":  {sseOf(evRole), ": " + long + "\n\n"},
		"one line":  {"data: ", "zzzzzzzzzzzzzzzz"},
		"one event": {"", "data: " + long + "\n"},
		"calls":     {sseOf(evRole), sseOf(calling(piece("", "", "A", `{}`)))},
		"arguments": {sseOf(calling(piece("0", "", "A", `{"x":"`))), sseOf(calling(piece("0", "", "A", strings.Repeat("}", 8<<10))))},
		"before [DONE]": {
			sseOf(evHi, evStop), sseOf(`{"choices":[],"x":"` + long + `"}`),
		},
		"after [DONE]": {
			sseOf(evHi, evStop, evDone), sseOf(`{"choices":[],"x":"` + long + `"}`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := playing(func() io.Reader {
				return io.MultiReader(strings.NewReader(c.head), &endless{text: c.body})
			}).Stream(t.Context(), llm.Request{}, nil)
			sane(t, r, err)
			if ended := strings.Contains(name, "DONE"); ended != (err == nil) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// Whole answers, spoiled in every way that comes to mind, at random places. The seed is in the name.
func TestHostileAnswers(t *testing.T) {
	var all [][]llmtest.Frame
	for _, turn := range recordings {
		all = append(all, record(t, turn))
	}
	llmtest.Spoiled(t, all, func(t *testing.T, stream string) bool {
		r, err := play(t.Context(), stream)
		sane(t, r, err)
		return err == nil
	})
}

func FuzzStream(f *testing.F) {
	for _, turn := range recordings {
		var stream []byte
		for _, fr := range record(f, turn) {
			stream = append(stream, fr.Bytes...)
		}
		f.Add(string(stream))
	}
	f.Add(sseOf(calling(piece("0", "", "A", `{"a`), piece("0", "", "A", `":1}`)), evStop))
	f.Add(sseOf(`{"choices":[{"delta":{"tool_calls":[{"function":{"name":"A","arguments":{"x":"`+"\xff"+`"}}}]}}]}`, evCalls, evCount, evDone))
	f.Add("error: {\"code\":500,\"message\":\"m\"}\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		a := &answer{emit: func(llm.Delta) {}, came: func(int) {}}
		if err := a.read(strings.NewReader(stream), func(time.Duration) {}); err != nil || !a.done {
			return
		}
		r := a.response(nil)
		sane(t, r, nil)
		_ = encoded(t, llm.Request{Messages: []td.Message{r.Message}}) // what came in must be fit to go out again
	})
}

func FuzzError(f *testing.F) {
	for _, c := range errorBodies {
		f.Add(c.status, c.body)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 {
			return
		}
		_, err := answering(status, nil, body).Stream(t.Context(), llm.Request{}, nil)
		sane(t, llm.Response{}, err)
		if err == nil || !utf8.ValidString(err.Error()) || len(err.Error()) > 3000 {
			t.Fatalf("%d %q: %v", status, body, err)
		}
	})
}

// An answer that no window holds is given up long before it fills the memory.
func TestAnswerOverAnyWindow(t *testing.T) {
	text := &endless{text: sseOf(strings.Replace(evHi, "hi", strings.Repeat("x", 64<<10), 1))}
	taken := 0
	_, err := playing(func() io.Reader { return io.MultiReader(strings.NewReader(sseOf(evRole)), text) }).
		Stream(t.Context(), llm.Request{}, func(d llm.Delta) { taken += len(d.Text) })
	if err == nil || !strings.Contains(err.Error(), "longer than 4 MiB") || taken > 5<<20 {
		t.Errorf("%d bytes taken, %v", taken, err)
	}
}
