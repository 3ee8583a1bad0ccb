package rule

import (
	"cmp"
	"slices"

	"taskdaemon/internal/td"
)

// LeaseID tells the leases of one task apart.
type LeaseID struct {
	Resource string
	Step     td.StepKey
}

// IDOf is the lease's.
func IDOf(l td.Lease) LeaseID { return LeaseID{l.Resource, l.Step} }

// Grant decides whether the events may give the task what their steps want. others are the leases and
// waiters of all tasks as far as these resources go; what they say of this task's leases does not count.
func Grant(before, next *td.Task, evs []td.Record, others func(resources []string) (td.Locks, error)) error {
	wanting, err := wanting(next, evs)
	if err != nil || len(wanting) == 0 {
		return err
	}
	var names []string
	for _, in := range wanting {
		for _, w := range in.Wants {
			names = append(names, w.Resource)
		}
	}
	locks, err := others(names)
	if err != nil {
		return err
	}
	locks.Held = slices.DeleteFunc(locks.Held, func(l td.Lease) bool { return l.Task == next.ID })
	after := map[LeaseID]bool{}
	for _, l := range next.Leases() {
		after[IDOf(l)] = true
	}
	for _, l := range before.Leases() {
		if after[IDOf(l)] {
			locks.Held = append(locks.Held, l)
		}
	}
	for _, in := range wanting {
		if err := locks.Free(next.ID, in.Key, in.Wants); err != nil {
			return err
		}
		for _, w := range in.Wants {
			locks.Held = append(locks.Held, td.Lease{
				Want: w, Task: next.ID, Handle: next.Handle, Title: next.Title, Step: in.Key, Name: in.Name,
			})
		}
	}
	return nil
}

// wanting are the intents among the events that want something and leave it leased.
func wanting(next *td.Task, evs []td.Record) (out []td.Intent, err error) {
	for _, ev := range evs {
		switch b := ev.Body.(type) {
		case td.StepIntended:
			if err := td.CheckWants(b.Wants); err != nil {
				return nil, err
			}
			if len(b.Wants) > 0 && slices.ContainsFunc(next.InFlight, func(s td.StepRef) bool { return s.Key == b.Key }) {
				out = append(out, b.Intent)
			}
		case td.Moved:
			if on := b.Status.Blocked; on != nil {
				if err := td.CheckWants(on.Wants); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

// Fence gives the task's leases their fences: a new one is that of the event which granted it, one that is
// kept has the one it had.
func Fence(next *td.Task, evs []td.Record, had map[LeaseID]uint64) []td.Lease {
	held := next.Leases()
	for i, l := range held {
		held[i].Fence = had[IDOf(l)]
		for _, ev := range evs {
			if b, is := ev.Body.(td.StepIntended); is && b.Key == l.Step {
				held[i].Fence = ev.Cursor
			}
		}
	}
	return held
}

// Queued is the task's place in the queue for leases, or nil. Who waits on for the same step keeps the
// ticket it had.
func Queued(before, next *td.Task, evs []td.Record, had uint64) *td.Waiter {
	if next.Place == nil {
		return nil
	}
	w := &td.Waiter{Place: *next.Place, Task: next.ID, Handle: next.Handle, Title: next.Title, Ticket: had}
	if before.Place == nil || before.Place.Step != next.Place.Step {
		w.Ticket = evs[len(evs)-1].Cursor
	}
	return w
}

// LeasesChange reports whether the events change what the task has leased or waits for.
func LeasesChange(before, next *td.Task, evs []td.Record) bool {
	if before.Place != next.Place {
		return true
	}
	was, is := before.Leases(), next.Leases()
	if len(was) == 0 && len(is) == 0 {
		return false
	}
	again := func(ev td.Record) bool {
		b, is := ev.Body.(td.StepIntended)
		return is && len(b.Wants) > 0
	}
	return !slices.Equal(was, is) || slices.ContainsFunc(evs, again)
}

// SortLocks brings leases and waiters into the order the contract gives them.
func SortLocks(l td.Locks) td.Locks {
	slices.SortFunc(l.Held, func(a, b td.Lease) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.Step, b.Step))
	})
	slices.SortFunc(l.Waiters, func(a, b td.Waiter) int { return cmp.Compare(a.Ticket, b.Ticket) })
	return l
}
