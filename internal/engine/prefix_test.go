package engine

import (
	"fmt"
	"strings"
	"testing"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

// What is counted turn by turn is what counting the whole conversation gives, also after a compaction.
func TestEstimateIsTheWholeCount(t *testing.T) {
	var plays []any
	for i := range 8 {
		plays = append(plays, calls("Look", fmt.Sprintf(`{"n":%d}`, i)))
	}
	play(t, plays, nil, func(b *bench, id td.TaskID) {
		b.until(id, td.Completed)
		n := 0
		for ev, err := range b.journal.Read(b.t.Context(), id, 0) {
			if err != nil {
				b.t.Fatal(err)
			}
			end, is := ev.Body.(td.StepEnded)
			if !is || end.Model == nil {
				continue
			}
			req := b.model.requests[n]
			whole := window.Count(req.System, toolsOf(b, id), req.Messages)
			if p := end.Model.Prefix; p == nil || p.Estimated != whole.Total() {
				b.t.Errorf("call %d is recorded as %+v; counted it is %d", n, p, whole.Total())
			} else if n > 0 && (p.Shared <= 0 || p.Shared >= p.Sent) {
				b.t.Errorf("call %d shares %d of %d", n, p.Shared, p.Sent)
			}
			n++
		}
		if n != len(plays)+1 {
			b.t.Errorf("%d calls", n)
		}
	})
}

// A cache that serves little of what is shared is a miss, with its cause.
func TestCacheMissHasACause(t *testing.T) {
	used := func(u td.Usage) llm.Response {
		r := calls("Look", `{}`)
		r.Usage = u
		return r
	}
	plays := []any{
		used(td.Usage{CacheWrite: 2000}),
		used(td.Usage{CacheRead: 1950, CacheWrite: 100}),
		used(td.Usage{CacheRead: 30, CacheWrite: 2100}),
		used(td.Usage{CacheWrite: 2200}),
		used(td.Usage{Input: 2300}),
	}
	want := []string{"the first call", "", "found 30 of about", "did not find it", "tells nothing"}
	play(t, plays, nil, func(b *bench, id td.TaskID) {
		b.until(id, td.Completed)
		n := 0
		for ev, err := range b.journal.Read(b.t.Context(), id, 0) {
			if err != nil {
				b.t.Fatal(err)
			}
			end, is := ev.Body.(td.StepEnded)
			if !is || end.Model == nil || n == len(want) {
				continue
			}
			if miss := end.Model.Prefix.Miss; (miss == "") != (want[n] == "") || !strings.Contains(miss, want[n]) {
				t.Errorf("call %d missed because %q, want %q", n, miss, want[n])
			}
			n++
		}
	})
}

func toolsOf(b *bench, id td.TaskID) []byte {
	b.t.Helper()
	for ev, err := range b.journal.Read(b.t.Context(), id, 0) {
		if err != nil {
			b.t.Fatal(err)
		}
		if set, is := ev.Body.(td.ContextSet); is {
			return set.Tools
		}
	}
	b.t.Fatal("no context")
	return nil
}

// partsOf names what the context is made of.
func partsOf(b *bench, id td.TaskID) (names []string) {
	b.t.Helper()
	for ev, err := range b.journal.Read(b.t.Context(), id, 0) {
		if err != nil {
			b.t.Fatal(err)
		}
		if set, is := ev.Body.(td.ContextSet); is {
			for _, p := range set.Parts {
				names = append(names, p.Name)
			}
		}
	}
	return names
}
