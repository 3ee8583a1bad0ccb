// Package bus tells followers about durable events.
//
// It keeps the newest events of the journal in memory, in order, and is pulled: a follower asks for
// what came after its cursor and gets a channel that is closed when there is more. One that follows a few tasks
// is woken by their events alone: whoever appends waits for Publish, which must not cost more because many look on.
// Publishing never waits for a follower. One that fell behind what the bus still holds is told so and reads the journal
// until it has caught up. Only the journal's writer publishes, after its commit.
package bus

import (
	"slices"
	"sort"
	"sync"

	"taskdaemon/internal/td"
)

// Entry is a durable event and about how many bytes it keeps in memory.
type Entry struct {
	Event td.Event
	Size  int
}

// Bus is a bounded window on the end of the journal. Its methods may be called from any goroutine.
type Bus struct {
	maxEvents, maxBytes int

	mu    sync.Mutex
	ring  []Entry // from start, count of them, wrapping round
	start int
	count int
	bytes int
	floor uint64 // every event after this cursor is in the ring
	last  uint64

	everything waiters // for whatever comes
	waiting    map[td.TaskID]waiters
}

type waiters map[*Wait]struct{}

// New makes a bus that holds at most so many events and bytes, for a journal whose newest event is last.
func New(maxEvents, maxBytes int, last uint64) *Bus {
	return &Bus{
		maxEvents: maxEvents, maxBytes: maxBytes, ring: make([]Entry, maxEvents), floor: last, last: last,
		everything: waiters{}, waiting: map[td.TaskID]waiters{},
	}
}

// Publish adds events, oldest first, each with a greater cursor than all before it, and wakes whoever
// waits.
func (b *Bus) Publish(entries []Entry) {
	if len(entries) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range entries {
		for b.count > 0 && (b.count == b.maxEvents || b.bytes+e.Size > b.maxBytes) {
			b.drop()
		}
		b.ring[(b.start+b.count)%b.maxEvents] = e
		b.count++
		b.bytes += e.Size
		for _, woken := range []waiters{b.everything, b.waiting[e.Event.Task]} {
			for w := range woken {
				w.upTo = b.last
				b.leave(w)
				close(w.more)
			}
		}
		b.last = e.Event.Cursor
	}
}

// drop lets go of the oldest event.
func (b *Bus) drop() {
	e := &b.ring[b.start]
	b.floor = e.Event.Cursor
	b.bytes -= e.Size
	*e = Entry{}
	b.start = (b.start + 1) % b.maxEvents
	b.count--
}

// Look is what a follower finds.
type Look struct {
	Events []td.Event
	// UpTo is how far it has seen now: what else there is up to this cursor is of other tasks.
	UpTo uint64
	// Complete is false when the bus no longer holds all that came after the cursor: nothing was looked at. Read the
	// journal first.
	Complete bool
	// Wait is there when all was seen and there was nothing.
	Wait *Wait
}

// After finds up to max events with a cursor greater than this one: those of the given tasks, or of all if there are none.
func (b *Bus) After(cursor uint64, tasks []td.TaskID, max int) Look {
	b.mu.Lock()
	defer b.mu.Unlock()
	if cursor < b.floor {
		return Look{}
	}
	look := Look{UpTo: cursor, Complete: true}
	first := sort.Search(b.count, func(i int) bool { return b.at(i).Cursor > cursor })
	for i := first; i < b.count && len(look.Events) < max; i++ {
		ev := b.at(i)
		look.UpTo = ev.Cursor
		if len(tasks) == 0 || slices.Contains(tasks, ev.Task) {
			look.Events = append(look.Events, *ev)
		}
	}
	if len(look.Events) == 0 {
		look.Wait = b.wait(tasks)
	}
	return look
}

// Wait is a follower that waits for events.
type Wait struct {
	bus   *Bus
	tasks []td.TaskID
	more  chan struct{}
	upTo  uint64
}

// More is closed when there are some.
func (w *Wait) More() <-chan struct{} { return w.more }

// UpTo is where to look for them when More was closed: up to this cursor there are none.
func (w *Wait) UpTo() uint64 { return w.upTo }

// Leave ends the wait of a follower that no longer cares.
func (w *Wait) Leave() {
	w.bus.mu.Lock()
	defer w.bus.mu.Unlock()
	w.bus.leave(w)
}

func (b *Bus) wait(tasks []td.TaskID) *Wait {
	w := &Wait{bus: b, tasks: tasks, more: make(chan struct{})}
	if len(tasks) == 0 {
		b.everything[w] = struct{}{}
	}
	for _, t := range tasks {
		if b.waiting[t] == nil {
			b.waiting[t] = waiters{}
		}
		b.waiting[t][w] = struct{}{}
	}
	return w
}

func (b *Bus) leave(w *Wait) {
	delete(b.everything, w)
	for _, t := range w.tasks {
		if delete(b.waiting[t], w); len(b.waiting[t]) == 0 {
			delete(b.waiting, t)
		}
	}
}

func (b *Bus) at(i int) *td.Event { return &b.ring[(b.start+i)%b.maxEvents].Event }

// Last is the cursor of the newest event published.
func (b *Bus) Last() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}
