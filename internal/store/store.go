// Package store is the contract of the journal: the one place where runtime facts become durable.
//
// An implementation has one writer. Append, Create, Post, Take, Claim, Renew, Release and SetCursor are
// acknowledged only when they would survive a power cut; what was not acknowledged either happened
// whole or not at all. Every append checks the claim's epoch and the stream's head in its own
// transaction, and folds the events into the task it keeps beside them in that same transaction.
// Reads never wait for writes. All methods may be called from any goroutine.
//
// Errors carry a td.Kind: Fenced (the claim was lost: stop), Conflict (the head moved, or the event
// does not follow from the task's state), Unknown (the outcome is not known: calling again with the same
// arguments is safe), Storage, Corrupt, Locked, Newer, NotFound, Ambiguous.
package store

import (
	"context"
	"iter"
	"time"

	"taskdaemon/internal/td"
)

// Journal is what an implementation offers. The suite in storetest says in code what it must do.
type Journal interface {
	Streams
	Inbox
	Claims
	Leases
	Ledger
	Views
	Notes
	Runs
	Upkeep

	// Close flushes and lets go of the journal. Calls after it fail with td.Unavailable.
	Close() error
}

// Streams are the events of each task, and of td.DaemonStream, which always exists.
type Streams interface {
	// Create records a new task, queued. The same key again returns the first task and writes
	// nothing. The spec's ID, Handle and CreatedAt are set by the caller's td.NewTaskID and clock, but
	// the handle is made longer here if it is taken.
	Create(ctx context.Context, spec td.Spec, key string) (td.Task, error)

	// Append writes events of one task, all or none, after its head, and returns the task as they
	// leave it. The store gives them Seq and Cursor. nil means durable. Repeating an append whose
	// outcome was Unknown is safe: it is recognised and acknowledged, not written twice.
	Append(ctx context.Context, c td.Claim, after uint64, evs ...td.Event) (td.Task, error)

	// Read yields the events of one task with Seq > after, in order.
	Read(ctx context.Context, task td.TaskID, after uint64) iter.Seq2[td.Event, error]

	// Follow yields events that match, with Cursor > after, in order, gapless, and then waits for
	// more until ctx ends. Only durable events are yielded. A slow follower slows nobody.
	Follow(ctx context.Context, f EventFilter, after uint64) iter.Seq2[td.Record, error]

	// Last is the Cursor of the newest durable event.
	Last(ctx context.Context) (uint64, error)
}

// Cleaner is a journal that takes secrets out of what it is given (G-9). Clean is what it would keep of a body;
// a body that is sealed is kept as it is.
type Cleaner interface {
	Clean(b td.Body) (td.Sealed, error)
}

// EventFilter chooses events; the zero value is all.
type EventFilter struct {
	Tasks    []td.TaskID    // any of these, or all when empty
	Types    []td.EventType // any of these, or all when empty
	Since    time.Time      // not older than this, when set
	NoFuture bool           // Follow ends at the journal's present end instead of waiting
	// Every, if set, says how long Follow may let what comes gather, after it has told of some, so that who looks on is not
	// woken for each event. What comes after a pause is told at once.
	Every func() time.Duration
	// Pauses has Follow also yield a Record without an event whenever it has told of what was at hand: the next may take a while, as it
	// does at the journal's end.
	Pauses bool
}

// Inbox is how people, who hold no claim, reach a task.
type Inbox interface {
	// Post puts a command into the task's inbox. The same key again is acknowledged and not stored
	// twice, even after the command was consumed. NotFound when the task does not exist.
	Post(ctx context.Context, task td.TaskID, cmd td.Command) error

	// Posted is the command with this key that was put into the task's inbox, consumed or not; ok is false when
	// there never was one.
	Posted(ctx context.Context, task td.TaskID, key string) (cmd td.Command, ok bool, err error)

	// Take returns the commands of the claimed task that no event has consumed, oldest first. They
	// stay until an Append carries an event whose Takes is their key.
	Take(ctx context.Context, c td.Claim) ([]td.Command, error)
}

// Claims are the fenced rights to run tasks.
type Claims interface {
	// Claim takes the task for holder. Conflict when another live holder has it: a claim counts as
	// free when it was released, when it expired, or when the store's Alive says its holder is dead.
	// A holder that claims what it holds already gets a new epoch, and its old claim is fenced.
	Claim(ctx context.Context, task td.TaskID, h td.Holder) (td.Claim, error)

	// Renew extends every claim the holder still has to td.ClaimTTL from now, and returns their epochs.
	Renew(ctx context.Context, h td.Holder) (map[td.TaskID]uint64, error)

	// Release gives the claim back; no error if it was lost already.
	Release(ctx context.Context, c td.Claim) error
}

// Views answer questions from the tables the events are folded into.
type Views interface {
	// Task is the task as it stands.
	Task(ctx context.Context, id td.TaskID) (td.Task, error)

	// Tasks are those that match, by priority and then age.
	Tasks(ctx context.Context, f TaskFilter) ([]td.Task, error)

	// Counts is how many tasks are in each state.
	Counts(ctx context.Context) (map[td.State]int, error)

	// Tallies are what happened since the slot of a time, over all slots together: the slot of each is the first that has any.
	// They outlive the bodies that they count, and go with the audit.
	Tallies(ctx context.Context, since time.Time) ([]td.Tally, error)

	// Resolve finds the task a person means: by id, handle, fragment of either, or by the id, handle
	// or fragment of one of its open requests. Ambiguous errors list the candidates in their text.
	Resolve(ctx context.Context, ref string) (td.TaskID, error)

	// Pending are the tasks whose inbox is not empty.
	Pending(ctx context.Context) ([]td.TaskID, error)

	// HolderOf is the claim that holds the task now; ok is false when none does.
	HolderOf(ctx context.Context, id td.TaskID) (c td.Claim, ok bool, err error)
}

// TaskFilter chooses tasks; the zero value is all.
type TaskFilter struct {
	States []td.State
	Dir    string
	Limit  int
	// Brief leaves out what grows: prompt, rehearsal script.
	Brief bool
}

// Live are the states of tasks that have not ended.
var Live = []td.State{td.Queued, td.Running, td.Waiting, td.Blocked, td.Paused}

// Upkeep is for the daemon's own house-keeping.
type Upkeep interface {
	// Cursor is how far the follower of this name has come; zero when it never started.
	Cursor(ctx context.Context, name string) (uint64, error)
	// SetCursor records it. It never goes back.
	SetCursor(ctx context.Context, name string, at uint64) error

	// Trim removes bodies that retention lets go, and records older than 90 days.
	Trim(ctx context.Context, p Retention) (Trimmed, error)

	// Check proves the journal against itself: the database's own integrity, the fold of every
	// task's events against the task kept beside them, blobs against their hashes.
	Check(ctx context.Context) ([]Problem, error)
}

// Retention says how old bodies may grow. Now is the clock they are measured against; events of
// tasks that have not ended are never touched.
type Retention struct {
	Now       time.Time
	Completed time.Duration // bodies of completed and cancelled tasks
	Failed    time.Duration // bodies of failed and abandoned tasks
	Audit     time.Duration // audited records, of any stream
	// Mirrored is how far the git mirror has come: nothing newer is trimmed.
	Mirrored uint64
}

// Trimmed says what Trim removed.
type Trimmed struct {
	Tasks  int
	Events int
	Blobs  int
}

// Problem is something Check found.
type Problem struct {
	Task td.TaskID `json:"task,omitempty"`
	What string    `json:"what"`
	Fix  string    `json:"fix,omitempty"` // what to type
}
