// Package durable makes the steps of a run survive: what a step is about to do is on disk before it
// does it, what came of it is on disk before anything builds on it, and what is on disk is never done
// again (design §3).
//
// A Log is one claimed task's journal with its fold. It belongs to one goroutine. Every side effect a
// run has on the world goes through Do or DoAll; nothing else may act for a run.
package durable

import (
	"context"
	"fmt"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/transcript"
)

var (
	fpBeforeAppend = failpoint.New("durable.append.before")
	fpAfterAppend  = failpoint.New("durable.append.after")
)

// Log is the journal of one claimed task.
type Log struct {
	journal store.Streams
	claim   td.Claim
	now     func() time.Time

	head   uint64 // newest durable event
	task   td.Task
	script *transcript.Transcript
	staged []td.Event
	then   []func() // called when what is staged is on disk

	kept  td.Task // as it is on disk
	freed func(given []td.Lease)

	damaged error
}

// Open reads the task's events and folds them.
func Open(ctx context.Context, j store.Streams, task td.Task, c td.Claim, now func() time.Time) (*Log, error) {
	l := &Log{journal: j, claim: c, now: now, task: task, kept: task, head: task.Head}
	return l, l.read(ctx)
}

// Reread folds the records anew: after a td.Rewound they add up to another conversation. Nothing may be staged.
func (l *Log) Reread(ctx context.Context) error { return l.read(ctx) }

func (l *Log) read(ctx context.Context) error {
	j, task := l.journal, l.task
	script, next := &transcript.Transcript{}, uint64(1)
	for ev, err := range j.Read(ctx, task.ID, 0) {
		if err != nil {
			return fmt.Errorf("read journal of %s: %w", task.Handle, err)
		}
		switch b := ev.Body.(type) {
		case td.Unreadable:
			l.damage(ev.Seq, b.Err)
		case td.Trimmed:
			if !task.Status.State.Terminal() && task.Resets == 0 {
				l.damage(ev.Seq, "its body is gone")
			}
		}
		if ev.Seq != next {
			l.damage(next, "it is missing")
		}
		next = ev.Seq + 1
		script.Take(ev, task.Cuts)
	}
	if next <= task.Head {
		l.damage(next, "it is missing")
	}
	l.script = script
	return nil
}

// Damaged says which record of the task cannot be read, or nil. Nobody may act on what is left: a record
// that is not seen is a step that would be done again.
func (l *Log) Damaged() error { return l.damaged }

func (l *Log) damage(seq uint64, why string) {
	if l.damaged == nil {
		l.damaged = td.Errorf(td.Corrupt, "record %d of %s cannot be read: %s", seq, l.task.Handle, why).
			WithHint("taskdaemon doctor; taskdaemon task cancel %s", l.task.Handle)
	}
}

// OnFree has f called when leases of the task, or its place in the queue for some, were given up on disk.
func (l *Log) OnFree(f func(given []td.Lease)) { l.freed = f }

// Frees reports whether what is staged gives something up that others may want.
func (l *Log) Frees() bool { return len(l.staged) > 0 && l.kept.Frees(l.task) }

// Task is the task with everything recorded and staged so far.
func (l *Log) Task() td.Task { return l.task }

// Look is Task without a copy, for a glance at a field: it is as of now, and changes with the next record. A task is large,
// and what waits for a model holds its stack for long.
func (l *Log) Look() *td.Task { return &l.task }

// Transcript is the conversation with everything recorded and staged so far.
func (l *Log) Transcript() *transcript.Transcript { return l.script }

// Now is the journal's clock. It never runs behind the newest record, so that a clock set back does not
// make a task's history run backwards.
func (l *Log) Now() time.Time {
	now := l.now().UTC().Round(0)
	if now.Before(l.task.UpdatedAt) {
		return l.task.UpdatedAt
	}
	return now
}

// Stage records bodies with the next append instead of at once. Only for what a crash may lose because
// recovery finds it out again: outcomes of pure, keyed and adoptable steps, the loop's own words.
func (l *Log) Stage(bodies ...td.Body) error {
	for _, b := range bodies {
		if err := l.fold(td.Event{Task: l.task.ID, At: l.Now(), Body: b}); err != nil {
			return err
		}
	}
	return nil
}

