package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

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
		kept, level := td.EventType.Audited, trimmedBodies
		sql := `UPDATE events SET body = NULL, blob = NULL, size = 0
			WHERE task = ?1 AND cursor <= ?2 AND type IN (SELECT value FROM json_each(?3)) AND (body IS NOT NULL OR blob IS NOT NULL)`
		if d.records {
			kept, level = rule.KeepsRecord, trimmedRecords
			sql = `DELETE FROM events WHERE task = ?1 AND cursor <= ?2 AND type IN (SELECT value FROM json_each(?3))`
		}
		types, err := letGo(t.c, e.n, kept)
		if err != nil {
			return err
		}
		fpTrimBodies.Hit()
		// The journal's newest record stays in any case: its cursor is where the next one goes on.
		upTo := min(p.Mirrored, t.last-min(t.last, 1))
		if err := t.exec(sql, e.n, upTo, types); err != nil {
			return err
		}
		removed = int(t.c.Changes())
		if d.records {
			err = t.exec("DELETE FROM inbox WHERE task = ? AND consumed <= ?", e.n, upTo)
		} else {
			err = t.exec("UPDATE inbox SET command = x'' WHERE task = ? AND consumed <= ?", e.n, upTo)
		}
		if err != nil {
			return err
		}
		if newest, err := t.c.number("SELECT max(cursor) FROM events WHERE task = ?", e.n); err != nil || uint64(newest) > upTo {
			return err // not all of it could go yet: it is looked at again
		}
		return t.exec("UPDATE tasks SET trimmed = ? WHERE n = ?", level, e.n)
	})
	return removed, err
}

// trimDaemon removes old records of the daemon's own stream.
func (s *Store) trimDaemon(ctx context.Context, p store.Retention) (removed int, err error) {
	before, err := rule.Nanos(rule.RecordsBefore(p))
	if err != nil {
		return 0, err
	}
	err = s.w.do(ctx, func(t *tx) error {
		removed = 0
		e, err := t.load(td.DaemonStream)
		if err != nil {
			return err
		}
		upTo := min(p.Mirrored, t.last-min(t.last, 1))
		if n, err := t.c.number("SELECT count(*) FROM events WHERE task = ? AND cursor <= ? AND at < ? AND at > ?",
			e.n, upTo, before, int64(math.MinInt64)); err != nil || n == 0 {
			return err
		}
		fpTrimBodies.Hit()
		if err := t.exec("DELETE FROM events WHERE task = ? AND cursor <= ? AND at < ? AND at > ?",
			e.n, upTo, before, int64(math.MinInt64)); err != nil {
			return err
		}
		removed = int(t.c.Changes())
		return nil
	})
	return removed, err
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

// letGo are the types of records in the task's stream that retention removes, as a JSON list.
func letGo(c *conn, n int64, kept func(td.EventType) bool) (string, error) {
	types := []td.EventType{}
	if err := c.query(func(r *sqlite3.Stmt) error {
		if t := td.EventType(r.ColumnText(0)); !kept(t) {
			types = append(types, t)
		}
		return nil
	}, "SELECT DISTINCT type FROM events WHERE task = ?", n); err != nil {
		return "", err
	}
	raw, err := json.Marshal(types)
	return string(raw), err
}
