package durable

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/mem"
	"taskdaemon/internal/td"
)

// shaky is a journal whose appends fail as told.
type shaky struct {
	store.Streams
	fail []error // one for each call, nil: it works
	// lost says that a failing append took place all the same.
	lost  bool
	calls int
}

func (s *shaky) Append(ctx context.Context, c td.Claim, after uint64, evs ...td.Event) (td.Task, error) {
	s.calls++
	if len(s.fail) > 0 {
		err := s.fail[0]
		s.fail = s.fail[1:]
		if err != nil {
			if s.lost {
				if _, err := s.Streams.Append(ctx, c, after, evs...); err != nil {
					return td.Task{}, err
				}
			}
			return td.Task{}, err
		}
	}
	return s.Streams.Append(ctx, c, after, evs...)
}

func open(t *testing.T, now func() time.Time) (*Log, *shaky, *mem.Store) {
	t.Helper()
	j := mem.New(nil)
	id := td.NewTaskID()
	task, err := j.Create(t.Context(), td.Spec{
		ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Title: "t", Prompt: "p", Dir: "/",
		Mode: td.Autonomous, Tier: td.Worker, CreatedAt: time.Now().UTC().Round(0),
	}, string(id))
	if err != nil {
		t.Fatal(err)
	}
	c, err := j.Claim(t.Context(), id, td.Holder{Host: "here"})
	if err != nil {
		t.Fatal(err)
	}
	s := &shaky{Streams: j}
	l, err := Open(t.Context(), s, task, c, now)
	if err != nil {
		t.Fatal(err)
	}
	return l, s, j
}

func events(t *testing.T, j *mem.Store, id td.TaskID) (types []td.EventType) {
	t.Helper()
	for ev, err := range j.Read(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, ev.Body.Type())
	}
	return types
}

func look(key td.StepKey, effect td.Effect, run func(context.Context) (td.Outcome, error)) Step {
	return Step{Intent: td.Intent{Key: key, Kind: td.ToolStep, Name: "Tool", Effect: effect}, Run: run}
}

