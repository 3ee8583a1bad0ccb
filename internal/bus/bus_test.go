package bus_test

import (
	"sync"
	"testing"

	"taskdaemon/internal/bus"
	"taskdaemon/internal/td"
)

func entries(size int, cursors ...uint64) []bus.Entry {
	var out []bus.Entry
	for _, c := range cursors {
		out = append(out, bus.Entry{Event: td.Event{Cursor: c, Body: td.Said{}}, Size: size})
	}
	return out
}

func wantAfter(t *testing.T, b *bus.Bus, cursor uint64, complete bool, want ...uint64) {
	t.Helper()
	evs, got, wait := b.After(cursor, 100)
	if got != complete {
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
	if evs, _, _ := b.After(12, 2); len(evs) != 2 || evs[1].Cursor != 16 {
		t.Fatalf("two at most gave %v", evs)
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
				evs, complete, wait := b.After(at, 64)
				if !complete {
					t.Error("a follower fell behind a bus that holds all")
					return
				}
				if len(evs) == 0 {
					<-wait
					continue
				}
				for _, ev := range evs {
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
