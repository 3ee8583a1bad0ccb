package bus_test

import (
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"taskdaemon/internal/bus"
	"taskdaemon/internal/td"
)

func entries(size int, cursors ...uint64) []bus.Entry {
	var out []bus.Entry
	for _, c := range cursors {
		out = append(out, bus.Entry{Record: td.Record{Event: td.Event{Cursor: c, Body: td.Said{}}}, Size: size})
	}
	return out
}

func wantAfter(t *testing.T, b *bus.Bus, cursor uint64, complete bool, want ...uint64) {
	t.Helper()
	look := b.After(cursor, bus.Wanted{}, 100)
	evs, wait := look.Events, look.Wait
	if got := look.Complete; got != complete {
		t.Fatalf("after %d: complete is %v", cursor, got)
	}
	if len(evs) != len(want) {
		t.Fatalf("after %d: %d events, want %d", cursor, len(evs), len(want))
	}
	for i, ev := range evs {
		if ev.Cursor != want[i] {
			t.Fatalf("after %d: got %d at %d, want %d", cursor, ev.Cursor, i, want[i])
		}
	}
	if (wait != nil) != (complete && len(want) == 0) {
		t.Fatalf("after %d: something to wait for: %v", cursor, wait != nil)
	}
}

func TestBusKeepsTheNewest(t *testing.T) {
	b := bus.New(4, 1000, 10)
	wantAfter(t, b, 9, false) // older than the bus
	wantAfter(t, b, 10, true)
	b.Publish(entries(1, 11, 12, 15))
	wantAfter(t, b, 10, true, 11, 12, 15)
	wantAfter(t, b, 12, true, 15)
	wantAfter(t, b, 14, true, 15)
	wantAfter(t, b, 15, true)
	b.Publish(entries(1, 16, 17, 18))
	wantAfter(t, b, 11, false)
	wantAfter(t, b, 12, true, 15, 16, 17, 18)
	if b.Last() != 18 {
		t.Fatalf("last is %d", b.Last())
	}
	if look := b.After(12, bus.Wanted{}, 2); len(look.Events) != 2 || look.Events[1].Cursor != 16 || look.UpTo != 16 {
		t.Fatalf("two at most gave %+v", look)
	}
	b.Publish(nil)
	wantAfter(t, b, 18, true)
}

func TestBusIsBoundedInBytes(t *testing.T) {
	b := bus.New(100, 10, 0)
	b.Publish(entries(4, 1, 2, 3))
	wantAfter(t, b, 0, false)
	wantAfter(t, b, 1, true, 2, 3)
	b.Publish(entries(50, 4)) // larger than all: it alone is kept
	wantAfter(t, b, 2, false)
	wantAfter(t, b, 3, true, 4)
	b.Publish(entries(1, 5))
	wantAfter(t, b, 3, false)
	wantAfter(t, b, 4, true, 5)
}

func TestBusWakesEveryFollowerInOrder(t *testing.T) {
	const last, followers = 2000, 8
	b := bus.New(last, 1<<20, 0)
	var wg sync.WaitGroup
	for range followers {
		wg.Go(func() {
			at := uint64(0)
			for at < last {
				look := b.After(at, bus.Wanted{}, 64)
				if !look.Complete {
					t.Error("a follower fell behind a bus that holds all")
					return
				}
				if look.Wait != nil {
					<-look.Wait.More()
					continue
				}
				for _, ev := range look.Events {
					if ev.Cursor != at+1 {
						t.Errorf("event %d follows %d", ev.Cursor, at)
					}
					at = ev.Cursor
				}
			}
		})
	}
	for c := uint64(1); c <= last; c++ {
		b.Publish(entries(1, c))
	}
	wg.Wait()
}

