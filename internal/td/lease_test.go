package td

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func lockTask(t *testing.T, evs ...Body) Task {
	t.Helper()
	at := time.Unix(1e9, 0).UTC()
	task := NewTask(Spec{ID: "a", Handle: "t-a", Title: "first", CreatedAt: at})
	for _, b := range evs {
		next, err := task.Apply(Event{Seq: task.Head + 1, At: at, Body: b})
		if err != nil {
			t.Fatal(err)
		}
		task = next
	}
	return task
}

func intended(step StepKey, wants ...Want) StepIntended {
	return StepIntended{Intent{Key: step, Kind: ToolStep, Name: "Bash", Wants: wants}}
}

func blockedOn(step StepKey, wants ...Want) Moved {
	return Moved{Verb: VerbBlock, From: Queued, Status: Status{State: Blocked, Blocked: &BlockedData{Step: step, Wants: wants}}}
}

// TestMergesOfTasksThatLieDown: a merge that a crash cut off holds up nobody while its task lies down; what else is in flight may still run.
func TestMergesOfTasksThatLieDown(t *testing.T) {
	want := Want{Resource: MergeResource + "/src/proj:main"}
	for _, kind := range []StepKind{MergeStep, FollowStep, ToolStep} {
		held := lockTask(t, StepIntended{Intent{Key: "s", Kind: kind, Wants: []Want{want}}})
		left := 0
		if kind == ToolStep {
			left = 1
		}
		for verb, state := range map[Verb]State{VerbPause: Paused, VerbBlock: Blocked} {
			next, err := held.Apply(Event{Seq: held.Head + 1, Body: Moved{Verb: verb, From: Queued, Status: Status{State: state}}})
			if err != nil {
				t.Fatal(err)
			}
			if got := len(next.Leases()); got != left || len(next.InFlight) != 1 {
				t.Errorf("%s and then %s: %d leases and %d steps in flight, want %d and 1", kind, state, got, len(next.InFlight), left)
			}
		}
	}
}

// TestLeaseLives: a lease begins with the intent and ends with the step, or with the job it was handed to.
func TestLeaseLives(t *testing.T) {
	x := Want{Resource: "x"}
	held := lockTask(t, intended("s", x))
	for name, c := range map[string]struct {
		then Body
		left int
	}{
		"another step":  {StepEnded{Outcome{Key: "other", Tool: &ToolResult{}}}, 1},
		"its end":       {StepEnded{Outcome{Key: "s", Tool: &ToolResult{}}}, 0},
		"a job":         {StepEnded{Outcome{Key: "s", Tool: &ToolResult{Job: &Job{ID: "j"}}}}, 1},
		"dropped":       {Discarded{}, 0},
		"cancelled":     {Moved{Verb: VerbCancel, From: Queued, Status: Status{State: Cancelled}}, 0},
		"lost":          {RequestOpened{Request{About: AboutUnknown, Step: "s"}}, 0},
		"another asked": {RequestOpened{Request{About: AboutTool, Step: "s"}}, 1},
		"waits":         {blockedOn("s", x), 0},
		"the next try":  {intended("s", x), 1},
	} {
		next, err := held.Apply(Event{Seq: held.Head + 1, Body: c.then})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(next.Leases()); got != c.left {
			t.Errorf("%s leaves %d leases, want %d", name, got, c.left)
		}
		if held.Frees(next) != (c.left == 0) {
			t.Errorf("%s frees something: %v", name, held.Frees(next))
		}
	}
	job := lockTask(t, intended("s", x), StepEnded{Outcome{Key: "s", Tool: &ToolResult{Job: &Job{ID: "j"}}}})
	if l := job.Leases(); len(l) != 1 || l[0].Job != "j" || l[0].Step != "s" || l[0].Name != "Bash" {
		t.Errorf("the job has %+v", l)
	}
	for _, b := range []Body{JobsEnded{Jobs: []JobID{"j"}}, LeasesReturned{Jobs: []JobID{"j"}}} {
		next, err := job.Apply(Event{Seq: job.Head + 1, Body: b})
		if err != nil || len(next.Leases()) > 0 || !job.Frees(next) {
			t.Errorf("after %s it has %+v, %v", b.Type(), next.Leases(), err)
		}
	}
}

