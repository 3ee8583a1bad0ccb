package scheduler

import (
	"context"
	"time"

	"taskdaemon/internal/td"
)

// leaseLook is how often a task that is blocked on leases is looked at without being called: what has them
// may have ended in a way that nobody was told of.
var leaseLook = 5 * time.Second

// Freed tells the scheduler that leases were given back. It does not block.
func (s *Scheduler) Freed() {
	select {
	case s.freed <- struct{}{}:
	default: // it will look anyway
	}
}

// callWaiters looks at the tasks that are blocked on leases and whose turn has come.
func (s *Scheduler) callWaiters(ctx context.Context) {
	locks, err := s.Journal.Locks(ctx)
	if err != nil {
		s.Log.Error("read leases", "err", err) // each is looked at again in a while
		return
	}
	for _, id := range locks.Next() {
		if e := s.tasks[id]; e != nil && (e.ctl != nil || e.task.Status.State == td.Blocked) {
			s.again(ctx, id)
		}
	}
}

// restFor is how long a blocked task is left alone: one that waits for leases only as long as it may wait.
func (s *Scheduler) restFor(t td.Task) time.Duration {
	if t.Place == nil {
		return s.Retry
	}
	return max(0, min(s.Retry, leaseLook, time.Until(t.Place.Since.Add(s.Wait))))
}
