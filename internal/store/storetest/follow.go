package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// followGapless has writers, followers that join at any time, and one that is stuck.
func followGapless(t *testing.T, f *fixture) {
	const writers, each, followers = 6, 60, 4
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	var seen [followers][]td.Event
	var counts [followers]atomic.Int64
	var all sync.WaitGroup
	follow := func(i int) {
		all.Go(func() {
			for ev, err := range f.Follow(ctx, store.EventFilter{}, 0) {
				if err != nil {
					t.Error(err)
					return
				}
				seen[i] = append(seen[i], f.plain(ev))
				counts[i].Add(1)
			}
		})
	}
	stuck, free := make(chan struct{}), make(chan struct{})
	all.Go(func() {
		for range f.Follow(ctx, store.EventFilter{}, 0) {
			close(stuck)
			<-free
			return
		}
	})
	var writing sync.WaitGroup
	for i := range writers {
		if i < followers {
			follow(i)
		}
		task, c := f.running(name("writer %d", i))
		evs := make([]td.Event, each)
		for j := range evs {
			evs[j] = f.said(name("%d", j))
		}
		writing.Go(func() {
			for _, ev := range evs {
				var err error
				if task, err = f.Append(f.ctx, c, task.Head, ev); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writing.Wait()
	<-stuck
	want := f.all(store.EventFilter{}, 0)
	equal(t, "events", len(want), writers*(each+2))
	for i := range seen {
		eventually(t, "every follower has seen all", func() bool { return int(counts[i].Load()) == len(want) })
	}
	close(free)
	cancel()
	all.Wait()
	for i := range seen {
		equal(t, "what a follower saw", seen[i], want)
	}
	last, err := f.Last(f.ctx)
	must(t, err)
	equal(t, "the last cursor", last, want[len(want)-1].Cursor)
}

func followFilters(t *testing.T, f *fixture) {
	a, b, c := f.ended("a"), f.ended("b"), f.ended("c")
	since := f.tick()
	d := f.ended("d")
	for range 2 { // from memory, then from disk
		all := f.all(store.EventFilter{}, 0)
		check := func(filter store.EventFilter, keep func(td.Event) bool) {
			t.Helper()
			for _, after := range []uint64{0, all[3].Cursor, all[len(all)-2].Cursor, all[len(all)-1].Cursor, all[len(all)-1].Cursor + 9} {
				var want []td.Event
				for _, ev := range all {
					if ev.Cursor > after && keep(ev) {
						want = append(want, ev)
					}
				}
				equal(t, "filtered", f.all(filter, after), want)
			}
		}
		check(store.EventFilter{}, func(td.Event) bool { return true })
		check(store.EventFilter{Tasks: []td.TaskID{b.ID}}, func(ev td.Event) bool { return ev.Task == b.ID })
		check(store.EventFilter{Tasks: []td.TaskID{a.ID, d.ID, td.NewTaskID()}}, func(ev td.Event) bool { return ev.Task == a.ID || ev.Task == d.ID })
		check(store.EventFilter{Tasks: []td.TaskID{td.NewTaskID()}}, func(td.Event) bool { return false })
		check(store.EventFilter{Types: []td.EventType{"moved"}}, func(ev td.Event) bool { return ev.Body.Type() == "moved" })
		check(store.EventFilter{Tasks: []td.TaskID{c.ID}, Types: []td.EventType{"said", "created"}}, func(ev td.Event) bool {
			return ev.Task == c.ID && (ev.Body.Type() == "said" || ev.Body.Type() == "created")
		})
		check(store.EventFilter{Since: since}, func(ev td.Event) bool { return !ev.At.Before(since) })
		f.again()
	}
}

func followEnds(t *testing.T, f *fixture) {
	f.ended("a")
	ctx, cancel := context.WithCancel(f.ctx)
	n := 0
	for _, err := range f.Follow(ctx, store.EventFilter{}, 0) { // the end of ctx is no error
		must(t, err)
		if n++; n == 5 {
			cancel()
		}
	}
	if n < 5 {
		t.Fatalf("saw %d events", n)
	}
	ctx, cancel = context.WithCancel(f.ctx)
	cancel()
	var got error
	for _, err := range f.Follow(ctx, store.EventFilter{NoFuture: true}, 0) {
		got = err
	}
	wantKind(t, got, td.Interrupted) // half of what there is must not look like all of it
	got = nil
	for _, err := range f.Read(ctx, f.all(store.EventFilter{}, 0)[0].Task, 0) {
		got = err
	}
	wantKind(t, got, td.Interrupted)

	ended := make(chan error, 1)
	last, err := f.Last(f.ctx)
	must(t, err)
	go func() {
		var err error
		for _, err = range f.Follow(f.ctx, store.EventFilter{}, last) {
		}
		ended <- err
	}()
	must(t, f.Close())
	select {
	case err := <-ended:
		wantKind(t, err, td.Unavailable)
	case <-time.After(10 * time.Second):
		t.Fatal("a follower outlived the journal")
	}
}

// followPauses tells when all that was at hand has been told, and otherwise does not speak of it.
func followPauses(t *testing.T, f *fixture) {
	f.ended("a")
	all := f.all(store.EventFilter{}, 0)
	ctx, cancel := context.WithTimeout(f.ctx, 20*time.Second)
	defer cancel()
	seen, pauses, more := 0, 0, false
	for ev, err := range f.Follow(ctx, store.EventFilter{Pauses: true}, 0) {
		must(t, err)
		if ev.Body != nil {
			if more = pauses > 0 && seen == len(all); more {
				break // it was written after the pause
			}
			seen++
			continue
		}
		if seen == 0 {
			t.Fatal("a pause with nothing before it")
		}
		if pauses++; seen == len(all) {
			f.ended("b")
		}
	}
	equal(t, "events before the last pause", seen, len(all))
	equal(t, "there was a pause, and more after it", more, true)
	for ev, err := range f.Follow(ctx, store.EventFilter{Pauses: true, Types: []td.EventType{"no such"}, NoFuture: true}, 0) {
		must(t, err)
		t.Errorf("a pause where nothing was told: %+v", ev)
	}
}

// followBehind reads more than any window in memory holds.
func followBehind(t *testing.T, f *fixture) {
	task, c := f.running("long")
	const each, rounds = 500, 20
	for range rounds {
		evs := make([]td.Event, each)
		for i := range evs {
			evs[i] = td.Event{At: f.now, Body: td.Said{Text: "x"}}
		}
		task = f.append(c, task.Head, evs...)
	}
	next := uint64(1)
	for ev, err := range f.Follow(f.ctx, store.EventFilter{Tasks: []td.TaskID{task.ID}}, 0) {
		must(t, err)
		if ev.Seq != next {
			t.Fatalf("event %d follows %d", ev.Seq, next-1)
		}
		if next++; next > task.Head {
			break
		}
	}
	for range 2 {
		equal(t, "of all tasks", len(f.all(store.EventFilter{}, 0)), int(task.Head))
		equal(t, "of one type", len(f.all(store.EventFilter{Types: []td.EventType{"said"}}, 0)), each*rounds)
		f.again()
	}
	equal(t, "from a cursor", len(f.all(store.EventFilter{}, task.Head-10)), 10)
	equal(t, "by task", len(f.read(task.ID, 5)), each*rounds+2-5)
}
