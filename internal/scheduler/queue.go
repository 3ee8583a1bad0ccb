package scheduler

import (
	"container/heap"
	"time"
)

// aging is how long a task has to wait to count as much as a younger one of the next priority: what is urgent comes
// first, and what is not comes in the end.
const aging = 10 * time.Minute

// queue is a heap of queued tasks: by priority and age. A task's rank does not change while it waits, and a restart gives it
// the same.
type queue []*entry

func (e *entry) rank() time.Time {
	return e.task.CreatedAt.Add(time.Duration(e.task.Priority) * aging)
}

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	a, b := q[i], q[j]
	if ra, rb := a.rank(), b.rank(); !ra.Equal(rb) {
		return ra.Before(rb)
	}
	if a.task.Priority != b.task.Priority {
		return a.task.Priority < b.task.Priority
	}
	return a.task.ID < b.task.ID
}

func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *queue) Push(x any) { *q = append(*q, x.(*entry)) }

func (q *queue) Pop() any {
	old := *q
	n := len(old) - 1
	e := old[n]
	old[n] = nil
	*q = old[:n]
	return e
}

// parked are queued tasks that wait for something besides a place, by what that is. They stand in the queue again when it
// is free.
type parked map[string][]*entry

func (p parked) put(what string, e *entry) { p[what] = append(p[what], e) }

func (p parked) free(what string, q *queue) {
	for _, e := range p[what] {
		heap.Push(q, e)
	}
	delete(p, what)
}
