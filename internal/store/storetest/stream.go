package storetest

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

func createOnce(t *testing.T, f *fixture) {
	s := spec("once", f.tick())
	first, err := f.Create(f.ctx, s, "k")
	must(t, err)
	if first.Status.State != td.Queued || first.Head != 1 {
		t.Fatalf("got %s at head %d, want queued at 1", first.Status.State, first.Head)
	}
	for range 2 {
		again, err := f.Create(f.ctx, spec("another", f.tick()), "k")
		must(t, err)
		equal(t, "the same key", again, first)
		equal(t, "events", len(f.all(store.EventFilter{}, 0)), 1)
		f.again()
	}
	equal(t, "the task", f.task(s.ID), first)
	_, err = f.Create(f.ctx, s, "other key")
	wantKind(t, err, td.Conflict)
	if _, err := f.Create(f.ctx, spec("no key", f.tick()), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Create(f.ctx, spec("no key either", f.tick()), ""); err != nil {
		t.Fatal(err)
	}
	f.sound()
}

func createHandle(t *testing.T, f *fixture) {
	taken := map[string]bool{}
	first := spec("first", f.tick())
	for i := range 8 {
		s := spec("next", f.tick())
		// The same random tail, so that every length of the handle collides in turn.
		s.ID = s.ID[:19] + first.ID[19:]
		s.Handle = td.Handle(td.TaskHandle, string(s.ID), td.HandleLength)
		task, err := f.Create(f.ctx, s, "")
		must(t, err)
		if taken[task.Handle] {
			t.Fatalf("the handle %s was given twice", task.Handle)
		}
		taken[task.Handle] = true
		equal(t, "the handle in the record", f.read(s.ID, 0)[0].Body.(td.Created).Spec.Handle, task.Handle)
		if i == 0 {
			equal(t, "a free handle", task.Handle, s.Handle)
		}
		if td.HandleLength+i > td.MaxHandleLength {
			break // from here on it is the whole id
		}
	}
}

func createRefused(t *testing.T, f *fixture) {
	for _, id := range []td.TaskID{"", td.DaemonStream} {
		s := spec("bad", f.tick())
		s.ID = id
		_, err := f.Create(f.ctx, s, "")
		wantKind(t, err, td.Invalid)
	}
	huge := spec("huge", f.tick())
	huge.Prompt = strings.Repeat("x", 17<<20)
	_, err := f.Create(f.ctx, huge, "")
	wantKind(t, err, td.Invalid)
	equal(t, "events", len(f.all(store.EventFilter{}, 0)), 0)
}

func appendKeeps(t *testing.T, f *fixture) {
	task, c := f.running("keeps")
	exit := 3
	local := time.FixedZone("far", 5*3600)
	at := f.tick().In(local)
	bodies := []td.Body{
		td.ContextSet{
			Iteration: 1, Provider: "p", System: "s", Tools: json.RawMessage(`[{"name":"Read"}]`),
			Opening: td.Message{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: "go"}}},
		},
		td.StepIntended{Intent: td.Intent{Key: "m1", Kind: td.ModelStep, Name: "model", Effect: td.Pure}},
		td.StepEnded{Outcome: td.Outcome{Key: "m1", Via: td.Ran, Model: &td.ModelResult{
			Usage: td.Usage{Input: 5, Output: 7}, Cost: 11, Model: "m", StopReason: td.EndTurn,
		}}},
		td.StepIntended{Intent: td.Intent{Key: "t1", Kind: td.ToolStep, Name: "Bash", Effect: td.Opaque}},
		td.StepEnded{Outcome: td.Outcome{Key: "t1", Via: td.Adopted, Tool: &td.ToolResult{Content: "x", Exit: &exit}}},
		td.Said{Text: "hello", By: "me"},
		td.Decided{Step: "t1", Tool: "Bash", Decision: "allow", Rule: "r"},
		td.ModelChosen{Model: "other"},
		td.JobsEnded{Jobs: []td.JobID{"j"}},
	}
	var want []td.Event
	evs := make([]td.Event, len(bodies))
	for i, b := range bodies {
		evs[i] = td.Event{At: at, Body: b}
		want = append(want, td.Event{Seq: task.Head + uint64(i) + 1, Task: task.ID, At: at.UTC(), Body: b})
	}
	after := task.Head
	got := f.append(c, after, evs...)
	if got.Turns != 1 || got.Cost != 11 || got.ModelOverride != "other" || len(got.InFlight) != 0 {
		t.Fatalf("folded wrongly: %+v", got.Live)
	}
	for range 2 {
		read := f.read(task.ID, after)
		for i := range read {
			if read[i].Cursor == 0 || i > 0 && read[i].Cursor <= read[i-1].Cursor {
				t.Fatalf("cursor %d follows %d", read[i].Cursor, read[max(i, 1)-1].Cursor)
			}
			if !read[i].At.Equal(at) || read[i].At.Location() != time.UTC {
				t.Fatalf("got the time %v, want %v in UTC", read[i].At, at)
			}
			read[i].Cursor = 0
		}
		equal(t, "events", read, want)
		equal(t, "the task", f.task(task.ID), got)
		f.again()
	}
	f.sound()
}

