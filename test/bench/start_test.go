package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"taskdaemon/internal/api"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/store/mirror"
	"taskdaemon/internal/store/sqlite"
	"taskdaemon/internal/td"
)

const (
	allTasks   = 10_000
	inFlight   = 1_000
	pastTurns  = 10
	startTimes = 3
)

// BenchmarkStart kills a daemon that has 10,000 tasks, 1,000 of them in the middle of their eleventh model
// call, and starts it again: how long until the API answers and the report of the recovery is there, and
// until all 1,000 have sent that call again.
func BenchmarkStart(b *testing.B) {
	script := fmt.Sprintf(`
turns:
  - {repeat: %d, tools: [{name: Read, input: {path: %s}}]}
  - {text: never said, latency: 1h}
`, pastTurns, smallFile)
	h := newHouse(b, script, llmtest.Options{}, fmt.Sprintf("limits: {loops: %d}", 2*inFlight), "drift: {repeats: 0}")
	fill(h)
	empty := newHouse(b, script, llmtest.Options{})
	var bare, answers, going []float64
	var ratios []float64
	for range startTimes {
		e := empty.start()
		nothing := e.answers().Seconds()
		e.kill()
		from := len(h.model.Exchanges())
		d := h.start()
		first := d.answers().Seconds()
		d.until("every task goes on", 10*time.Millisecond, func(context.Context) bool {
			return len(h.model.Exchanges())-from >= inFlight
		})
		all := time.Since(d.begun).Seconds()
		report, err := h.svc.Recovery(b.Context())
		if err != nil || len(report.Resumed) != inFlight {
			b.Fatalf("%d tasks were resumed (%v); want %d", len(report.Resumed), err, inFlight)
		}
		d.kill()
		bare, answers, going = append(bare, nothing), append(answers, first), append(going, all)
		ratios = append(ratios, first/nothing)
	}
	name := fmt.Sprintf("start with %d tasks, %d in flight: ", allTasks, inFlight)
	figures.add(name+"API and report", fmt.Sprintf("%.1f × empty", median(ratios)), goal("≤ 1 s", median(answers) <= 1),
		fmt.Sprintf("%.2f s; with no tasks %.3f s", median(answers), median(bare)))
	figures.add(name+"all going on", fmt.Sprintf("%.1f × API", median(going)/median(answers)), goal("≤ 10 s", median(going) <= 10),
		fmt.Sprintf("%.2f s", median(going)))
	report(b, map[string]float64{
		"/empty": median(ratios), "answers-s": median(answers), "going-on-s": median(going), "empty-s": median(bare),
	})
}

// fill makes the house's state folder: one task of each kind is really run, the others are written as
// copies of what it left, and the conversations are mirrored as they would have been.
func fill(h *house) {
	b := h.b
	b.Helper()
	d := h.start()
	d.answers()
	ended := d.add(api.AddTask{Prompt: "end", Dir: h.workspace(0), Rehearsal: fmt.Sprintf(
		"turns: [{tools: [{name: Read, input: {path: %s}}]}, {tools: [{name: Complete, input: {summary: done}}]}]", smallFile)}, td.Completed)
	flying := d.add(api.AddTask{Prompt: "go on", Dir: h.workspace(0)}, td.Running)
	d.until("the model is asked", 10*time.Millisecond, func(ctx context.Context) bool {
		t, err := h.svc.Task(ctx, string(flying.ID))
		return err == nil && t.Turns == pastTurns && len(t.InFlight) == 1
	})
	d.kill()

	ctx := b.Context()
	s, err := sqlite.Open(ctx, sqlite.Options{Dir: h.path("state")})
	if err != nil {
		b.Fatal(err)
	}
	dead, held, err := s.HolderOf(ctx, flying.ID)
	if err != nil || !held {
		b.Fatalf("nobody holds the task: %v", err)
	}
	past, future := events(b, s, ended.ID), events(b, s, flying.ID)
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(128)
	for i := 2; i < allTasks; i++ {
		dir, evs := h.path("work/0"), past
		if i <= inFlight {
			dir, evs = h.workspace(i), future
		}
		group.Go(func() error { return clone(gctx, s, evs, dir, dead.Holder) })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	mirrored(b, s, h.path("state/conversations.git"))
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

func events(b *testing.B, s *sqlite.Store, id td.TaskID) []td.Event {
	b.Helper()
	var evs []td.Event
	for ev, err := range s.Read(b.Context(), id, 0) {
		if err != nil {
			b.Fatal(err)
		}
		evs = append(evs, ev)
	}
	return evs
}

// clone writes a task with the same history, held by the same dead daemon unless it has ended.
func clone(ctx context.Context, s *sqlite.Store, evs []td.Event, dir string, holder td.Holder) error {
	spec := evs[0].Body.(td.Created).Spec
	spec.ID = td.NewTaskID()
	spec.Handle, spec.Dir, spec.Rehearsal = td.Handle(td.TaskHandle, string(spec.ID), td.HandleLength), dir, ""
	task, err := s.Create(ctx, spec, string(spec.ID))
	if err != nil {
		return err
	}
	claim, err := s.Claim(ctx, task.ID, holder)
	if err != nil {
		return err
	}
	evs = slices.Clone(evs[1:])
	for i := range evs {
		evs[i].Task = task.ID
	}
	if task, err = s.Append(ctx, claim, task.Head, evs...); err != nil {
		return err
	}
	if task.Status.State.Terminal() {
		return s.Release(ctx, claim)
	}
	return nil
}

// mirrored lets the mirror of the conversations catch up: a daemon that lived would have done it by the way.
func mirrored(b *testing.B, s *sqlite.Store, path string) {
	b.Helper()
	last, err := s.Last(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	m := mirror.New(mirror.Options{Journal: s, Path: path})
	var wg sync.WaitGroup
	wg.Go(func() { _ = m.Run(ctx) }) // it ends with ctx alone, and without an error
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for m.Mirrored() < last && ctx.Err() == nil {
		<-tick.C
	}
	done := ctx.Err() == nil
	cancel()
	wg.Wait()
	if !done {
		b.Fatal("the conversations were not mirrored in time")
	}
}
