package store

import (
	"context"

	"taskdaemon/internal/td"
)

// Leases are what steps in flight have to themselves or share (G-5). They are granted by the append that
// carries the step's intent, and end with the step: both in that append's own transaction. An append
// whose intents want what is not free is refused whole, with td.Busy and a *td.BusyError that says who is
// in the way. A task that is blocked on wants has a place in the queue, first come first; nobody is given
// what an earlier waiter could not have any more then.
//
// A lease counts only as long as the fold of its task's events has it: one of a task that is not there,
// has ended, or has no such step in flight is free.
type Leases interface {
	// Locks are all leases and all who wait.
	Locks(ctx context.Context) (td.Locks, error)
}