func appendAllOrNone(t *testing.T, f *fixture) {
	task, c := f.running("whole")
	before := f.all(store.EventFilter{}, 0)
	bad := td.Event{At: f.tick(), Body: td.Moved{Verb: td.VerbResume, From: td.Paused, Status: td.Status{State: td.Queued}}}
	_, err := f.Append(f.ctx, c, task.Head, f.said("first"), bad, f.said("last"))
	wantKind(t, err, td.Conflict)
	equal(t, "events", f.all(store.EventFilter{}, 0), before)
	equal(t, "the task", f.task(task.ID), task)
	f.append(c, task.Head, f.said("goes on"))
	f.sound()
}

func appendRefused(t *testing.T, f *fixture) {
	task, c := f.running("refused")
	other := f.create("other")
	try := func(kind td.Kind, c td.Claim, after uint64, evs ...td.Event) {
		t.Helper()
		_, err := f.Append(f.ctx, c, after, evs...)
		wantKind(t, err, kind)
	}
	try(td.Invalid, c, task.Head)
	try(td.Invalid, c, task.Head, td.Event{At: f.tick()})
	try(td.Invalid, c, task.Head, td.Event{At: f.tick(), Body: td.Trimmed{Was: "said"}})
	try(td.Invalid, c, task.Head, td.Event{At: f.tick(), Body: td.Unreadable{Was: "said"}})
	try(td.Invalid, c, task.Head, td.Event{Task: other.ID, At: f.tick(), Body: td.Said{}})
	try(td.Invalid, c, task.Head, td.Event{At: time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC), Body: td.Said{}})
	try(td.Invalid, c, task.Head, td.Event{At: f.tick(), Body: td.ContextSet{Tools: json.RawMessage("{not json")}})
	try(td.Conflict, c, task.Head, td.Event{At: f.tick(), Body: td.Created{Spec: task.Spec}})
	try(td.Conflict, c, task.Head-1, f.said("too old"))
	try(td.Conflict, c, task.Head+1, f.said("too new"))
	try(td.NotFound, td.Claim{Task: td.NewTaskID(), Epoch: 1}, 0, f.said("nowhere"))
	try(td.Fenced, td.Claim{Task: other.ID}, other.Head, f.said("never claimed"))
	for _, verb := range []td.Verb{td.VerbStart, td.VerbAnswer, td.VerbResume, td.VerbReset} {
		try(td.Conflict, c, task.Head, td.Event{At: f.tick(), Body: td.Moved{Verb: verb, From: td.Running, Status: td.Status{State: td.Queued}}})
	}
	equal(t, "the task", f.task(task.ID), task)
	for ev, err := range f.Read(f.ctx, td.NewTaskID(), 0) {
		wantKind(t, err, td.NotFound)
		equal(t, "no event", ev, td.Event{})
	}
	f.sound()
}

