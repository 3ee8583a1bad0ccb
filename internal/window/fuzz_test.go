package window

import (
	"encoding/json"
	"reflect"
	"testing"

	"taskdaemon/internal/td"
)

// A compaction comes from the journal, which may hold anything: applying it gives an error or a
// conversation that keeps the rules, the same one each time.
func FuzzApply(f *testing.F) {
	f.Add([]byte(`{"strategy":"truncate","edits":[{"message":2,"block":0,"text":"cut"}]}`))
	f.Add([]byte(`{"strategy":"summarise","from":1,"to":5,"with":[{"role":"assistant","blocks":[{"type":"text","text":"s"}]},{"role":"user","blocks":[{"type":"text","text":"u"}]}]}`))
	f.Add([]byte(`{"from":-1,"to":99}`))
	f.Add([]byte(`{"from":9223372036854775807,"to":-9223372036854775808}`))
	f.Add([]byte(`{"edits":[{"message":-1},{"message":2,"block":-1},{"message":1,"block":0}]}`))
	f.Add([]byte(`{"from":1,"to":1,"with":[{"role":"assistant","blocks":null}]}`))
	msgs := run("a", "b", "c")
	f.Fuzz(func(t *testing.T, raw []byte) {
		var c Compaction
		if json.Unmarshal(raw, &c) != nil {
			return
		}
		out, err := Apply(msgs, c)
		again, errAgain := Apply(msgs, c)
		if (err == nil) != (errAgain == nil) || !reflect.DeepEqual(out, again) {
			t.Fatal("two outcomes")
		}
		if !reflect.DeepEqual(msgs, run("a", "b", "c")) {
			t.Fatal("the source was changed")
		}
		if err == nil && (Check(out) != nil || !reflect.DeepEqual(out[0], msgs[0])) {
			t.Fatalf("%s gave a conversation that breaks the rules", raw)
		}
	})
}

// Any messages at all: planning never panics, and what it decides can be applied.
func FuzzPlan(f *testing.F) {
	seed, err := json.Marshal(run(lines(30), "b", "c"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed, 300)
	f.Add([]byte(`[{"role":"user","blocks":[{"type":"text","text":"a"}]},{"role":"assistant","blocks":[]}]`), 0)
	f.Add([]byte(`[{"role":"assistant"},{},{"blocks":[{}]}]`), -1)
	f.Fuzz(func(t *testing.T, raw []byte, window int) {
		var msgs []td.Message
		if json.Unmarshal(raw, &msgs) != nil {
			return
		}
		d := Plan(msgs, Parts{}, Budget{Window: window}, Options{})
		if d.Do == Summarise {
			if d.Compaction, err = d.Summary.Compaction("done"); err != nil {
				t.Fatal(err)
			}
		}
		if d.Do == Compact || d.Do == Summarise {
			if _, err := Apply(msgs, d.Compaction); err != nil {
				t.Fatal(err)
			}
		}
	})
}
