package td

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Want is a resource that a step needs for as long as it runs (G-5). The zero value of all but the name
// wants it alone.
type Want struct {
	Resource string `json:"resource"`
	Shared   bool   `json:"shared,omitempty"`   // others that share it may have it, too
	Capacity int    `json:"capacity,omitempty"` // of one that is shared: how many at once; 0: any number
}

// MergeResource begins the names of the queues in which work waits to be merged, one for each branch.
const MergeResource = "merge:"

// Patient reports whether these are waited for as long as it takes: who stands in the queue to be merged has nothing
// else to do.
func Patient(wants []Want) bool {
	return len(wants) > 0 && !slices.ContainsFunc(wants, func(w Want) bool { return !strings.HasPrefix(w.Resource, MergeResource) })
}

// Limit is how many may have the resource at once as far as this want goes, itself included.
func (w Want) Limit() int {
	switch {
	case !w.Shared:
		return 1
	case w.Capacity == 0:
		return math.MaxInt
	}
	return w.Capacity
}

// Mode says in words how the resource is wanted.
func (w Want) Mode() string {
	switch {
	case !w.Shared:
		return "exclusive"
	case w.Capacity == 0:
		return "shared"
	}
	return fmt.Sprintf("1 of %d", w.Capacity)
}

// maxResource is the longest name of a resource: one that holds a path fits.
const maxResource = 4096 + 16

// CheckWants says what is wrong with what a step wants, or nil. Records have them sorted and each
// resource once, so that whoever takes several takes them in the same order.
func CheckWants(wants []Want) error {
	for i, w := range wants {
		switch {
		case w.Resource == "" || len(w.Resource) > maxResource:
			return Errorf(Invalid, "a resource has a name of %d bytes", len(w.Resource))
		case w.Capacity < 0 || w.Capacity > 0 && !w.Shared:
			return Errorf(Invalid, "the resource %q cannot be wanted with capacity %d", w.Resource, w.Capacity)
		case i > 0 && wants[i-1].Resource >= w.Resource:
			return Errorf(Invalid, "the resource %q is wanted twice or out of order", w.Resource)
		}
	}
	return nil
}

// SortWants brings wants into the form of records. Of two for the same resource the stricter one stays.
func SortWants(wants []Want) []Want {
	out := slices.Clone(wants)
	slices.SortFunc(out, func(a, b Want) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Limit(), b.Limit()))
	})
	return slices.CompactFunc(out, func(a, b Want) bool { return a.Resource == b.Resource })
}

// Place is a task's place in the queue for what one of its steps wants. It is kept while the task is
// blocked on it, queued again, or running; anything else gives it up.
type Place struct {
	Step  StepKey   `json:"step"`
	Wants []Want    `json:"wants"`
	Since time.Time `json:"since"`
}

// Lease is the fenced right of a step to a resource, until the step ends; of a background job, until that
// does.
type Lease struct {
	Want
	Task   TaskID    `json:"task"`
	Handle string    `json:"handle"`
	Title  string    `json:"title"`
	Step   StepKey   `json:"step"`
	Name   string    `json:"name"`          // the tool's
	Job    JobID     `json:"job,omitempty"` // the background job it was handed to
	Since  time.Time `json:"since"`
	// Fence grows with each grant of the resource and is never used again: it is the place of the grant in
	// the journal.
	Fence uint64 `json:"fence"`
}

// Waiter is a task in the queue for leases.
type Waiter struct {
	Place
	Task   TaskID `json:"task"`
	Handle string `json:"handle"`
	Title  string `json:"title"`
	Ticket uint64 `json:"ticket"` // who has the smaller one came first
}

// Locks are the leases there are, by resource and fence, and who waits, first come first.
type Locks struct {
	Held    []Lease  `json:"held"`
	Waiters []Waiter `json:"waiters"`
}

// Leases are those the task has, by resource; the journal gives them their fences.
func (t Task) Leases() []Lease {
	if t.Status.State.Terminal() {
		return nil
	}
	var out []Lease
	add := func(wants []Want, step StepKey, name string, job JobID, since time.Time) {
		for _, w := range wants {
			out = append(out, Lease{
				Want: w, Task: t.ID, Handle: t.Handle, Title: t.Title, Step: step, Name: name, Job: job, Since: since,
			})
		}
	}
	for _, s := range t.InFlight {
		add(s.Wants, s.Key, s.Name, "", s.At)
	}
	for _, j := range t.Jobs {
		add(j.Wants, j.Step, j.Tool, j.ID, j.Since)
	}
	slices.SortFunc(out, func(a, b Lease) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Step, b.Step))
	})
	return out
}

// queue keeps, takes or gives up the task's place in the queue for leases as it moves.
func (t *Task) queue(b Moved) {
	on := b.Status.Blocked
	switch {
	case on != nil && len(on.Wants) > 0:
		since := b.Status.Since
		if t.Place != nil && t.Place.Step == on.Step {
			since = t.Place.Since
		}
		t.Place = &Place{Step: on.Step, Wants: on.Wants, Since: since}
		t.giveBack(on.Step) // what waits to be done does not run
	case b.Status.State != Queued && b.Status.State != Running:
		t.Place = nil
		t.letOthersMerge()
	}
}

// letOthersMerge gives back what a merge has leased that a crash left in flight: nothing of it runs while the task lies down, and those
// behind it in the queue would wait without end. It is found done, or gets in the queue again, when the task goes on.
func (t *Task) letOthersMerge() {
	for _, s := range t.InFlight {
		if s.Kind == MergeStep || s.Kind == FollowStep {
			t.giveBack(s.Key)
		}
	}
}

