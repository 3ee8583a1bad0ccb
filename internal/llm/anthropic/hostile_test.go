package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/llm/rehearsal"
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
	const size = 50 << 20
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
	}{{10 << 20, true}, {40 << 20, false}} {
		r, err := play(t.Context(), sseOf(evStart, evText, strings.Replace(evHi, "hi", strings.Repeat("x", c.size), 1), evClose, evEnd, evStop))
		if c.ok != (err == nil) || c.ok && len(r.Message.Text()) != c.size {
			t.Errorf("a line of %d MiB: %d bytes, %v", c.size>>20, len(r.Message.Text()), err)
		}
		if err != nil && !strings.Contains(err.Error(), "an event is longer than 32 MiB") {
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
	spoilers := []func(*rand.Rand, []string) []string{
		func(r *rand.Rand, e []string) []string { i := r.IntN(len(e)); return slices.Delete(e, i, i+1) },
		func(r *rand.Rand, e []string) []string {
			i := r.IntN(len(e))
			return slices.Insert(e, i, e[r.IntN(len(e))])
		},
		func(r *rand.Rand, e []string) []string {
			i, j := r.IntN(len(e)), r.IntN(len(e))
			e[i], e[j] = e[j], e[i]
			return e
		},
		func(r *rand.Rand, e []string) []string {
			i := r.IntN(len(e))
			b := []byte(e[i])
			b[r.IntN(len(b))] = byte(r.IntN(256))
			e[i] = string(b)
			return e
		},
		func(r *rand.Rand, e []string) []string {
			i := r.IntN(len(e))
			at := r.IntN(len(e[i]))
			e[i] = e[i][:at] + strings.Repeat("\x00", 1+r.IntN(5)) + e[i][at:]
			return e
		},
		func(r *rand.Rand, e []string) []string {
			i := r.IntN(len(e))
			e[i] = e[i][:r.IntN(len(e[i]))]
			return e
		},
		func(r *rand.Rand, e []string) []string {
			return slices.Insert(e, r.IntN(len(e)), "event: error\ndata: "+strings.Repeat("{\"error\":", r.IntN(100))+"\n\n")
		},
		func(r *rand.Rand, e []string) []string {
			r.Shuffle(len(e), func(i, j int) { e[i], e[j] = e[j], e[i] })
			return e
		},
		func(r *rand.Rand, e []string) []string {
			i := r.IntN(len(e))
			e[i] = strings.Replace(e[i], `"index":0`, fmt.Sprintf(`"index":%d`, r.Int64()-r.Int64()), 1)
			return e
		},
		func(r *rand.Rand, e []string) []string { return slices.Concat(e, e) },
	}
	const answers = 1000
	taken := 0
	for seed := range answers {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		script, err := rehearsal.Parse([]byte("turns: [" + recordings[seed%len(recordings)] + "]"))
		if err != nil {
			t.Fatal(err)
		}
		var events []string
		for _, f := range llmtest.Frames(script.Play(llm.Request{})) {
			events = append(events, string(f.Bytes))
		}
		for range 1 + rng.IntN(3) {
			events = spoilers[rng.IntN(len(spoilers))](rng, events)
			events = slices.DeleteFunc(events, func(s string) bool { return s == "" })
			if len(events) == 0 {
				events = []string{"\n"}
			}
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r, err := play(t.Context(), strings.Join(events, ""))
			sane(t, r, err)
			if err == nil {
				taken++
			}
		})
	}
	if taken == 0 || taken == answers {
		t.Errorf("%d of %d were taken for answers: the spoilers spoil nothing or everything", taken, answers)
	}
	t.Logf("%d of %d spoiled streams still were answers", taken, answers)
}

func FuzzStream(f *testing.F) {
	for _, turn := range recordings {
		script, err := rehearsal.Parse([]byte("turns: [" + turn + "]"))
		if err != nil {
			f.Fatal(err)
		}
		var stream []byte
		for _, fr := range llmtest.Frames(script.Play(llm.Request{})) {
			stream = append(stream, fr.Bytes...)
		}
		f.Add(string(stream))
	}
	f.Add(sseOf(evStart, evTool, input(`{"a`), evClose, evCall, evStop))
	f.Fuzz(func(t *testing.T, stream string) {
		a := &answer{emit: func(llm.Delta) {}}
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
