// Package storetest is the contract of store.Journal in code: every implementation must pass Run.
package storetest

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// Open makes an empty journal for one test. alive is what the journal asks about holders. reopen closes
// the journal that was opened last and opens it again, as a later process would.
type Open func(t testing.TB, alive func(td.Holder) bool) (j store.Journal, reopen func() store.Journal)

// Run runs the whole suite.
func Run(t *testing.T, open Open) {
	tests := map[string]func(*testing.T, *fixture){
		"create/once by key":                  createOnce,
		"create/handle grows when taken":      createHandle,
		"create/refuses bad specs":            createRefused,
		"append/keeps what it was given":      appendKeeps,
		"append/all or none":                  appendAllOrNone,
		"append/refuses what does not follow": appendRefused,
		"append/recognises a repeat":          appendRepeated,
		"append/large bodies":                 appendLarge,
		"append/odd bytes and times":          appendOdd,
		"append/many tasks at once":           appendConcurrent,
		"append/a cancelled call":             appendCancelled,
		"daemon stream":                       daemonStream,
		"claim/epochs fence":                  claimFences,
		"claim/two at once":                   claimRace,
		"claim/of a dead holder":              claimDead,
		"claim/renew and release":             claimRenew,
		"claim/outlives a reopening":          claimReopened,
		"lease/alone":                         leaseExclusive,
		"lease/as many as may":                leaseCapacity,
		"lease/fences grow":                   leaseFences,
		"lease/ends with its step":            leaseEnds,
		"lease/first come first":              leaseQueue,
		"lease/refuses bad wants":             leaseRefused,
		"lease/recognises a repeat":           leaseRepeated,
		"lease/many at once":                  leaseRace,
		"lease/several in one append":         leaseTogether,
		"inbox/exactly once":                  inboxOnce,
		"inbox/pending":                       inboxPending,
		"views/tasks and counts":              viewTasks,
		"views/resolve":                       viewResolve,
		"views/resolve requests":              viewResolveRequests,
		"views/tallies":                       viewTallies,
		"notes/newest first":                  notesNewest,
		"notes/best first":                    notesBest,
		"notes/any text may be asked for":     notesHostile,
		"notes/outlive bodies":                notesTrimmed,
		"runs/are what their records say":     runsFolded,
		"runs/open ones outlive records":      runsTrimmed,
		"follow/gapless beside a stuck one":   followGapless,
		"follow/filters":                      followFilters,
		"follow/ends":                         followEnds,
		"follow/pauses":                       followPauses,
		"follow/from far behind":              followBehind,
		"upkeep/cursors never go back":        cursors,
		"upkeep/trim bodies":                  trimBodies,
		"upkeep/trim records":                 trimRecords,
		"upkeep/trim stops at the mirror":     trimMirrored,
		"budget/reserved and settled":         budgetSettled,
		"budget/lost calls":                   budgetLost,
		"budget/tokens":                       budgetTokens,
		"budget/marks":                        budgetMarks,
		"budget/trees":                        budgetTree,
		"budget/below":                        budgetBelow,
		"budget/raised":                       budgetRaised,
		"budget/asked":                        budgetAsked,
		"budget/fifty at once":                budgetTogether,
		"close/refuses all":                   closed,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, newFixture(t, open)) })
	}
	t.Run("claim/expires by the clock", func(t *testing.T) { claimExpires(t, open) })
	t.Run("budget/model", func(t *testing.T) { budgetModel(t, open) })
	t.Run("lease/model", func(t *testing.T) { leaseModel(t, open) })
	t.Run("notes/model", func(t *testing.T) { notesModel(t, open) })
	t.Run("model", func(t *testing.T) { model(t, open) })
}

// fixture is a journal in one test.
type fixture struct {
	store.Journal
	t      testing.TB
	ctx    context.Context
	dead   atomic.Int64 // pid of the holder that is no more
	reopen func() store.Journal
	now    time.Time
}

func newFixture(t testing.TB, open Open) *fixture {
	f := &fixture{t: t, ctx: t.Context(), now: time.Date(2030, 1, 2, 3, 4, 5, 678901234, time.UTC)}
	f.Journal, f.reopen = open(t, func(h td.Holder) bool { return int64(h.Pid) != f.dead.Load() })
	return f
}

// again closes the journal and opens it anew.
func (f *fixture) again() { f.Journal = f.reopen() }