func TestIntentIsOnDiskBeforeTheAct(t *testing.T) {
	l, _, j := open(t, time.Now)
	id := l.Task().ID
	_, err := l.Do(t.Context(), look("s1", td.Opaque, func(context.Context) (td.Outcome, error) {
		if got := events(t, j, id); got[len(got)-1] != (td.StepIntended{}).Type() {
			t.Errorf("while it acts the journal ends with %v", got)
		}
		return td.Outcome{Tool: &td.ToolResult{Content: "done"}}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got := events(t, j, id); got[len(got)-1] != (td.StepEnded{}).Type() {
		t.Errorf("after an opaque act the journal ends with %v", got)
	}
}

// An act that nothing can find out again is not over before its outcome is on record: who goes on without would act a second time
// before anybody knew of the first.
func TestOutcomeOfAnActThatIsNotRecordedIsAnError(t *testing.T) {
	l, s, _ := open(t, time.Now)
	_, err := l.Do(t.Context(), look("s1", td.Opaque, func(context.Context) (td.Outcome, error) {
		s.fail = []error{td.Errorf(td.Fenced, "the claim is lost")}
		return td.Outcome{Tool: &td.ToolResult{Content: "done"}}, nil
	}))
	if !td.IsKind(err, td.Fenced) {
		t.Errorf("the outcome was not recorded, and the step ended with %v", err)
	}
}

func TestOutcomesOfLooksRideAlong(t *testing.T) {
	l, s, j := open(t, time.Now)
	id := l.Task().ID
	done := func(context.Context) (td.Outcome, error) { return td.Outcome{Tool: &td.ToolResult{Content: "x"}}, nil }
	if err := l.DoAll(t.Context(), []Step{look("a", td.Pure, done), look("b", td.Pure, done)}); err != nil {
		t.Fatal(err)
	}
	if s.calls != 1 || len(l.Task().InFlight) != 0 {
		t.Errorf("%d appends, %d in flight in memory", s.calls, len(l.Task().InFlight))
	}
	if task, err := j.Task(t.Context(), id); err != nil || len(task.InFlight) != 2 {
		t.Errorf("on disk %d are in flight (%v): recovery looks again", len(task.InFlight), err)
	}
	if _, err := l.Do(t.Context(), look("c", td.Pure, done)); err != nil {
		t.Fatal(err)
	}
	if s.calls != 2 {
		t.Errorf("%d appends: the outcomes did not ride with the next intent", s.calls)
	}
	if err := l.DoAll(t.Context(), []Step{look("d", td.Opaque, done)}); !errors.Is(err, errNotPure) {
		t.Errorf("an opaque step ran together with others: %v", err)
	}
}

// What is kept elsewhere may be let go only when the journal has it.
func TestKeptOutcomeRidesAlong(t *testing.T) {
	l, s, j := open(t, time.Now)
	id := l.Task().ID
	gone := false
	step := look("s1", td.Opaque, func(context.Context) (td.Outcome, error) { return td.Outcome{Tool: &td.ToolResult{Content: "x"}}, nil })
	step.Kept, step.Then = true, func() {
		if got := events(t, j, id); got[len(got)-2] != (td.StepEnded{}).Type() {
			t.Errorf("let go while the journal ends with %v", got)
		}
		gone = true
	}
	if _, err := l.Do(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	if s.calls != 1 || gone {
		t.Errorf("%d appends after the step, let go: %v", s.calls, gone)
	}
	if err := l.Append(t.Context(), td.Said{Text: "on", By: "me"}); err != nil || !gone {
		t.Errorf("let go: %v (%v)", gone, err)
	}
}

func TestInterruptedStepHasNoOutcome(t *testing.T) {
	l, _, j := open(t, time.Now)
	stop := errors.New("stop")
	_, err := l.Do(t.Context(), look("s1", td.Opaque, func(context.Context) (td.Outcome, error) { return td.Outcome{}, stop }))
	if !errors.Is(err, stop) {
		t.Fatalf("error %v", err)
	}
	if task, err := j.Task(t.Context(), l.Task().ID); err != nil || len(task.InFlight) != 1 {
		t.Errorf("in flight: %+v (%v)", task.InFlight, err)
	}
}

func TestSettle(t *testing.T) {
	l, _, _ := open(t, time.Now)
	prior := td.Intent{Key: "s1", Kind: td.ToolStep, Name: "Bash", Effect: td.Opaque}
	if err := l.Append(t.Context(), td.StepIntended{Intent: prior}); err != nil {
		t.Fatal(err)
	}
	resolve := func(r Resolution) func(context.Context, td.Intent) (Resolution, error) {
		return func(context.Context, td.Intent) (Resolution, error) { return r, nil }
	}
	_, err := l.Settle(t.Context(), prior, resolve(Resolution{State: Unsure, Detail: "three files"}), nil)
	if u, ok := errors.AsType[*UnsureError](err); !ok || u.Detail != "three files" {
		t.Errorf("unsure gives %v", err)
	}
	if settled, err := l.Settle(t.Context(), prior, resolve(Resolution{State: NotDone}), nil); settled || err != nil {
		t.Errorf("not done gives %v, %v", settled, err)
	}
	out := td.Outcome{Via: td.Adopted, Tool: &td.ToolResult{Content: "late"}}
	if settled, err := l.Settle(t.Context(), prior, resolve(Resolution{State: Done, Outcome: out}), nil); !settled || err != nil {
		t.Errorf("done gives %v, %v", settled, err)
	}
	if len(l.Task().InFlight) != 0 {
		t.Errorf("in flight: %+v", l.Task().InFlight)
	}
}

func TestStoreThatFailsIsTriedAgain(t *testing.T) {
	full := td.Errorf(td.Storage, "disk full")
	unknown := td.Errorf(td.Unknown, "who knows")
	for _, tc := range []struct {
		name string
		fail []error
		lost bool
		want error
	}{
		{"works after three failures", []error{full, full, full}, false, nil},
		{"gives up after four", []error{full, full, full, full}, false, full},
		{"an unknown outcome that took place is not written twice", []error{unknown}, true, nil},
		{"a lost claim is not tried again", []error{td.Errorf(td.Fenced, "lost")}, false, td.Errorf(td.Fenced, "lost")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s, j := open(t, time.Now)
				s.fail, s.lost = tc.fail, tc.lost
				err := l.Append(t.Context(), td.Said{Text: "hello", By: "me"})
				if (err == nil) != (tc.want == nil) || tc.want != nil && td.KindOf(err) != td.KindOf(tc.want) {
					t.Errorf("error %v, want %v", err, tc.want)
				}
				n := 0
				for _, e := range events(t, j, l.Task().ID) {
					if e == (td.Said{}).Type() {
						n++
					}
				}
				if want := map[bool]int{true: 1, false: 0}[tc.want == nil]; n != want {
					t.Errorf("recorded %d times, want %d", n, want)
				}
			})
		})
	}
}

// A clock that is set back does not make a task's history run backwards.
func TestClockSetBack(t *testing.T) {
	now := time.Now()
	l, _, j := open(t, func() time.Time { return now })
	for _, jump := range []time.Duration{time.Hour, -24 * time.Hour, time.Minute} {
		now = now.Add(jump)
		if err := l.Append(t.Context(), td.Said{Text: "tick", By: "me"}); err != nil {
			t.Fatal(err)
		}
	}
	var last time.Time
	for ev, err := range j.Read(t.Context(), l.Task().ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.At.Before(last) {
			t.Errorf("event %d is at %s, the one before it at %s", ev.Seq, ev.At, last)
		}
		last = ev.At
	}
}
