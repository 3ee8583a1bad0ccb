package jsonl

import (
	"sync"
	"time"

	"taskdaemon/internal/td"
)

// Clock gives stamps to the changes of one actor. It is safe for use by several goroutines. It remembers
// nothing across restarts: whoever opens a log shows it the newest stamp in there.
type Clock struct {
	actor string
	now   func() time.Time

	mu   sync.Mutex
	last Stamp // the newest that was given or observed
}

// NewClock makes the clock of an actor. Two clones that write under the same actor's name may make two
// changes of one name.
func NewClock(actor string, now func() time.Time) (*Clock, error) {
	if err := (Stamp{Actor: actor}).check(); err != nil {
		return nil, &td.Error{Kind: td.Invalid, Err: err}
	}
	return &Clock{actor: actor, now: now}, nil
}

// Next is a stamp newer than every one that the clock gave or observed, wherever the wall clock stands: it
// goes on from the newest of them, one count at a time, until the wall clock has come past it. After a
// stamp at the very end of the year 9999 there is none that a change may carry, and Append says so.
func (c *Clock) Next() Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall := max(c.now().UnixMilli(), 0)
	next := Stamp{Wall: c.last.Wall, Count: c.last.Count + 1, Actor: c.actor}
	switch {
	case wall > c.last.Wall || c.last == (Stamp{}):
		next.Wall, next.Count = wall, 0
	case c.last.Count >= maxCount:
		next.Wall, next.Count = c.last.Wall+1, 0
	}
	c.last = next
	return next
}

// Observe makes all later stamps newer than s, which somebody else's clock gave.
func (c *Clock) Observe(s Stamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Compare(c.last) > 0 {
		c.last = s
	}
}