// TestPlaceLives: a place is kept on the way to what it is for, and given up by anything else.
func TestPlaceLives(t *testing.T) {
	x := Want{Resource: "x"}
	waits := lockTask(t, blockedOn("s", x))
	unblock := Moved{Verb: VerbUnblock, From: Blocked, Status: Status{State: Queued}}
	start := Moved{Verb: VerbStart, From: Queued, Status: Status{State: Running, Running: &RunningData{Run: "r"}}}
	for name, c := range map[string]struct {
		then []Body
		kept bool
	}{
		"unblocked": {[]Body{unblock}, true},
		"started":   {[]Body{unblock, start}, true},
		"said":      {[]Body{Said{Text: "hello"}}, true},
		"another":   {[]Body{unblock, start, intended("other")}, true},
		"granted":   {[]Body{unblock, start, intended("s", x)}, false},
		"given up":  {[]Body{unblock, start, StepEnded{Outcome{Key: "s", Tool: &ToolResult{}}}}, false},
		"dropped":   {[]Body{Discarded{}}, false},
		"paused":    {[]Body{Moved{Verb: VerbPause, From: Blocked, Status: Status{State: Paused}}}, false},
		"asked":     {[]Body{Moved{Verb: VerbAsk, From: Blocked, Status: Status{State: Waiting}}}, false},
		"cancelled": {[]Body{Moved{Verb: VerbCancel, From: Blocked, Status: Status{State: Cancelled}}}, false},
	} {
		next := waits
		for _, b := range c.then {
			var err error
			if next, err = next.Apply(Event{Seq: next.Head + 1, Body: b}); err != nil {
				t.Fatal(name, err)
			}
		}
		if kept := next.Place != nil; kept != c.kept || waits.Frees(next) == c.kept {
			t.Errorf("%s: kept %v, frees %v", name, kept, waits.Frees(next))
		}
	}
}

func genWants(t *rapid.T) []Want {
	return SortWants(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Want {
		w := Want{Resource: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "resource"), Shared: rapid.Bool().Draw(t, "shared")}
		if w.Shared {
			w.Capacity = rapid.IntRange(0, 3).Draw(t, "capacity")
		}
		return w
	}), 1, 4).Draw(t, "wants"))
}

// TestLocksModel: over random schedules no resource has more than anybody on it allows, the first waiter is
// only ever kept waiting by those who have something, and nobody overtakes.
func TestLocksModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Locks
		var ticket uint64
		tasks := rapid.SampledFrom([]TaskID{"t1", "t2", "t3", "t4", "t5", "t6"})
		drop := func(id TaskID) {
			var left []Waiter
			for _, w := range l.Waiters {
				if w.Task != id {
					left = append(left, w)
				}
			}
			l.Waiters = left
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				id, wants := tasks.Draw(t, "task"), genWants(t)
				for _, w := range l.Waiters {
					if w.Task == id {
						wants = w.Wants
					}
				}
				for _, h := range l.Held {
					if h.Task == id {
						t.Skip("it is busy")
					}
				}
				err := l.Free(id, "s", wants)
				if err == nil {
					drop(id)
					for _, w := range wants {
						l.Held = append(l.Held, Lease{Want: w, Task: id, Step: "s"})
					}
					return
				}
				by, is := errors.AsType[*BusyError](err)
				if !is || !IsKind(err, Busy) || by.Own {
					t.Fatalf("refused with %v", err)
				}
				for _, w := range l.Waiters {
					if w.Task == id {
						return
					}
				}
				ticket++
				l.Waiters = append(l.Waiters, Waiter{Place: Place{Step: "s", Wants: wants}, Task: id, Ticket: ticket})
			},
			"end": func(t *rapid.T) {
				id := tasks.Draw(t, "task")
				var left []Lease
				for _, h := range l.Held {
					if h.Task != id {
						left = append(left, h)
					}
				}
				l.Held = left
			},
			"leave": func(t *rapid.T) { drop(tasks.Draw(t, "task")) },
			"": func(t *rapid.T) {
				count, limit := map[string]int{}, map[string]int{}
				for _, h := range l.Held {
					count[h.Resource]++
					if have, is := limit[h.Resource]; !is || h.Limit() < have {
						limit[h.Resource] = h.Limit()
					}
				}
				for r, n := range count {
					if n > limit[r] {
						t.Fatalf("%d have %s, of which %d may", n, r, limit[r])
					}
				}
				if len(l.Held) == 0 && len(l.Waiters) > 0 && len(l.Next()) == 0 {
					t.Fatalf("nobody has anything and nobody may go on: %+v", l.Waiters)
				}
				if len(l.Waiters) > 0 {
					first := l.Waiters[0]
					if by, is := errors.AsType[*BusyError](l.Free(first.Task, first.Step, first.Wants)); is && by.Waits {
						t.Fatalf("the first waits for a waiter: %v", by)
					}
				}
			},
		})
	})
}

func TestSortWants(t *testing.T) {
	got := SortWants([]Want{
		{Resource: "b"}, {Resource: "a", Shared: true}, {Resource: "b", Shared: true}, {Resource: "a", Shared: true, Capacity: 2},
	})
	if d := cmp.Diff([]Want{{Resource: "a", Shared: true, Capacity: 2}, {Resource: "b"}}, got); d != "" {
		t.Error(d)
	}
	if err := CheckWants(got); err != nil {
		t.Error(err)
	}
}
