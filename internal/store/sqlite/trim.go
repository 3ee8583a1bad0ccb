package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// How far a task was trimmed, in tasks.trimmed.
const (
	trimmedBodies  = 1
	trimmedRecords = 2
)

// Trim removes bodies that retention lets go, and records older than the audit is kept. It goes task
// by task, so that others write in between.
func (s *Store) Trim(ctx context.Context, p store.Retention) (out store.Trimmed, err error) {
	due, err := s.due(ctx, p)
	for _, d := range due {
		var events int
		if events, err = s.trimTask(ctx, p, d); err != nil {
			break
		}
		out.Events += events
		if events > 0 {
			out.Tasks++
		}
	}
	if err == nil {
		var events int
		events, err = s.trimDaemon(ctx, p)
		out.Events += events
	}
	if err == nil {
		out.Blobs, err = s.sweep(ctx)
	}
	if err == nil {
		err = s.giveBack(ctx)
	}
	if err != nil {
		return out, fmt.Errorf("trim the journal: %w", s.classify(err))
	}
	return out, nil
}

// dueTask is a task that retention may have something to say about.
type dueTask struct {
	id      td.TaskID
	records bool // whole records go, not only bodies
}

func (s *Store) due(ctx context.Context, p store.Retention) ([]dueTask, error) {
	records, err := rule.Nanos(rule.RecordsBefore(p))
	if err != nil {
		return nil, err
	}
	var out []dueTask
	err = s.pool.with(ctx, func(c *conn) error {
		return c.query(func(r *sqlite3.Stmt) error {
			ended, trimmed := r.ColumnInt64(2), r.ColumnInt64(3)
			before, ok := rule.BodiesBefore(p, td.State(r.ColumnText(1)))
			d := dueTask{id: td.TaskID(r.ColumnText(0)), records: ended < records}
			bodies := ok && rule.FromNanos(ended).Before(before)
			if d.records && trimmed < trimmedRecords || bodies && trimmed < trimmedBodies {
				out = append(out, d)
			}
			return nil
		}, "SELECT id, state, ended_at, trimmed FROM tasks WHERE ended_at IS NOT NULL AND trimmed < ?", trimmedRecords)
	})
	return out, err
}

func (s *Store) trimTask(ctx context.Context, p store.Retention, d dueTask) (removed int, err error) {
	err = s.w.do(ctx, func(t *tx) error {
		removed = 0
		e, err := t.load(d.id)
		if err != nil {
			return err
		}
		if !e.task.Status.State.Terminal() {
			return nil // a person asked to try it again meanwhile
		}
		upTo := t.trimmable(p)
		if e.newest > p.Mirrored {
			return nil // the mirror has a turn when it has its end: it is looked at again
		}
		level := trimmedBodies
		if d.records {
			level = trimmedRecords
			removed, err = t.dropRecords(&e, upTo, func(r brief) bool { return !rule.KeepsRecord(r.was) })
		} else {
			removed, err = t.dropBodies(e, upTo)
		}
		if err != nil {
			return err
		}
		if e.newest > upTo {
			return nil // not all of it could go yet: it is looked at again
		}
		return t.exec("UPDATE tasks SET trimmed = ? WHERE n = ?", level, e.n)
	})
	return removed, err
}

// trimDaemon removes old records of the daemon's own stream.
func (s *Store) trimDaemon(ctx context.Context, p store.Retention) (removed int, err error) {
	before := rule.RecordsBefore(p)
	err = s.w.do(ctx, func(t *tx) error {
		e, err := t.load(td.DaemonStream)
		if err != nil {
			return err
		}
		removed, err = t.dropRecords(&e, t.trimmable(p), func(r brief) bool { return !r.at.IsZero() && r.at.Before(before) })
		if err != nil {
			return err
		}
		if err := t.forgetTallies(before); err != nil {
			return err
		}
		return t.forgetRuns(p)
	})
	return removed, err
}

// trimmable is the cursor up to which records may go. The journal's newest stays in any case: its
// cursor is where the next one goes on.
func (t *tx) trimmable(p store.Retention) uint64 { return min(p.Mirrored, t.last-min(t.last, 1)) }

// brief is a record without its body.
type brief struct {
	cursor, prev uint64
	was          td.EventType
	at           time.Time
	bare         bool // its body is gone
}

