package rule

import (
	"time"

	"taskdaemon/internal/td"
)

// Fenced is the error of a holder that lost its claim.
func Fenced(c td.Claim, epoch uint64) error {
	return td.Errorf(td.Fenced, "the claim on %s was lost: it had epoch %d, the task is at %d", c.Task.Handle(), c.Epoch, epoch)
}

// HeadMoved is the error of an append after a head that is no longer the newest event.
func HeadMoved(task td.TaskID, after, head uint64) error {
	return td.Errorf(td.Conflict, "append to %s after %d: its newest event is %d", task.Handle(), after, head)
}

// Taken is the error of a claim that a live holder has.
func Taken(t td.Task, h td.Holder) error {
	return td.Errorf(td.Conflict, "claim %s: %s holds it", t.Handle, h)
}

// NoTask is the error for a task that is not there.
func NoTask(id td.TaskID) error {
	return td.Errorf(td.NotFound, "there is no task %s", id.Handle()).WithHint("taskdaemon task list")
}

// NoCommand is the error of an event that takes a command which is not waiting.
func NoCommand(task td.TaskID, key string) error {
	return td.Errorf(td.Conflict, "append to %s: no command %q waits in its inbox", task.Handle(), key)
}

// Closed is the error of every call after Close.
func Closed() error { return td.Errorf(td.Unavailable, "the journal is closed") }

// Deadline is when a claim found on disk counts as expired. A claim never outlives the moment the
// journal was opened by more than its full term: where its expiry lies further ahead, the clock was set
// back since. The result carries the monotonic clock of opened, so that later changes of the wall clock
// do not matter.
func Deadline(expires, opened time.Time) time.Time {
	left := expires.Sub(opened.Round(0))
	return opened.Add(min(max(left, 0), td.ClaimTTL))
}

// Free reports whether a claim with this holder may be taken by h.
func Free(holder, h td.Holder, deadline, now time.Time, alive func(td.Holder) bool) bool {
	return holder == h || !now.Before(deadline) || alive != nil && !alive(holder)
}
