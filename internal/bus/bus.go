// Package bus tells followers about durable events.
//
// It keeps the newest events of the journal in memory, in order, and is pulled: a follower asks for
// what came after its cursor and gets a channel that is closed when there is more. Publishing never
// waits for a follower. One that fell behind what the bus still holds is told so and reads the journal
// until it has caught up. Only the journal's writer publishes, after its commit.
package bus

import (
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
	more  chan struct{} // closed at the next publish; nil when nobody waits
}

// New makes a bus that holds at most so many events and bytes, for a journal whose newest event is last.
func New(maxEvents, maxBytes int, last uint64) *Bus {
	return &Bus{maxEvents: maxEvents, maxBytes: maxBytes, ring: make([]Entry, maxEvents), floor: last, last: last}
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
		b.last = e.Event.Cursor
	}
	if b.more != nil {
		close(b.more)
		b.more = nil
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

// After returns up to max events with a cursor greater than this one. When complete is false the bus
// no longer holds all of them and returns none: read the journal first. When it returns no events, wait
// is closed as soon as there are some.
func (b *Bus) After(cursor uint64, max int) (evs []td.Event, complete bool, wait <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if cursor < b.floor {
		return nil, false, nil
	}
	first := sort.Search(b.count, func(i int) bool { return b.at(i).Cursor > cursor })
	n := min(b.count-first, max)
	if n == 0 {
		if b.more == nil {
			b.more = make(chan struct{})
		}
		return nil, true, b.more
	}
	evs = make([]td.Event, n)
	for i := range evs {
		evs[i] = *b.at(first + i)
	}
	return evs, true, nil
}

func (b *Bus) at(i int) *td.Event { return &b.ring[(b.start+i)%b.maxEvents].Event }

// Last is the cursor of the newest event published.
func (b *Bus) Last() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}