// stream lists the task's records, oldest first.
func (t *tx) stream(e entry) ([]brief, error) {
	if err := t.flush(); err != nil {
		return nil, err
	}
	cursors, err := chain(t.c, e.n, e.newest, 0, 0)
	if err != nil {
		return nil, err
	}
	out := make([]brief, 0, len(cursors))
	for _, cursor := range cursors {
		if err := t.c.query(func(r *sqlite3.Stmt) error {
			out = append(out, brief{
				cursor, uint64(r.ColumnInt64(0)), td.EventType(r.ColumnText(1)),
				rule.FromNanos(r.ColumnInt64(2)), r.ColumnBool(3),
			})
			return nil
		}, "SELECT prev, type, at, body IS NULL AND blob IS NULL FROM events WHERE cursor = ?", cursor); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// dropBodies removes the bodies that are not to stay, and the text of consumed commands.
func (t *tx) dropBodies(e entry, upTo uint64) (removed int, err error) {
	records, err := t.stream(e)
	if err != nil {
		return 0, err
	}
	fpTrimBodies.Hit()
	for _, r := range records {
		if r.cursor > upTo || r.bare || rule.KeepsBody(r.was) {
			continue
		}
		if err := t.exec("UPDATE events SET body = NULL, blob = NULL, size = 0 WHERE cursor = ?", r.cursor); err != nil {
			return 0, err
		}
		removed++
	}
	return removed, t.exec("UPDATE inbox SET command = x'' WHERE task = ? AND consumed <= ?", e.n, upTo)
}

// dropRecords removes whole records and mends the chain around them.
func (t *tx) dropRecords(e *entry, upTo uint64, old func(brief) bool) (removed int, err error) {
	records, err := t.stream(*e)
	if err != nil {
		return 0, err
	}
	fpTrimBodies.Hit()
	prev := uint64(0)
	for _, r := range records {
		switch {
		case r.cursor <= upTo && old(r):
			removed++
			err = t.dropRecord(r)
		case r.prev != prev:
			err = t.exec("UPDATE events SET prev = ? WHERE cursor = ?", prev, r.cursor)
			prev = r.cursor
		default:
			prev = r.cursor
		}
		if err != nil {
			return 0, err
		}
	}
	if removed == 0 {
		return 0, nil
	}
	e.newest = prev
	t.stage(e.task.ID, *e)
	if err := t.exec("UPDATE lives SET newest = ? WHERE task = ?", prev, e.n); err != nil {
		return 0, err
	}
	return removed, t.exec("DELETE FROM inbox WHERE task = ? AND consumed <= ?", e.n, upTo)
}

func (t *tx) dropRecord(r brief) error {
	if r.was == (td.IterationEnded{}).Type() {
		if err := t.exec("DELETE FROM notes WHERE cursor = ?", r.cursor); err != nil {
			return err
		}
	}
	return t.exec("DELETE FROM events WHERE cursor = ?", r.cursor)
}

// sweep removes blobs that no record refers to: those of trimmed records, and those of calls that a
// crash cut off before their commit.
func (s *Store) sweep(ctx context.Context) (int, error) {
	return s.blobs.sweep(func(h hash) (bool, error) {
		var n int64
		err := s.pool.with(ctx, func(c *conn) (err error) {
			n, err = c.number("SELECT count(*) FROM events WHERE blob = ?", h[:])
			return err
		})
		return n > 0, err
	})
}

// Pages that are free in the database are used again. A part of them is kept for that, the rest goes back to the disk, a
// few at a time.
const (
	sparePart   = 16  // of all pages, as a divisor
	spareLeast  = 256 // pages
	returnPages = 128 // at once: about what one call of a model writes
)

// giveBack makes the database smaller by the pages that it does not need. Others write in between.
func (s *Store) giveBack(ctx context.Context) error {
	for {
		more := false
		err := s.w.do(ctx, func(t *tx) error {
			free, err := spare(t.c)
			if more = err == nil && free > 0; !more {
				return err
			}
			return t.exec(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", min(free, returnPages)))
		})
		if err != nil || !more {
			return err
		}
	}
}

// spare is how many pages can be given back; none of a database that was made before it kept account of where they are.
func spare(c *conn) (int64, error) {
	kept, err := c.number("PRAGMA auto_vacuum")
	if err != nil || kept != incremental {
		return 0, err
	}
	free, all, err := pages(c)
	return max(0, free-max(spareLeast, all/sparePart)), err
}

func pages(c *conn) (free, all int64, err error) {
	if free, err = c.number("PRAGMA freelist_count"); err != nil {
		return 0, 0, err
	}
	all, err = c.number("PRAGMA page_count")
	return free, all, err
}

// incremental is what PRAGMA auto_vacuum says of a database whose pages can be given back.
const incremental = 2

// shrink writes a database anew that was made before its pages could be given back, when most of it is free: then that takes
// less time than what is saved is worth. It is for the start, before anybody else has the database.
func shrink(c *conn) error {
	kept, err := c.number("PRAGMA auto_vacuum")
	if err != nil || kept == incremental {
		return err
	}
	free, all, err := pages(c)
	if err != nil || free < spareLeast || free < all/2 {
		return err
	}
	return c.Exec("PRAGMA auto_vacuum=incremental; VACUUM")
}