// tick is a later time at each call.
func (f *fixture) tick() time.Time {
	f.now = f.now.Add(time.Second)
	return f.now
}

func holder(pid int) td.Holder { return td.Holder{Host: "here", Boot: "b00t", Pid: pid, Start: "7"} }

func spec(title string, at time.Time) td.Spec {
	id := td.NewTaskID()
	return td.Spec{
		ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Kind: td.KindTask,
		Title: title, Prompt: "do " + title, Dir: "/w/" + title, Mode: td.Autonomous, Tier: td.Worker, Priority: 2,
		Labels: []string{"a", "b"}, CreatedAt: at,
	}
}

func (f *fixture) create(title string) td.Task {
	f.t.Helper()
	t, err := f.Create(f.ctx, spec(title, f.tick()), "key-"+title)
	must(f.t, err)
	return t
}

func (f *fixture) claim(id td.TaskID, pid int) td.Claim {
	f.t.Helper()
	c, err := f.Claim(f.ctx, id, holder(pid))
	must(f.t, err)
	return c
}

func (f *fixture) append(c td.Claim, after uint64, evs ...td.Event) td.Task {
	f.t.Helper()
	t, err := f.Append(f.ctx, c, after, evs...)
	must(f.t, err)
	return t
}

// running is a task that was claimed and started.
func (f *fixture) running(title string) (td.Task, td.Claim) {
	f.t.Helper()
	t := f.create(title)
	c := f.claim(t.ID, 1)
	return f.move(c, t, func(t td.Task, at time.Time) (td.Move, error) { return td.Start(t, td.NewRunID(), at) }), c
}

func (f *fixture) move(c td.Claim, t td.Task, decide func(td.Task, time.Time) (td.Move, error)) td.Task {
	f.t.Helper()
	m, err := decide(t, f.tick())
	must(f.t, err)
	return f.append(c, t.Head, m.Events...)
}

// ended is a task with a few records that was completed.
func (f *fixture) ended(title string) td.Task {
	f.t.Helper()
	t, c := f.running(title)
	t = f.append(c, t.Head, f.said("one"), f.said("two"))
	t = f.move(c, t, func(t td.Task, at time.Time) (td.Move, error) { return td.Complete(t, "done", nil, at) })
	must(f.t, f.Release(f.ctx, c))
	return t
}

func (f *fixture) said(text string) td.Event {
	return td.Event{At: f.tick(), Body: td.Said{Text: text, By: "test"}}
}

func (f *fixture) task(id td.TaskID) td.Task {
	f.t.Helper()
	t, err := f.Task(f.ctx, id)
	must(f.t, err)
	return t
}

func (f *fixture) read(id td.TaskID, after uint64) []td.Event {
	f.t.Helper()
	var out []td.Event
	for ev, err := range f.Read(f.ctx, id, after) {
		must(f.t, err)
		out = append(out, ev)
	}
	return out
}

// all are the events there are now.
func (f *fixture) all(filter store.EventFilter, after uint64) []td.Event {
	f.t.Helper()
	filter.NoFuture = true
	var out []td.Event
	for ev, err := range f.Follow(f.ctx, filter, after) {
		must(f.t, err)
		out = append(out, f.plain(ev))
	}
	return out
}

// plain is the event of a record whose encoding, if it is at hand, is what anybody would make of the body.
func (f *fixture) plain(r td.Record) td.Event {
	f.t.Helper()
	if raw, err := td.EncodeBody(r.Body); r.Raw != nil && (err != nil || !bytes.Equal(raw, r.Raw)) {
		f.t.Errorf("event %d is encoded as %s, not %s (%v)", r.Cursor, r.Raw, raw, err)
	}
	return r.Event
}

// sound checks the journal against itself.
func (f *fixture) sound() {
	f.t.Helper()
	problems, err := f.Check(f.ctx)
	must(f.t, err)
	if len(problems) > 0 {
		f.t.Errorf("the journal is not sound: %+v", problems)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err error, kind td.Kind) {
	t.Helper()
	if !td.IsKind(err, kind) {
		t.Fatalf("got error %v of kind %s, want %s", err, kindOf(err), kind)
	}
}

func kindOf(err error) string {
	if err == nil {
		return "none"
	}
	return string(td.KindOf(err))
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

// eventually polls until done, for as long as the test may take.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("waited in vain until " + what)
		}
	}
}

func name(format string, args ...any) string { return fmt.Sprintf(format, args...) }
