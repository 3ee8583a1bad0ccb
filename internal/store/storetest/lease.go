package storetest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskdaemon/internal/td"
)

func alone(names ...string) (out []td.Want) {
	for _, n := range names {
		out = append(out, td.Want{Resource: n})
	}
	return out
}

func shared(name string, capacity int) []td.Want {
	return []td.Want{{Resource: name, Shared: true, Capacity: capacity}}
}

func (f *fixture) intent(step string, wants []td.Want) td.Event {
	return td.Event{At: f.tick(), Body: td.StepIntended{Intent: td.Intent{
		Key: td.StepKey(step), Kind: td.ToolStep, Name: "Bash", Effect: td.Opaque, Wants: wants,
	}}}
}

func (f *fixture) outcome(step string, res td.ToolResult) td.Event {
	return td.Event{At: f.tick(), Body: td.StepEnded{Outcome: td.Outcome{Key: td.StepKey(step), Via: td.Ran, Tool: &res}}}
}

// blocked lets a running task wait for what its step wants.
func (f *fixture) blocked(c td.Claim, t td.Task, step string, wants []td.Want) td.Task {
	f.t.Helper()
	return f.move(c, t, func(t td.Task, at time.Time) (td.Move, error) {
		return td.BlockOn(t, td.BlockedData{Cause: "waits", Resource: wants[0].Resource, Step: td.StepKey(step), Wants: wants}, at)
	})
}

// unblocked lets it run again.
func (f *fixture) unblocked(c td.Claim, t td.Task) td.Task {
	f.t.Helper()
	t = f.move(c, t, func(t td.Task, at time.Time) (td.Move, error) { return td.Unblock(t, "free", at) })
	return f.move(c, t, func(t td.Task, at time.Time) (td.Move, error) { return td.Start(t, td.NewRunID(), at) })
}

func (f *fixture) locks() td.Locks {
	f.t.Helper()
	l, err := f.Locks(f.ctx)
	must(f.t, err)
	return l
}

func (f *fixture) wantBusy(err error, by td.Task) {
	f.t.Helper()
	wantKind(f.t, err, td.Busy)
	b, is := errors.AsType[*td.BusyError](err)
	if !is || b.Task != by.ID || b.Handle != by.Handle {
		f.t.Fatalf("got %v, want it to name %s", err, by.Handle)
	}
}

func held(l td.Locks) (out []string) {
	for _, h := range l.Held {
		out = append(out, h.Handle+" "+h.Resource+" "+h.Mode())
	}
	return out
}

func leaseExclusive(t *testing.T, f *fixture) {
	a, ca := f.running("a")
	b, cb := f.running("b")
	a = f.append(ca, a.Head, f.intent("s1", alone("build", "port")))
	equal(t, "held", held(f.locks()), []string{a.Handle + " build exclusive", a.Handle + " port exclusive"})
	// All of it or nothing: what is free of it is not taken.
	said := f.said("before")
	_, err := f.Append(f.ctx, cb, b.Head, said, f.intent("s1", alone("disk", "port")))
	f.wantBusy(err, a)
	equal(t, "head after a refusal", f.task(b.ID).Head, b.Head)
	equal(t, "held after a refusal", len(f.locks().Held), 2)
	b = f.append(cb, b.Head, f.intent("s0", alone("disk")))
	f.again()
	_, err = f.Append(f.ctx, cb, b.Head, f.intent("s1", shared("port", 0)))
	f.wantBusy(err, a)
	f.append(ca, a.Head, f.outcome("s1", td.ToolResult{Content: "ok"}))
	b = f.append(cb, b.Head, f.intent("s1", alone("port")))
	equal(t, "held in the end", held(f.locks()), []string{b.Handle + " disk exclusive", b.Handle + " port exclusive"})
	f.sound()
}