func appendRepeated(t *testing.T, f *fixture) {
	task, c := f.running("repeated")
	evs := []td.Event{f.said("one"), f.said("two")}
	want := f.append(c, task.Head, evs...)
	count := len(f.all(store.EventFilter{}, 0))
	for range 2 {
		equal(t, "the repeated append", f.append(c, task.Head, evs...), want)
		f.again()
	}
	later := f.append(c, want.Head, f.said("three"))
	equal(t, "repeated after more", f.append(c, task.Head, evs...).Head, later.Head)
	equal(t, "events", len(f.all(store.EventFilter{}, 0)), count+1)

	differs := func(evs ...td.Event) {
		t.Helper()
		_, err := f.Append(f.ctx, c, task.Head, evs...)
		wantKind(t, err, td.Conflict)
	}
	other := evs[1]
	other.Body = td.Said{Text: "two!", By: "test"}
	differs(evs[0], other)
	other = evs[1]
	other.At = other.At.Add(1)
	differs(evs[0], other)
	differs(evs[1])
	differs(evs[0], evs[1], f.said("three"))
	differs(evs[0], evs[1], f.said("three"), f.said("four"))
	next := f.claim(task.ID, 1)
	_, err := f.Append(f.ctx, c, task.Head, evs...)
	wantKind(t, err, td.Fenced)
	_, err = f.Append(f.ctx, next, task.Head, evs...)
	wantKind(t, err, td.Conflict)
	f.sound()
}

func appendLarge(t *testing.T, f *fixture) {
	task, c := f.running("large")
	after := task.Head
	big := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	edge := strings.Repeat("x", 64<<10)
	evs := []td.Event{f.said(big), f.said("small"), f.said(edge), f.said(big)}
	task = f.append(c, task.Head, evs...)
	f.append(c, after, evs...)
	for range 2 {
		read := f.read(task.ID, after)
		equal(t, "how many", len(read), 4)
		for i, ev := range read {
			if ev.Body.(td.Said).Text != evs[i].Body.(td.Said).Text {
				t.Fatalf("event %d came back changed", i)
			}
		}
		f.again()
	}
	f.sound()
}

func appendOdd(t *testing.T, f *fixture) {
	task, c := f.running("odd")
	after := task.Head
	evs := []td.Event{
		{At: f.tick(), Body: td.Said{Text: "nul \x00 and broken \xff\xfe utf-8 <&> \u2028"}},
		{Body: td.Said{Text: "no time"}},
		{At: time.Unix(0, -1), Body: td.Said{Text: "before 1970"}},
		{At: time.Date(1980, 1, 1, 0, 0, 0, 1, time.UTC), Body: td.Said{}},
	}
	live := make(chan []td.Event, 1)
	go func() {
		var got []td.Event
		for ev, err := range f.Follow(f.ctx, store.EventFilter{Tasks: []td.TaskID{task.ID}, Types: []td.EventType{"said"}}, 0) {
			if err != nil {
				break
			}
			if got = append(got, f.plain(ev)); len(got) == len(evs) {
				break
			}
		}
		live <- got
	}()
	f.append(c, task.Head, evs...)
	read := f.read(task.ID, after)
	equal(t, "what a follower saw", <-live, read)
	for i, ev := range read {
		if !ev.At.Equal(evs[i].At) {
			t.Errorf("event %d has the time %v, want %v", i, ev.At, evs[i].At)
		}
	}
	if s := read[0].Body.(td.Said).Text; !strings.HasPrefix(s, "nul \x00 and broken ") || !strings.HasSuffix(s, "utf-8 <&> \u2028") {
		t.Errorf("got %q", s)
	}
	f.sound()
}

