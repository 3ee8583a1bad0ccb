package mem

import (
	"context"

	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// leased is what the journal knows of a task's leases beside the fold: fences, and its ticket in the queue.
type leased struct {
	fences map[rule.LeaseID]uint64
	ticket uint64
}

// lease keeps fences and ticket in step with events that are about to be written.
func (t *task) lease(next *td.Task, evs []td.Record) {
	if !rule.LeasesChange(&t.Task, next, evs) {
		return
	}
	fences := map[rule.LeaseID]uint64{}
	for _, l := range rule.Fence(next, evs, t.leased.fences) {
		fences[rule.IDOf(l)] = l.Fence
	}
	ticket := uint64(0)
	if w := rule.Queued(&t.Task, next, evs, t.leased.ticket); w != nil {
		ticket = w.Ticket
	}
	t.leased = leased{fences, ticket}
}

// locks are all leases and waiters.
func (d *data) locks() (l td.Locks) {
	for _, t := range d.tasks {
		for _, held := range t.Leases() {
			held.Fence = t.leased.fences[rule.IDOf(held)]
			l.Held = append(l.Held, held)
		}
		if t.Place != nil {
			l.Waiters = append(l.Waiters, td.Waiter{
				Place: *t.Place, Task: t.ID, Handle: t.Handle, Title: t.Title, Ticket: t.leased.ticket,
			})
		}
	}
	return rule.SortLocks(l)
}

// Locks are all leases and all who wait.
func (s *Store) Locks(ctx context.Context) (td.Locks, error) {
	leave, err := s.enter(ctx.Done())
	if err != nil {
		return td.Locks{}, err
	}
	defer leave()
	return s.locks(), nil
}