func leaseCapacity(t *testing.T, f *fixture) {
	var last td.Task
	for i := range 3 {
		task, c := f.running(name("t%d", i))
		_, err := f.Append(f.ctx, c, task.Head, f.intent("s", shared("build", 2)))
		if i < 2 {
			must(t, err)
			last = task
			continue
		}
		f.wantBusy(err, last)
		_, err = f.Append(f.ctx, c, task.Head, f.intent("s", alone("build")))
		f.wantBusy(err, last)
		// A capacity that was made smaller counts for everyone.
		_, err = f.Append(f.ctx, c, task.Head, f.intent("s", shared("build", 1)))
		f.wantBusy(err, last)
		// One that was made larger counts when those who got it under the old one are through.
		_, err = f.Append(f.ctx, c, task.Head, f.intent("s", shared("build", 3)))
		f.wantBusy(err, last)
	}
	for i := range 5 {
		task, c := f.running(name("reader%d", i))
		f.append(c, task.Head, f.intent("s", shared("file", 0)))
	}
	equal(t, "leases", len(f.locks().Held), 2+5)
	f.sound()
}

func leaseFences(t *testing.T, f *fixture) {
	a, ca := f.running("a")
	newest := uint64(0)
	grant := func(step string) {
		t.Helper()
		a = f.append(ca, a.Head, f.intent(step, alone("build")))
		got := f.locks().Held[0].Fence
		if got <= newest {
			t.Fatalf("fence %d follows %d", got, newest)
		}
		newest = got
	}
	grant("s1")
	grant("s1") // the next attempt at the same step
	f.again()
	equal(t, "fence after a restart", f.locks().Held[0].Fence, newest)
	a = f.append(ca, a.Head, f.said("something else"))
	equal(t, "fence after another event", f.locks().Held[0].Fence, newest)
	// A background job has what its call had, with the same fence.
	a = f.append(ca, a.Head, f.outcome("s1", td.ToolResult{Job: &td.Job{ID: "j1", Command: "serve", Since: f.tick()}}))
	l := f.locks()
	equal(t, "fence of the job", l.Held[0].Fence, newest)
	equal(t, "job", l.Held[0].Job, "j1")
	_, err := f.Append(f.ctx, ca, a.Head, f.intent("s2", alone("build")))
	f.wantBusy(err, a)
	if b, is := errors.AsType[*td.BusyError](err); !is || !b.Own {
		t.Errorf("%v does not say that it is the task's own", err)
	}
	a = f.append(ca, a.Head, td.Event{At: f.tick(), Body: td.JobsEnded{Jobs: []td.JobID{"j1"}}})
	grant("s2")
	f.sound()
}

// leaseEnds: every way a step stops being in flight gives back what it had.
func leaseEnds(t *testing.T, f *fixture) {
	ends := map[string]func(c td.Claim, t td.Task) td.Task{
		"cancel": func(c td.Claim, t td.Task) td.Task {
			return f.move(c, t, func(t td.Task, at time.Time) (td.Move, error) { return td.Cancel(t, "", at) })
		},
		"fail": func(c td.Claim, t td.Task) td.Task {
			return f.move(c, t, func(t td.Task, at time.Time) (td.Move, error) { return td.Fail(t, td.FailedData{}, at) })
		},
		"retry": func(c td.Claim, t td.Task) td.Task {
			return f.append(c, t.Head, td.Event{At: f.tick(), Body: td.Discarded{}})
		},
		"unknown": func(c td.Claim, t td.Task) td.Task {
			return f.move(c, t, func(t td.Task, at time.Time) (td.Move, error) {
				return td.Ask(t, td.Request{ID: td.NewRequestID(), Kind: td.AskQuestion, About: td.AboutUnknown, Step: "s"}, at)
			})
		},
		"waits": func(c td.Claim, t td.Task) td.Task { return f.blocked(c, t, "s", alone("build")) },
	}
	for how, end := range ends {
		task, c := f.running(how)
		task = f.append(c, task.Head, f.intent("s", alone("build")))
		equal(t, "held before "+how, len(f.locks().Held), 1)
		task = end(c, task)
		equal(t, "held after "+how, len(f.locks().Held), 0)
		f.sound()
		if !task.Status.State.Terminal() {
			f.move(c, task, func(t td.Task, at time.Time) (td.Move, error) { return td.Cancel(t, "", at) })
		}
	}
	// What only interrupts leaves the step in flight, and so what it has.
	task, c := f.running("interrupted")
	task = f.append(c, task.Head, f.intent("s", alone("build")))
	task = f.move(c, task, func(t td.Task, at time.Time) (td.Move, error) { return td.Recover(t, "died", at) })
	must(t, f.Release(f.ctx, c))
	f.again()
	equal(t, "held after a recovery", len(f.locks().Held), 1)
	f.sound()
}