func appendConcurrent(t *testing.T, f *fixture) {
	const tasks, each = 24, 40
	var wg sync.WaitGroup
	ids := make([]td.TaskID, tasks)
	for i := range tasks {
		task, c := f.running(name("task %d", i))
		ids[i] = task.ID
		evs := make([]td.Event, each)
		for j := range evs {
			evs[j] = f.said(name("%d", j))
		}
		wg.Go(func() {
			for _, ev := range evs {
				var err error
				// A refused append beside it must not spoil the others of its group.
				if _, err = f.Append(f.ctx, c, task.Head+1, ev); !td.IsKind(err, td.Conflict) {
					t.Errorf("an append after the wrong head gave %v", err)
				}
				if task, err = f.Append(f.ctx, c, task.Head, ev); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		read := f.read(id, 2)
		equal(t, "how many", len(read), each)
		for j, ev := range read {
			if ev.Seq != uint64(j)+3 || ev.Body.(td.Said).Text != name("%d", j) {
				t.Fatalf("got %+v at %d", ev, j)
			}
		}
	}
	f.sound()
}

func appendCancelled(t *testing.T, f *fixture) {
	task, c := f.running("cancelled")
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err := f.Append(ctx, c, task.Head, f.said("never"))
	if err == nil { // it was quicker than the cancellation: then it counts
		equal(t, "the head", f.task(task.ID).Head, task.Head+1)
		return
	}
	wantKind(t, err, td.Interrupted)
	equal(t, "the task", f.task(task.ID), task)
}

func daemonStream(t *testing.T, f *fixture) {
	d := f.task(td.DaemonStream)
	equal(t, "its head", d.Head, 0)
	c := f.claim(td.DaemonStream, 1)
	d = f.append(c, 0, td.Event{At: f.tick(), Body: td.DaemonStarted{Version: "1", Holder: holder(1)}})
	_, err := f.Append(f.ctx, c, d.Head, td.Event{At: f.tick(), Body: td.Moved{Verb: td.VerbStart, Status: td.Status{State: td.Running}}})
	wantKind(t, err, td.Conflict)
	zombie := c
	c = f.claim(td.DaemonStream, 1)
	_, err = f.Append(f.ctx, zombie, d.Head, td.Event{At: f.tick(), Body: td.DaemonStopped{}})
	wantKind(t, err, td.Fenced)
	f.append(c, d.Head, td.Event{At: f.tick(), Body: td.DaemonStopped{}})
	f.again()
	equal(t, "events", len(f.read(td.DaemonStream, 0)), 2)
	equal(t, "its head", f.task(td.DaemonStream).Head, 2)

	list, err := f.Tasks(f.ctx, store.TaskFilter{})
	must(t, err)
	counts, err := f.Counts(f.ctx)
	must(t, err)
	if len(list)+len(counts) > 0 {
		t.Fatalf("it is listed among the tasks: %v %v", list, counts)
	}
	_, err = f.Resolve(f.ctx, string(td.DaemonStream))
	wantKind(t, err, td.NotFound)
	f.sound()
}

func closed(t *testing.T, f *fixture) {
	task, c := f.running("closed")
	must(t, f.Close())
	_, err := f.Append(f.ctx, c, task.Head, f.said("late"))
	wantKind(t, err, td.Unavailable)
	_, err = f.Create(f.ctx, spec("late", f.tick()), "")
	wantKind(t, err, td.Unavailable)
	_, err = f.Task(f.ctx, task.ID)
	wantKind(t, err, td.Unavailable)
	_, err = f.Last(f.ctx)
	wantKind(t, err, td.Unavailable)
	_, err = f.Take(f.ctx, c)
	wantKind(t, err, td.Unavailable)
	_, err = f.Renew(f.ctx, holder(1))
	wantKind(t, err, td.Unavailable)
	for _, err := range f.Follow(f.ctx, store.EventFilter{}, 0) {
		wantKind(t, err, td.Unavailable)
	}
	wantKind(t, f.Close(), td.Unavailable)
}
