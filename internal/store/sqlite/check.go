package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// Check proves the journal against itself.
func (s *Store) Check(ctx context.Context) ([]store.Problem, error) {
	var found []store.Problem
	var ids []td.TaskID
	err := s.pool.with(ctx, func(c *conn) error {
		if err := c.query(func(r *sqlite3.Stmt) error {
			if what := r.ColumnText(0); what != "ok" {
				found = append(found, store.Problem{What: what, Fix: td.HintOf(corrupt(s.path, fmt.Errorf("%s", what)))})
			}
			return nil
		}, "PRAGMA integrity_check"); err != nil {
			return err
		}
		wrong, err := wrongSums(c)
		if err != nil {
			return err
		}
		for _, what := range wrong {
			found = append(found, store.Problem{What: what, Fix: seeRepair})
		}
		return c.query(func(r *sqlite3.Stmt) error { ids = append(ids, td.TaskID(r.ColumnText(0))); return nil },
			"SELECT id FROM tasks ORDER BY n")
	})
	if err != nil {
		return found, fmt.Errorf("check the journal: %w", s.classify(err))
	}
	for _, id := range ids {
		problems, err := s.checkTask(ctx, id)
		if err != nil {
			return found, fmt.Errorf("check the journal: %w", s.classify(err))
		}
		found = append(found, problems...)
	}
	return found, nil
}

// checkTask folds a task's events and compares the result with what is kept beside them.
func (s *Store) checkTask(ctx context.Context, id td.TaskID) ([]store.Problem, error) {
	f := folding{s: s, id: id, noted: map[uint64]td.IterationEnded{}, runs: map[string]td.GraphRun{}}
	err := s.pool.with(ctx, func(c *conn) error {
		return c.inTxn(func() error { return f.run(c) })
	})
	return f.found, err
}

// folding is the check of one task.
type folding struct {
	s     *Store
	id    td.TaskID
	found []store.Problem

	task    td.Task
	cursor  uint64 // of the record
	noted   map[uint64]td.IterationEnded
	runs    map[string]td.GraphRun
	began   bool
	booked  td.Money
	tokens  int64
	partial bool // records were trimmed or cannot be read: there is no fold to compare
}

func (f *folding) problem(format string, args ...any) {
	f.found = append(f.found, store.Problem{Task: f.id, What: fmt.Sprintf(format, args...), Fix: seeRepair})
}

const seeRepair = "see docs/journal.md, repair"

func (f *folding) run(c *conn) error {
	if f.id == td.DaemonStream {
		f.task = rule.Daemon()
	}
	e, ok, err := loadEntry(c, f.id)
	if td.IsKind(err, td.Corrupt) {
		f.problem("%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	if !ok {
		f.problem("part of it is missing")
		return nil
	}
	if err := f.columns(c, e); err != nil {
		return err
	}
	cursors, err := chain(c, e.n, e.newest, 0, 0)
	if err != nil {
		return err
	}
	if len(cursors) == 0 && e.newest > 0 {
		f.problem("its newest record is missing")
		return nil
	}
	for _, f.cursor = range cursors {
		if err := c.query(f.event, "SELECT seq, at, type, blob, size, body, prev FROM events WHERE cursor = ?", f.cursor); err != nil {
			return err
		}
	}
	if err := f.notes(c, e); err != nil {
		return err
	}
	if f.partial {
		return nil
	}
	if f.task.Head != e.task.Head {
		f.problem("it has %d records, its newest should be %d", f.task.Head, e.task.Head)
		return nil
	}
	want, err := canonical(f.task)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(want, *e.task) {
		f.problem("what is kept of it differs from the fold of its %d records", f.task.Head)
	}
	if err := f.graphRuns(c); err != nil {
		return err
	}
	if err := f.leases(c, e); err != nil {
		return err
	}
	if err := f.ledger(c, e); err != nil {
		return err
	}
	return f.requests(c, e)
}

// columns compares what is kept apart, to be searched, with the task it was taken from.
func (f *folding) columns(c *conn, e entry) error {
	_, err := c.one(func(r *sqlite3.Stmt) error {
		if r.ColumnText(0) != string(e.task.Status.State) || r.ColumnText(1) != e.task.Handle ||
			r.ColumnText(2) != e.task.Dir || r.ColumnInt(3) != e.task.Priority {
			f.problem("it is listed otherwise than it is")
		}
		return nil
	}, "SELECT state, handle, dir, priority FROM tasks WHERE n = ?", e.n)
	return err
}

// event folds one record.
func (f *folding) event(r *sqlite3.Stmt) error {
	ev := td.Event{Seq: uint64(r.ColumnInt64(0)), Task: f.id, At: rule.FromNanos(r.ColumnInt64(1))}
	was, blob, size := td.EventType(r.ColumnText(2)), r.ColumnBlob(3, nil), r.ColumnInt64(4)
	ev.Body = f.s.blobs.body(was, blob, size, r.ColumnBlob(5, nil))
	if prev := r.ColumnInt64(6); !f.began && prev != 0 {
		f.problem("the record before its record %d is missing", ev.Seq)
		f.partial = true
	}
	f.began = true
	switch b := ev.Body.(type) {
	case td.IterationEnded:
		f.noted[f.cursor] = b
	case td.Unreadable:
		f.problem("record %d (%s) cannot be read: %s", ev.Seq, b.Was, b.Err)
		f.partial = true
	case td.Trimmed:
		f.partial = true
	}
	if f.partial {
		return nil
	}
	if f.task.Head+1 < ev.Seq && f.task.Head > 0 && rule.KeepsRecord(was) || f.task.Head == 0 && ev.Seq > 1 {
		f.partial = true // whole records were trimmed
		return nil
	}
	_, booked := td.Book(f.task.Reserved, ev)
	for _, b := range booked {
		f.booked += b.Amount
		f.tokens += b.Tokens
	}
	if err := rule.Apply(&f.task, ev); err != nil {
		f.problem("record %d (%s) does not follow from those before it: %v", ev.Seq, was, err)
		f.partial = true
	}
	if name, of := td.GraphRunOf(ev.Body); of {
		ev.Cursor = f.cursor
		f.runs[name] = f.runs[name].Apply(ev)
	}
	return nil
}

// requests compares the table of open requests with the task's.
func (f *folding) requests(c *conn, e entry) error {
	open := map[td.RequestID]bool{}
	if err := c.query(func(r *sqlite3.Stmt) error { open[td.RequestID(r.ColumnText(0))] = true; return nil },
		"SELECT id FROM requests WHERE task = ?", e.n); err != nil {
		return err
	}
	for _, r := range e.task.Requests {
		if !open[r.ID] {
			f.problem("its open request %s cannot be found by name", r.Handle())
		}
		delete(open, r.ID)
	}
	for id := range open {
		f.problem("the request %s is listed as open and is not", id.Handle())
	}
	return nil
}

// canonical is the task as it comes back from disk.
func canonical(t td.Task) (out td.Task, err error) {
	spec, err := json.Marshal(t.Spec)
	if err != nil {
		return out, err
	}
	live, err := json.Marshal(t.Live)
	if err != nil {
		return out, err
	}
	return decodeTask(spec, live)
}
