package storetest

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// tallies are what happened since, in a set order.
func (f *fixture) tallies(since time.Time) []td.Tally {
	f.t.Helper()
	out, err := f.Tallies(f.ctx, since)
	must(f.t, err)
	slices.SortFunc(out, func(a, b td.Tally) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Took, b.Took))
	})
	return out
}

// What happened is counted as it is written, by slots; steps whose intents and outcomes came together as well as those that did not.
func viewTallies(t *testing.T, f *fixture) {
	f.now = time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)
	first, second := f.now.Unix(), f.now.Add(td.TallySlot).Unix()
	task, c := f.running("tallied")
	intent := func(key td.StepKey, kind td.StepKind) td.Event {
		return td.Event{At: f.tick(), Body: td.StepIntended{Intent: td.Intent{Key: key, Kind: kind, Name: "Read", Effect: td.Pure}}}
	}
	end := func(key td.StepKey, took time.Duration, out td.Outcome) td.Event {
		out.Key, out.Took = key, took
		return td.Event{At: f.tick(), Body: td.StepEnded{Outcome: out}}
	}
	answer := td.Outcome{Model: &td.ModelResult{Usage: td.Usage{Input: 7, Output: 2, CacheRead: 3, CacheWrite: 1}, Cost: 5}}
	task = f.append(c, task.Head, intent("t1.model", td.ModelStep))
	task = f.append(c, task.Head, end("t1.model", time.Microsecond, answer), intent("t1.0", td.ToolStep), intent("t1.1", td.ToolStep))
	task = f.append(c, task.Head, end("t1.0", 2*time.Microsecond, td.Outcome{Tool: &td.ToolResult{IsError: true}}),
		end("t1.1", 2*time.Microsecond, td.Outcome{Tool: &td.ToolResult{}}))
	f.now = time.Unix(second, 0).UTC()
	task = f.append(c, task.Head, intent("t2.model", td.ModelStep), end("t2.model", time.Microsecond, answer))
	task = f.move(c, task, func(t td.Task, at time.Time) (td.Move, error) { return td.Cancel(t, "enough", at) })

	model := td.Tally{
		TallyKey: td.TallyKey{Slot: second, Type: "step_ended", Kind: td.ModelStep, Took: 1}, Count: 1, Calls: 1,
		Usage: td.Usage{Input: 7, Output: 2, CacheRead: 3, CacheWrite: 1}, Cost: 5,
	}
	both := model.Add(model)
	both.Slot = first
	moved := td.Tally{TallyKey: td.TallyKey{Slot: second, Type: "moved", Name: string(td.Cancelled)}, Count: 1}
	all := []td.Tally{
		{TallyKey: td.TallyKey{Slot: first, Type: "created"}, Count: 1}, moved, both,
		{TallyKey: td.TallyKey{Slot: first, Type: "step_ended", Kind: td.ToolStep, Name: "Read", Took: 2}, Count: 2, Failed: 1},
	}
	late := []td.Tally{moved, model}
	for range 2 {
		equal(t, "all", f.tallies(time.Time{}), all)
		equal(t, "since a time in the first slot", f.tallies(time.Unix(first, 0).Add(time.Minute)), all)
		equal(t, "since the second", f.tallies(time.Unix(second, 0)), late)
		equal(t, "since later", len(f.tallies(f.now.Add(td.TallySlot))), 0)
		f.sound()
		f.again()
	}
	last, err := f.Last(f.ctx)
	must(t, err)
	f.trim(retention(f.now.Add(2*day), last))
	equal(t, "when the bodies are gone", f.tallies(time.Time{}), all)
	f.sound()
	f.trim(retention(time.Unix(second, 0).Add(90*day), last))
	equal(t, "when the audit of the first slot is", f.tallies(time.Time{}), late)
	f.sound()
}