func TestBusWakesWhoFollowsTheTask(t *testing.T) {
	event := func(cursor uint64, task td.TaskID) bus.Entry {
		return bus.Entry{Record: td.Record{Event: td.Event{Cursor: cursor, Task: task, Body: td.Said{}}}, Size: 1}
	}
	woken := func(w *bus.Wait) bool {
		select {
		case <-w.More():
			return true
		default:
			return false
		}
	}
	b := bus.New(4, 1000, 0)
	some := bus.Wanted{Tasks: []td.TaskID{"a", "b"}}
	b.Publish([]bus.Entry{event(1, "a"), event(2, "c"), event(3, "b"), event(4, "c")})
	if look := b.After(0, some, 1); len(look.Events) != 1 || look.Events[0].Cursor != 1 || look.UpTo != 1 {
		t.Fatalf("one at most gave %+v", look)
	}
	if look := b.After(1, some, 10); len(look.Events) != 1 || look.Events[0].Cursor != 3 || look.UpTo != 4 {
		t.Fatalf("the rest is %+v", look)
	}
	look, left, all := b.After(4, some, 10), b.After(4, some, 10), b.After(4, bus.Wanted{}, 10)
	typed := b.After(4, bus.Wanted{Types: []td.EventType{"moved"}}, 10)
	left.Wait.Leave()
	for c := range uint64(10) { // more than the bus holds
		b.Publish([]bus.Entry{event(5+c, "c")})
	}
	if !woken(all.Wait) || all.Wait.UpTo() != 4 {
		t.Errorf("who follows all sleeps, or woke up at %d", all.Wait.UpTo())
	}
	if woken(look.Wait) {
		t.Error("woken for another's task")
	}
	if woken(typed.Wait) {
		t.Error("woken for another type")
	}
	moved := event(15, "c")
	moved.Body = td.Moved{}
	b.Publish([]bus.Entry{moved})
	if next := b.After(typed.Wait.UpTo(), bus.Wanted{Types: []td.EventType{"moved"}}, 10); !woken(typed.Wait) || len(next.Events) != 1 || next.Events[0].Cursor != 15 {
		t.Errorf("asleep though there is one of its type, or it finds %+v", next)
	}
	b.Publish([]bus.Entry{event(16, "b"), event(17, "a")})
	if !woken(look.Wait) || woken(left.Wait) {
		t.Error("asleep though there is something, or woken after it had left")
	}
	next := b.After(look.Wait.UpTo(), some, 10)
	if !next.Complete || len(next.Events) != 2 || next.Events[0].Cursor != 16 {
		t.Errorf("after the wait there is %+v", next)
	}
}

// A bus finds what going through all events finds, whatever it has let go and whoever is followed.
func TestBusFindsWhatThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 12).Draw(t, "size")
		b := bus.New(size, rapid.IntRange(1, 30).Draw(t, "bytes"), 0)
		tasks := rapid.SampledFrom([]td.TaskID{"a", "b", "c", "d"})
		types := rapid.SampledFrom([]td.Body{td.Said{}, td.Moved{}, td.Ignored{}})
		var all []td.Event
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			var more []bus.Entry
			for range rapid.IntRange(0, 4).Draw(t, "more") {
				ev := td.Event{Cursor: uint64(len(all)) + 1, Task: tasks.Draw(t, "of"), Body: types.Draw(t, "says")}
				all = append(all, ev)
				more = append(more, bus.Entry{Record: td.Record{Event: ev}, Size: rapid.IntRange(1, 9).Draw(t, "bytes")})
			}
			b.Publish(more)
			last := uint64(len(all))
			after, most := rapid.Uint64Range(0, last).Draw(t, "after"), rapid.IntRange(1, 15).Draw(t, "most")
			some := bus.Wanted{Tasks: rapid.SliceOfN(tasks, 0, 5).Draw(t, "follows")}
			for _, body := range rapid.SliceOfN(types, 0, 2).Draw(t, "likes") {
				some.Types = append(some.Types, body.Type())
			}
			look := b.After(after, some, most)
			if !look.Complete {
				if last-after <= 1 {
					t.Fatal("not even the newest is there")
				}
				continue
			}
			var got, want []td.Event
			for _, r := range look.Events {
				got = append(got, r.Event)
			}
			upTo := after
			for _, ev := range all[after:] {
				if len(want) == most {
					break
				}
				upTo = ev.Cursor
				if (len(some.Tasks) == 0 || slices.Contains(some.Tasks, ev.Task)) && (len(some.Types) == 0 || slices.Contains(some.Types, ev.Body.Type())) {
					want = append(want, ev)
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("after %d of %v: %v, want %v", after, some, got, want)
			}
			if look.UpTo != upTo && (len(want) == most || look.UpTo != last) {
				t.Fatalf("after %d: seen up to %d, want %d", after, look.UpTo, upTo)
			}
			if (look.Wait != nil) != (len(want) == 0) {
				t.Fatalf("%d found, something to wait for: %v", len(want), look.Wait != nil)
			}
			if look.Wait != nil {
				look.Wait.Leave()
			}
		}
	})
}
