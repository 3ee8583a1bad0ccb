package scheduler

import (
	"context"
	"time"

	"taskdaemon/internal/td"
)

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

// looks is how often a task that is blocked on leases is looked at, while it may wait, without being called:
// a background job that had them may have ended without anybody noticing.
const looks = 12

// mostDoubled is how often the rest of a task is doubled that does not get on.
const mostDoubled = 3

// lostRest is how long a task is left alone whose run lost its claim for the first time.
const lostRest = time.Second

// shortest is how long a blocked task is left alone in any case.
const shortest = 10 * time.Millisecond

// restFor is how long a blocked task is left alone: longer each time that the same was in its way.
func (s *Scheduler) restFor(e *entry) time.Duration {
	t := e.task
	if b := t.Status.Blocked; b != nil && b.Outage != nil {
		return max(shortest, min(b.Outage.Wait, time.Until(b.Outage.RetryAt)))
	}
	if t.Place == nil {
		rest := s.Retry << min(max(0, e.stuck-1), mostDoubled)
		if b := t.Status.Blocked; b != nil && !b.Until.IsZero() {
			if left := time.Until(b.Until); left > 0 {
				rest = min(rest, max(shortest, left))
			}
		}
		return rest
	}
	if td.Patient(t.Place.Wants) {
		return max(shortest, min(s.Retry, s.Wait/looks))
	}
	return max(shortest, min(s.Retry, s.Wait/looks, time.Until(t.Place.Since.Add(s.Wait))))
}
