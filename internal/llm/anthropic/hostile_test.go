package anthropic

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
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
	ids := map[string]bool{}
	for _, b := range r.Message.Blocks {
		if !utf8.ValidString(b.Text) {
			t.Fatalf("text is not UTF-8: %.100q", b.Text)
		}
		if b.Type != td.ToolUseBlock {
			continue
		}
		if b.ID == "" || b.Name == "" || ids[b.ID] || !json.Valid(b.Input) || b.Input[0] != '{' || b.Malformed != "" && string(b.Input) != "{}" {
			t.Fatalf("call %+v", b)
		}
		if r.Cut {
			t.Fatal("a call from a cut stream")
		}
		ids[b.ID] = true
	}
	if !r.Cut && r.StopReason == "" {
		t.Fatalf("an answer without a stop reason: %+v", r)
	}
}

func TestHugeText(t *testing.T) {
	const size = 3 << 20
	piece := strings.Replace(evHi, "hi", strings.Repeat("x", 64<<10), 1)
	parts := []io.Reader{strings.NewReader(sseOf(evStart, evText))}
	for range size / (64 << 10) {
		parts = append(parts, strings.NewReader(sseOf(piece)))
	}
	parts = append(parts, strings.NewReader(sseOf(evClose, evEnd, evStop)))
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
	}{{3 << 20, true}, {5 << 20, false}, {40 << 20, false}} {
		r, err := play(t.Context(), sseOf(evStart, evText, strings.Replace(evHi, "hi", strings.Repeat("x", c.size), 1), evClose, evEnd, evStop))
		if c.ok != (err == nil) || c.ok && len(r.Message.Text()) != c.size {
			t.Errorf("a line of %d MiB: %d bytes, %v", c.size>>20, len(r.Message.Text()), err)
		}
		if err != nil {
			llmtest.WantClass(t, err, td.Endless) // no outage, which would be waited for
		}
		if err != nil && !strings.Contains(err.Error(), "an event is longer than 8 MiB") && !strings.Contains(err.Error(), "the answer is longer than 4 MiB") {
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
	for name, c := range map[string]struct{ head, body string }{
		"text":     {sseOf(evStart, evText), sseOf(strings.Replace(evHi, "hi", strings.Repeat("y", 8<<10), 1))},
		"pings":    {sseOf(evStart), ": " + strings.Repeat("p", 8<<10) + "\n\n"},
		"one line": {"data: ", "zzzzzzzzzzzzzzzz"},
		"blocks":   {sseOf(evStart), sseOf(strings.Replace(evText, "text", strings.Repeat("w", 8<<10), 1))},
		"after the end": {
			sseOf(evStart, evEnd, evStop), sseOf(`{"type":"ping","x":"` + strings.Repeat("p", 8<<10) + `"}`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := playing(func() io.Reader {
				return io.MultiReader(strings.NewReader(c.head), &endless{text: c.body})
			}).Stream(t.Context(), llm.Request{}, nil)
			sane(t, r, err)
			if ended := name == "after the end"; ended != (err == nil) {
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
	f.Add(sseOf(evStart, evTool, input(`{"a`), evClose, evCall, evStop))
	f.Fuzz(func(t *testing.T, stream string) {
		a := &answer{emit: func(llm.Delta) {}, came: func(int) {}}
		var r llm.Response
		err := a.read(strings.NewReader(stream), func() {})
		switch kept, ok := a.cut(); {
		case err != nil:
			return
		case a.done:
			r = a.response()
		case ok:
			r = kept
		default:
			return
		}
		sane(t, r, nil)
		for _, b := range r.Message.Blocks { // what came in must be fit to go out again
			_ = encoded(t, llm.Request{Messages: []td.Message{{Role: td.Assistant, Blocks: []td.Block{b}}}})
		}
	})
}

// An answer that no window holds is given up long before it fills the memory.
func TestAnswerOverAnyWindow(t *testing.T) {
	text := &endless{text: sseOf(strings.Replace(evHi, "hi", strings.Repeat("x", 64<<10), 1))}
	taken := 0
	_, err := playing(func() io.Reader { return io.MultiReader(strings.NewReader(sseOf(evStart, evText)), text) }).
		Stream(t.Context(), llm.Request{}, func(d llm.Delta) { taken += len(d.Text) })
	if err == nil || !strings.Contains(err.Error(), "longer than 4 MiB") || taken > 5<<20 {
		t.Errorf("%d bytes taken, %v", taken, err)
	}
}
