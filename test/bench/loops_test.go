package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"taskdaemon/internal/api"
	"taskdaemon/internal/store"
	"taskdaemon/internal/store/sqlite"
	"taskdaemon/internal/td"
)

const (
	manyLoops = 1000
	loopTurns = 10
)

// perLoop is how much memory a loop at work may cost at its worst, in KiB.
const perLoop = 1024

// BenchmarkLoops lets 1,000 loops work at the same time in one daemon, each with ten turns of a Read and a Bash call, on
// rehearsal: how much memory the daemon held at its worst, whether some loops were left behind, and what a turn cost
// beside the model, against the same with one loop. Everything is read from the journal afterwards.
func BenchmarkLoops(b *testing.B) {
	script := fmt.Sprintf(`
turns:
  - repeat: %d
    tools: [{name: Read, input: {path: %s}}, {name: Bash, input: {command: 'true'}}]
  - tools: [{name: Complete, input: {summary: done}}]
`, loopTurns, smallFile)
	one := loopsOf(b, 1, script)
	all := loopsOf(b, manyLoops, script)
	memory := float64(all.peak-all.idle) / manyLoops
	name := fmt.Sprintf("%d loops of %d turns with Read and Bash", manyLoops, loopTurns)
	figures.add(name+": memory", fmt.Sprintf("%.1f × idle", float64(all.peak)/float64(all.idle)),
		goal(fmt.Sprintf("< %d KiB a loop", perLoop), memory < perLoop),
		fmt.Sprintf("%.0f KiB a loop; peak %.1f MiB, idle %.1f MiB", memory, float64(all.peak)/1024, float64(all.idle)/1024))
	spread := all.took.at(1) / all.took.at(0.5)
	figures.add(name+": slowest loop", fmt.Sprintf("%.2f × median", spread), goal("< 3 × median", spread < 3),
		fmt.Sprintf("first after %.1f s, median %.1f s, last %.1f s", all.took.at(0)/1000, all.took.at(0.5)/1000, all.took.at(1)/1000))
	slower := all.turns.at(0.95) / one.turns.at(0.95)
	share := all.took.at(1) / (manyLoops * loopTurns)
	figures.add(name+": overhead per turn", fmt.Sprintf("%.0f × 1 loop", slower), "",
		fmt.Sprintf("p50 / p95 %s; 1 loop %s; a turn every %.2f ms", all.turns.both(), one.turns.both(), share))
	report(b, map[string]float64{
		"/median": spread, "KiB/loop": memory, "p95-ms": all.turns.at(0.95), "p50-ms": all.turns.at(0.5), "one-p95-ms": one.turns.at(0.95),
		"ms/turn": share,
	})
}

// looped is what became of loops.
type looped struct {
	idle, peak int64  // memory of the daemon, in KiB
	took       sample // from the beginning of the first loop to the end of each
	turns      sample // from an answer to the next call
}

// loopsOf lets n loops begin together: they stand in the journal when the daemon starts.
func loopsOf(b *testing.B, n int, script string) (out looped) {
	b.Helper()
	h := furnish(b, "provider: rehearsal", fmt.Sprintf("limits: {loops: %d}", n), "drift: {repeats: 0}")
	d := h.start()
	d.answers()
	out.idle = d.settled().rss
	d.add(api.AddTask{Prompt: "work", Dir: h.workspace(0), Rehearsal: script, Yes: true}, td.Completed)
	d.kill()
	tasks := h.queued(n)
	d = h.start()
	d.until("every loop has completed", time.Second, func(ctx context.Context) bool {
		st, err := h.svc.Status(ctx)
		return err == nil && st.Tasks[td.Completed] == n+1
	})
	out.peak = d.memory().peak
	d.kill()
	out.read(h, tasks)
	return out
}

// queued writes n tasks that are like the one in the journal, each in a workspace of its own, and none begun.
func (h *house) queued(n int) (ids []td.TaskID) {
	h.b.Helper()
	s := h.journal()
	ctx := h.b.Context()
	like, err := s.Tasks(ctx, store.TaskFilter{})
	if err != nil || len(like) != 1 {
		h.b.Fatalf("%d tasks in the journal (%v); want one", len(like), err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(64)
	for i := range n {
		spec := like[0].Spec
		spec.ID = td.NewTaskID()
		spec.Handle, spec.Dir = td.Handle(td.TaskHandle, string(spec.ID), td.HandleLength), h.workspace(i+1)
		ids = append(ids, spec.ID)
		group.Go(func() error {
			_, err := s.Create(ctx, spec, string(spec.ID))
			return err
		})
	}
	if err := errors.Join(group.Wait(), s.Close()); err != nil {
		h.b.Fatal(err)
	}
	return ids
}

// journal opens that of a house whose daemon is gone.
func (h *house) journal() *sqlite.Store {
	h.b.Helper()
	s, err := sqlite.Open(h.b.Context(), sqlite.Options{Dir: h.path("state")})
	if err != nil {
		h.b.Fatal(err)
	}
	return s
}

// read takes the times from the journal.
func (l *looped) read(h *house, tasks []td.TaskID) {
	h.b.Helper()
	s := h.journal()
	var first time.Time
	var ends []time.Time
	for _, id := range tasks {
		evs := events(h.b, s, id)
		if begun := evs[1].At; first.IsZero() || begun.Before(first) {
			first = begun
		}
		ends = append(ends, evs[len(evs)-1].At)
		l.turns = append(l.turns, overheads(evs)...)
	}
	for _, end := range ends {
		l.took = append(l.took, end.Sub(first))
	}
	if err := s.Close(); err != nil {
		h.b.Fatal(err)
	}
}

// overheads are the times from each answer of the model to the next call, all that the loop does in between included.
func overheads(evs []td.Event) (out sample) {
	var answered time.Time
	for _, ev := range evs {
		switch body := ev.Body.(type) {
		case td.StepEnded:
			if body.Model != nil {
				answered = ev.At
			}
		case td.StepIntended:
			if body.Kind == td.ModelStep && !answered.IsZero() {
				out = append(out, ev.At.Sub(answered))
			}
		}
	}
	return out
}