// leaseQueue: who waits keeps its place over restarts, and nobody overtakes.
func leaseQueue(t *testing.T, f *fixture) {
	a, ca := f.running("a")
	b, cb := f.running("b")
	c, cc := f.running("c")
	d, cd := f.running("d")
	a = f.append(ca, a.Head, f.intent("s", shared("file", 0)))
	b = f.blocked(cb, b, "s", alone("file"))
	f.again()
	// A reader would get in beside a, but the writer came first.
	_, err := f.Append(f.ctx, cc, c.Head, f.intent("s", shared("file", 0)))
	f.wantBusy(err, b)
	c = f.blocked(cc, c, "s", shared("file", 0))
	d = f.blocked(cd, d, "s", alone("disk", "file"))
	equal(t, "next while it is held", f.locks().Next(), []td.TaskID(nil))
	f.append(ca, a.Head, f.outcome("s", td.ToolResult{}))
	equal(t, "next", f.locks().Next(), []td.TaskID{b.ID})
	// It keeps its place until it has what it wants, whatever else it does.
	b = f.unblocked(cb, b)
	_, err = f.Append(f.ctx, cc, c.Head, f.intent("s", shared("file", 0)))
	f.wantBusy(err, b)
	b = f.append(cb, b.Head, f.intent("s", alone("file")))
	equal(t, "waiters", len(f.locks().Waiters), 2)
	b = f.append(cb, b.Head, f.outcome("s", td.ToolResult{}))
	equal(t, "next after it", f.locks().Next(), []td.TaskID{c.ID})
	f.again()
	first := f.locks().Waiters[0]
	equal(t, "first waiter", first.Task, c.ID)
	// Waiting again for the same step keeps ticket and time; a pause gives them up.
	c = f.unblocked(cc, c)
	c = f.blocked(cc, c, "s", shared("file", 0))
	again := f.locks().Waiters[0]
	equal(t, "its ticket", again.Ticket, first.Ticket)
	equal(t, "since", again.Since, first.Since)
	f.move(cc, c, func(t td.Task, at time.Time) (td.Move, error) { return td.Pause(t, "", "", at) })
	equal(t, "next after a pause", f.locks().Next(), []td.TaskID{d.ID})
	// What excludes nobody who came first may go ahead.
	f.append(cb, b.Head, f.intent("s2", alone("elsewhere")))
	f.sound()
}