// leavePlace gives up the place that the step had.
func (t *Task) leavePlace(step StepKey) {
	if t.Place != nil && t.Place.Step == step {
		t.Place = nil
	}
}

// giveBack ends the leases of a step that stays in flight.
func (t *Task) giveBack(step StepKey) {
	t.InFlight = slices.Clone(t.InFlight)
	for i := range t.InFlight {
		if t.InFlight[i].Key == step {
			t.InFlight[i].Wants = nil
		}
	}
}

// returnLeases ends the leases of jobs that have ended.
func (t *Task) returnLeases(ids []JobID) {
	t.Jobs = slices.Clone(t.Jobs)
	for i, j := range t.Jobs {
		if slices.Contains(ids, j.ID) {
			t.Jobs[i].Wants, t.Jobs[i].Step, t.Jobs[i].Tool = nil, "", ""
		}
	}
}

// Frees reports whether others may have what they could not have before, now that the task has become next.
func (t Task) Frees(next Task) bool {
	if t.Place != nil && (next.Place == nil || next.Place.Step != t.Place.Step) {
		return true
	}
	return len(t.GivesBack(next)) > 0
}

// GivesBack are the leases the task has no more, now that it has become next.
func (t Task) GivesBack(next Task) []Lease {
	had := t.Leases()
	if len(had) == 0 {
		return nil
	}
	has := next.Leases()
	return slices.DeleteFunc(had, func(l Lease) bool {
		return slices.ContainsFunc(has, func(n Lease) bool { return n.Resource == l.Resource && n.Step == l.Step })
	})
}

func (t *Task) inFlight(step StepKey) StepRef {
	for _, s := range t.InFlight {
		if s.Key == step {
			return s
		}
	}
	return StepRef{}
}

// BusyError says who is in the way of a step that wants resources.
type BusyError struct {
	Resource string
	Task     TaskID // that has it, or came first
	Handle   string
	Title    string
	Name     string    // the tool that uses it
	Since    time.Time // when it got it, or began to wait
	Waits    bool      // it does not have the resource, it came first
	Own      bool      // the task itself has it
}

func (e *BusyError) Error() string {
	switch {
	case e.Own:
		return fmt.Sprintf("%s is held by this task itself (%s)", e.Resource, e.Name)
	case e.Waits:
		return fmt.Sprintf("task %s (%s) came first for %s", e.Handle, e.Title, e.Resource)
	}
	return fmt.Sprintf("%s is held by task %s (%s)", e.Resource, e.Handle, e.Title)
}

// Free says who is in the way of giving a step of the task all it wants, or nil. It is given at once or
// not at all, and nobody overtakes an earlier waiter who wants something that excludes it: so a crowd
// that shares cannot keep out one that wants a resource alone. What the step has already it may have again.
func (l Locks) Free(task TaskID, step StepKey, wants []Want) error {
	ticket := uint64(math.MaxUint64)
	for _, w := range l.Waiters {
		if w.Task == task && w.Step == step {
			ticket = w.Ticket
		}
	}
	var own *BusyError
	for _, want := range wants {
		limit := want.Limit()
		var held []Lease
		has := false
		for _, h := range l.Held {
			switch {
			case h.Resource != want.Resource:
			case h.Task == task && h.Step == step:
				has = true
			default:
				held, limit = append(held, h), min(limit, h.Limit())
			}
		}
		if len(held) >= limit {
			e := inTheWay(task, held)
			if !e.Own {
				return busy(e)
			}
			own = cmp.Or(own, e)
		}
		if has {
			continue
		}
		first, limit := l.before(ticket, want, limit)
		if n := len(first); n > 0 && len(held)+n >= limit {
			w := first[n-1]
			return busy(&BusyError{
				Resource: want.Resource, Task: w.Task, Handle: w.Handle, Title: w.Title, Since: w.Since, Waits: true,
			})
		}
	}
	if own != nil {
		return busy(own)
	}
	return nil
}

func busy(e *BusyError) error { return &Error{Kind: Busy, Err: e} }

// inTheWay is the newest of those who have a resource; the task itself only if nobody else does, for it
// would wait for itself in vain.
func inTheWay(task TaskID, held []Lease) *BusyError {
	h := held[len(held)-1]
	for _, other := range slices.Backward(held) {
		if other.Task != task {
			h = other
			break
		}
	}
	return &BusyError{
		Resource: h.Resource, Task: h.Task, Handle: h.Handle, Title: h.Title, Name: h.Name, Since: h.Since, Own: h.Task == task,
	}
}

// before are those who wait for the resource with a smaller ticket, and how many may have it at once if
// they all get it.
func (l Locks) before(ticket uint64, want Want, limit int) (first []Waiter, _ int) {
	for _, w := range l.Waiters {
		if w.Ticket >= ticket {
			continue
		}
		for _, theirs := range w.Wants {
			if theirs.Resource == want.Resource {
				first, limit = append(first, w), min(limit, theirs.Limit())
			}
		}
	}
	return first, limit
}

// Next are the tasks among those that wait who need not wait any longer: their turn has come, or only they
// themselves are in their way.
func (l Locks) Next() []TaskID {
	var out []TaskID
	for _, w := range l.Waiters {
		err := l.Free(w.Task, w.Step, w.Wants)
		if e, is := errors.AsType[*BusyError](err); err == nil || is && e.Own {
			out = append(out, w.Task)
		}
	}
	return out
}