// Append records bodies, and all that was staged before them, and returns when they are on disk.
func (l *Log) Append(ctx context.Context, bodies ...td.Body) error {
	if err := l.Stage(bodies...); err != nil {
		return err
	}
	return l.Flush(ctx)
}

// AppendEvents is Append for events that already carry their time and the command they take.
func (l *Log) AppendEvents(ctx context.Context, evs ...td.Event) error {
	for _, ev := range evs {
		if err := l.fold(ev); err != nil {
			return err
		}
	}
	return l.Flush(ctx)
}

// Move decides on the task as it stands, staged records included, and carries the move out.
func (l *Log) Move(ctx context.Context, decide func(t td.Task, at time.Time) (td.Move, error)) error {
	m, err := decide(l.task, l.Now())
	if err != nil {
		return err
	}
	return l.AppendEvents(ctx, m.Events...)
}

// fold takes in an event as a later life will read it: what JSON does to it on the way to the disk and
// back (compacted input, replaced bytes that are no text) is done to it here, so that the conversation
// is the same bytes before a crash and after it (L-2).
func (l *Log) fold(ev td.Event) error {
	ev.Seq = l.task.Head + 1
	sealed, err := l.seal(ev.Body)
	if err != nil {
		return err
	}
	ev.Body = sealed.Body
	task, err := l.task.Apply(ev)
	if err != nil {
		return err
	}
	l.task = task
	l.script.Apply(ev)
	ev.Body = sealed
	l.staged = append(l.staged, ev)
	return nil
}

// seal encodes a body as the journal will keep it: without secrets, if the journal takes them out. What the model
// reads is what is kept.
func (l *Log) seal(b td.Body) (td.Sealed, error) {
	if c, cleans := l.journal.(store.Cleaner); cleans {
		return c.Clean(b)
	}
	return td.Seal(b)
}

// storeWaits are the pauses before a failed append is tried again (L-1).
var storeWaits = []time.Duration{50 * time.Millisecond, 250 * time.Millisecond, time.Second}

// Flush puts what is staged on disk. A store that fails is tried again a few times; after that the run
// must stop, and what was staged is found out again by recovery.
func (l *Log) Flush(ctx context.Context) error {
	if len(l.staged) == 0 {
		return nil
	}
	return l.write(ctx, l.staged)
}

// offer records bodies, and all that was staged before them, if the journal grants what they want. If it
// does not, the error is a td.Busy, and what was staged before stays staged.
func (l *Log) offer(ctx context.Context, bodies ...td.Body) error {
	task, evs := l.task, l.staged[:len(l.staged):len(l.staged)]
	var offered []td.Event
	for _, b := range bodies {
		sealed, err := l.seal(b)
		if err != nil {
			return err
		}
		ev := td.Event{Task: task.ID, Seq: task.Head + 1, At: l.Now(), Body: sealed.Body}
		if task, err = task.Apply(ev); err != nil {
			return err
		}
		offered = append(offered, ev)
		ev.Body = sealed
		evs = append(evs, ev)
	}
	if err := l.write(ctx, evs); err != nil {
		return err
	}
	l.task = task
	for _, ev := range offered {
		l.script.Apply(ev)
	}
	return nil
}

// write puts events on disk, which are or begin with what is staged.
func (l *Log) write(ctx context.Context, evs []td.Event) error {
	// A record that says what already happened must not be lost because the run is being stopped.
	ctx = context.WithoutCancel(ctx)
	fpBeforeAppend.Hit()
	for try := 0; ; try++ {
		task, err := l.journal.Append(ctx, l.claim, l.head, evs...)
		if err == nil {
			clear(l.staged) // the run may wait for long now: what was written need not wait with it
			l.head, l.staged = task.Head, l.staged[:0]
			fpAfterAppend.Hit()
			if l.freed != nil && l.kept.Frees(task) {
				l.freed(l.kept.GivesBack(task))
			}
			l.kept = task
			for _, f := range l.then {
				f()
			}
			clear(l.then)
			l.then = l.then[:0]
			return nil
		}
		kind := td.KindOf(err)
		if try == len(storeWaits) || kind != td.Storage && kind != td.Unknown {
			return fmt.Errorf("record %s: %w", l.task.Handle, err)
		}
		time.Sleep(storeWaits[try])
	}
}