func leaseRefused(t *testing.T, f *fixture) {
	a, ca := f.running("a")
	for what, wants := range map[string][]td.Want{
		"no name":               alone(""),
		"twice":                 alone("x", "x"),
		"out of order":          alone("y", "x"),
		"negative capacity":     shared("x", -1),
		"alone with a capacity": {{Resource: "x", Capacity: 2}},
	} {
		_, err := f.Append(f.ctx, ca, a.Head, f.intent("s", wants))
		if !td.IsKind(err, td.Invalid) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	_, err := f.Append(f.ctx, td.Claim{Task: td.NewTaskID(), Epoch: 1}, 0, f.intent("s", alone("x")))
	wantKind(t, err, td.NotFound)
	must(t, f.Release(f.ctx, ca))
	_, err = f.Append(f.ctx, ca, a.Head, f.intent("s", alone("x")))
	wantKind(t, err, td.Fenced)
	equal(t, "held", len(f.locks().Held), 0)
}

// leaseRepeated: an append whose outcome was not known is made again without standing in its own way.
func leaseRepeated(t *testing.T, f *fixture) {
	a, ca := f.running("a")
	ev := f.intent("s", alone("x"))
	once := f.append(ca, a.Head, ev)
	twice := f.append(ca, a.Head, ev)
	equal(t, "head", twice.Head, once.Head)
	equal(t, "held", len(f.locks().Held), 1)
}

// leaseRace: of many that want one thing at once as many get it as may.
func leaseRace(t *testing.T, f *fixture) {
	const tasks, capacity = 20, 3
	type runner struct {
		task  td.Task
		claim td.Claim
		ev    td.Event
	}
	var runners []runner
	for i := range tasks {
		task, c := f.running(name("r%d", i))
		runners = append(runners, runner{task, c, f.intent("s", shared("build", capacity))})
	}
	var got atomic.Int64
	var wg sync.WaitGroup
	for _, r := range runners {
		wg.Go(func() {
			_, err := f.Append(f.ctx, r.claim, r.task.Head, r.ev)
			if err == nil {
				got.Add(1)
			} else if !td.IsKind(err, td.Busy) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	equal(t, "grants", got.Load(), int64(capacity))
	fences := map[uint64]bool{}
	for _, l := range f.locks().Held {
		fences[l.Fence] = true
	}
	equal(t, "fences", len(fences), capacity)
	f.sound()
}

// leaseTogether: several intents of one append are granted one after the other.
func leaseTogether(t *testing.T, f *fixture) {
	a, ca := f.running("a")
	_, err := f.Append(f.ctx, ca, a.Head, f.intent("s1", alone("x")), f.intent("s2", alone("x")))
	f.wantBusy(err, a)
	a = f.append(ca, a.Head, f.intent("s1", shared("x", 0)), f.intent("s2", shared("x", 0)))
	equal(t, "held", len(f.locks().Held), 2)
	// One ends and the next begins in one append.
	a = f.append(ca, a.Head, f.outcome("s1", td.ToolResult{}), f.outcome("s2", td.ToolResult{}), f.intent("s3", alone("x")))
	equal(t, "held", held(f.locks()), slices.Repeat([]string{a.Handle + " x exclusive"}, 1))
	f.sound()
}

// leaseModel runs random schedules of tasks that take, wait, end and give up, with restarts, and compares
// what is granted with what a model of its own allows.
func leaseModel(t *testing.T, open Open) {
	rapid.Check(t, func(r *rapid.T) {
		f := newFixture(t, open)
		defer func() {
			if err := f.Close(); err != nil {
				r.Fatal(err)
			}
		}()
		m := &leaseMachine{f: f}
		for i := range 4 {
			task, c := f.running(name("m%d", i))
			m.tasks = append(m.tasks, &leaseTask{Task: task, claim: c})
		}
		r.Repeat(map[string]func(*rapid.T){
			"take":   m.take,
			"end":    m.end,
			"leave":  m.leave,
			"reopen": func(*rapid.T) { f.again() },
			"":       m.check,
		})
	})
}

type leaseTask struct {
	td.Task
	claim td.Claim
	step  int
	has   []td.Want
	waits []td.Want
}

type leaseMachine struct {
	f     *fixture
	tasks []*leaseTask
	queue []*leaseTask
	fence map[string]uint64
}

func (m *leaseMachine) pick(r *rapid.T) *leaseTask { return rapid.SampledFrom(m.tasks).Draw(r, "task") }

// free is the rule in the simplest form: with all that have it and all that came first there is still room.
func (m *leaseMachine) free(t *leaseTask) bool {
	for _, want := range t.waits {
		have, most := 0, want.Limit()
		count := func(wants []td.Want) {
			for _, w := range wants {
				if w.Resource == want.Resource {
					have, most = have+1, min(most, w.Limit())
				}
			}
		}
		for _, o := range m.tasks {
			count(o.has)
		}
		for _, o := range m.queue {
			if o == t {
				break
			}
			count(o.waits)
		}
		if have >= most {
			return false
		}
	}
	return true
}

func (m *leaseMachine) take(r *rapid.T) {
	t := m.pick(r)
	if t.has != nil {
		r.Skip("it has something")
	}
	queued := slices.Contains(m.queue, t)
	if !queued {
		t.waits = nil
		for _, n := range []string{"a", "b"} {
			switch rapid.IntRange(0, 3).Draw(r, n) {
			case 1:
				t.waits = append(t.waits, alone(n)...)
			case 2:
				t.waits = append(t.waits, shared(n, 0)...)
			case 3:
				t.waits = append(t.waits, shared(n, 2)...)
			}
		}
		if t.waits == nil {
			r.Skip("it wants nothing")
		}
	}
	want := m.free(t)
	if queued {
		t.Task = m.f.unblocked(t.claim, t.Task)
	}
	step := name("s%d", t.step)
	got, err := m.f.Append(m.f.ctx, t.claim, t.Head, m.f.intent(step, t.waits))
	switch {
	case err == nil && want:
		t.Task, t.has, t.waits = got, t.waits, nil
		m.queue = slices.DeleteFunc(m.queue, func(o *leaseTask) bool { return o == t })
	case td.IsKind(err, td.Busy) && !want:
		t.Task = m.f.blocked(t.claim, t.Task, step, t.waits)
		if !queued {
			m.queue = append(m.queue, t)
		}
	default:
		r.Fatalf("%s wants %v: got %v, want it given: %v", t.Title, t.waits, err, want)
	}
}

func (m *leaseMachine) end(r *rapid.T) {
	t := m.pick(r)
	if t.has == nil {
		r.Skip("it has nothing")
	}
	t.Task = m.f.append(t.claim, t.Head, m.f.outcome(name("s%d", t.step), td.ToolResult{}))
	t.has, t.step = nil, t.step+1
}

// leave lets a person pause the task while it waits, and resume it.
func (m *leaseMachine) leave(r *rapid.T) {
	t := m.pick(r)
	if !slices.Contains(m.queue, t) {
		r.Skip("it does not wait")
	}
	for _, move := range []func(td.Task, time.Time) (td.Move, error){
		func(t td.Task, at time.Time) (td.Move, error) { return td.Pause(t, "", "", at) },
		td.Resume,
		func(t td.Task, at time.Time) (td.Move, error) { return td.Start(t, td.NewRunID(), at) },
	} {
		t.Task = m.f.move(t.claim, t.Task, move)
	}
	m.queue = slices.DeleteFunc(m.queue, func(o *leaseTask) bool { return o == t })
}

func (m *leaseMachine) check(r *rapid.T) {
	l := m.f.locks()
	held := 0
	for _, t := range m.tasks {
		held += len(t.has)
	}
	if len(l.Held) != held || len(l.Waiters) != len(m.queue) {
		r.Fatalf("%d leases and %d waiters, want %d and %d", len(l.Held), len(l.Waiters), held, len(m.queue))
	}
	for i, w := range l.Waiters {
		if w.Task != m.queue[i].ID {
			r.Fatalf("%s is number %d in the queue", w.Title, i)
		}
	}
	if m.fence == nil {
		m.fence = map[string]uint64{}
	}
	for _, h := range l.Held {
		if h.Fence < m.fence[h.Resource] && h.Limit() == 1 {
			r.Fatalf("fence %d of %s follows %d", h.Fence, h.Resource, m.fence[h.Resource])
		}
		m.fence[h.Resource] = max(m.fence[h.Resource], h.Fence)
	}
}
