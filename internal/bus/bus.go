// Package bus tells followers about durable events.
//
// It keeps the newest events of the journal in memory, in order, and is pulled: a follower asks for
// what came after its cursor and gets a channel that is closed when there is more. One that follows a few tasks, or a few types,
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
	td.Record
	Size int
}

// Wanted is what somebody follows; the zero value is everything.
type Wanted struct {
	Tasks []td.TaskID    // any of these, or all when empty
	Types []td.EventType // any of these, or all when empty
}

// likes reports whether an event of a wanted task is of a wanted type.
func (w *Wanted) likes(e *Entry) bool {
	return len(w.Types) == 0 || slices.Contains(w.Types, e.Body.Type())
}

// Bus is a bounded window on the end of the journal. Its methods may be called from any goroutine.
type Bus struct {
	maxEvents, maxBytes int

	mu sync.Mutex
	// ring holds the entries from number first on up to but without next, each at its number modulo the length.
	ring        []held
	first, next uint64
	newest      map[td.TaskID]uint64 // the number of a task's newest entry in the ring
	bytes       int
	floor       uint64 // every event after this cursor is in the ring
	last        uint64

	everything waiters // for whatever comes
	waiting    map[td.TaskID]waiters
	typed      map[td.EventType]waiters // of any task
}

// held is an entry in the ring. Those of a task are chained, so that who follows a few need not look at all.
type held struct {
	Entry
	before  uint64 // the number of the one before it of the same task, if chained
	chained bool
}

type waiters map[*Wait]struct{}

// New makes a bus that holds at most so many events and bytes, for a journal whose newest event is last.
func New(maxEvents, maxBytes int, last uint64) *Bus {
	return &Bus{
		maxEvents: maxEvents, maxBytes: maxBytes, ring: make([]held, maxEvents), floor: last, last: last,
		newest: map[td.TaskID]uint64{}, everything: waiters{}, waiting: map[td.TaskID]waiters{}, typed: map[td.EventType]waiters{},
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
		for b.count() > 0 && (b.count() == b.maxEvents || b.bytes+e.Size > b.maxBytes) {
			b.drop()
		}
		before, chained := b.newest[e.Task]
		*b.at(b.next) = held{e, before, chained}
		b.newest[e.Task] = b.next
		b.next++
		b.bytes += e.Size
		for _, woken := range []waiters{b.everything, b.waiting[e.Task], b.typed[e.Body.Type()]} {
			for w := range woken {
				if !w.wanted.likes(&e) {
					continue
				}
				w.upTo = b.last
				b.leave(w)
				close(w.more)
			}
		}
		b.last = e.Cursor
	}
}

// drop lets go of the oldest event.
func (b *Bus) drop() {
	e := b.at(b.first)
	b.floor = e.Cursor
	b.bytes -= e.Size
	if b.newest[e.Task] == b.first {
		delete(b.newest, e.Task)
	}
	*e = held{}
	b.first++
}

// Look is what a follower finds.
type Look struct {
	Events []td.Record
	// UpTo is how far it has seen now: what else there is up to this cursor is not wanted.
	UpTo uint64
	// Complete is false when the bus no longer holds all that came after the cursor: nothing was looked at. Read the
	// journal first.
	Complete bool
	// Wait is there when all was seen and there was nothing.
	Wait *Wait
}

// After finds up to so many events that are wanted and have a cursor greater than this one.
func (b *Bus) After(cursor uint64, wanted Wanted, most int) Look {
	b.mu.Lock()
	defer b.mu.Unlock()
	if cursor < b.floor {
		return Look{}
	}
	look := Look{UpTo: max(cursor, b.last), Complete: true}
	if len(wanted.Tasks) == 0 {
		first := b.first + uint64(sort.Search(b.count(), func(i int) bool { return b.at(b.first+uint64(i)).Cursor > cursor }))
		if len(wanted.Types) == 0 {
			look.Events = make([]td.Record, 0, min(b.next-first, uint64(most)))
		}
		for n := first; n < b.next && len(look.Events) < most; n++ {
			if e := b.at(n); wanted.likes(&e.Entry) {
				look.Events = append(look.Events, e.Record)
			}
		}
	} else {
		found := b.of(wanted, cursor, most)
		look.Events = make([]td.Record, len(found))
		for i, n := range found {
			look.Events[i] = b.at(n).Record
		}
	}
	switch n := len(look.Events); n {
	case 0:
		look.Wait = b.wait(wanted)
	case most:
		look.UpTo = look.Events[n-1].Cursor
	}
	return look
}

// of are the numbers of the oldest entries, so many at most, of the wanted tasks after a cursor.
func (b *Bus) of(wanted Wanted, cursor uint64, most int) (found []uint64) {
	for _, t := range wanted.Tasks {
		n, chained := b.newest[t]
		for chained && n >= b.first && b.at(n).Cursor > cursor {
			if wanted.likes(&b.at(n).Entry) {
				found = append(found, n)
			}
			n, chained = b.at(n).before, b.at(n).chained
		}
	}
	slices.Sort(found)
	found = slices.Compact(found) // somebody may follow a task twice
	return found[:min(len(found), most)]
}

// Wait is a follower that waits for events.
type Wait struct {
	bus    *Bus
	wanted Wanted
	more   chan struct{}
	upTo   uint64
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

func (b *Bus) wait(wanted Wanted) *Wait {
	w := &Wait{bus: b, wanted: wanted, more: make(chan struct{})}
	switch {
	case len(wanted.Tasks) > 0:
		enter(b.waiting, wanted.Tasks, w)
	case len(wanted.Types) > 0:
		enter(b.typed, wanted.Types, w)
	default:
		b.everything[w] = struct{}{}
	}
	return w
}

func (b *Bus) leave(w *Wait) {
	delete(b.everything, w)
	leave(b.waiting, w.wanted.Tasks, w)
	leave(b.typed, w.wanted.Types, w)
}

func enter[K comparable](all map[K]waiters, at []K, w *Wait) {
	for _, k := range at {
		if all[k] == nil {
			all[k] = waiters{}
		}
		all[k][w] = struct{}{}
	}
}

func leave[K comparable](all map[K]waiters, at []K, w *Wait) {
	for _, k := range at {
		if delete(all[k], w); len(all[k]) == 0 {
			delete(all, k)
		}
	}
}

func (b *Bus) count() int { return int(b.next - b.first) }

func (b *Bus) at(number uint64) *held { return &b.ring[number%uint64(b.maxEvents)] }

// Last is the cursor of the newest event published.
func (b *Bus) Last() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}
