package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sync/errgroup"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// checkers is how many tasks are checked at a time, beside the database itself: one connection stays free for others.
const checkers = readers - 2

// Check proves the journal against itself.
func (s *Store) Check(ctx context.Context) ([]store.Problem, error) {
	c := checking{s: s, made: rule.Tallies{}}
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error { return c.database(inner) })
	group.Go(func() error { return c.tasks(inner) })
	err := group.Wait()
	if err == nil {
		err = c.tallies(ctx)
	}
	if err != nil {
		return c.found, fmt.Errorf("check the journal: %w", s.classify(err))
	}
	return c.found, nil
}

// checking is one check of the whole journal.
type checking struct {
	s     *Store
	mu    sync.Mutex
	found []store.Problem
	made  rule.Tallies // by the records that are left
}

func (k *checking) problem(p ...store.Problem) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.found = append(k.found, p...)
}

// database has SQLite look at all pages, and adds up again what is kept as sums.
func (k *checking) database(ctx context.Context) error {
	return k.s.pool.with(ctx, func(c *conn) error {
		if err := c.query(func(r *sqlite3.Stmt) error {
			if what := r.ColumnText(0); what != "ok" {
				k.problem(store.Problem{What: what, Fix: td.HintOf(corrupt(k.s.path, fmt.Errorf("%s", what)))})
			}
			return nil
		}, "PRAGMA integrity_check"); err != nil {
			return err
		}
		wrong, err := wrongSums(c)
		for _, what := range wrong {
			k.problem(store.Problem{What: what, Fix: seeRepair})
		}
		return err
	})
}

// tasks folds all tasks, a few at a time.
func (k *checking) tasks(ctx context.Context) error {
	var ids []td.TaskID
	if err := k.s.pool.with(ctx, func(c *conn) error {
		return c.query(func(r *sqlite3.Stmt) error { ids = append(ids, td.TaskID(r.ColumnText(0))); return nil }, "SELECT id FROM tasks ORDER BY n")
	}); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(checkers)
	for _, id := range ids {
		group.Go(func() error { return k.task(ctx, id) })
	}
	return group.Wait()
}

// task folds a task's events and compares the result with what is kept beside them.
func (k *checking) task(ctx context.Context, id td.TaskID) error {
	f := folding{s: k.s, id: id, noted: map[uint64]td.IterationEnded{}, runs: map[string]td.GraphRun{}, made: rule.Tallies{}}
	err := k.s.pool.with(ctx, func(c *conn) error {
		return c.inTxn(func() error { return f.run(c) })
	})
	k.problem(f.found...)
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, n := range f.made {
		k.made[key] = k.made[key].Add(n)
	}
	return err
}

// tallies holds what was tallied against the records that are left. There may be more than that: records go before their tallies do.
// The oldest tallies are gone while records of tasks that live long are not.
func (k *checking) tallies(ctx context.Context) error {
	return k.s.pool.with(ctx, func(c *conn) error {
		oldest := int64(math.MaxInt64)
		kept, err := tallies(c, "slot, type, kind, name, took, count, failed, calls, input, output, cache_read, cache_write, cost FROM tallies")
		for _, n := range kept {
			oldest = min(oldest, n.Slot)
			if made, any := k.made[n.TallyKey]; any && n.Covers(made) {
				delete(k.made, n.TallyKey)
			}
		}
		for key := range k.made {
			if key.Slot >= oldest {
				k.problem(store.Problem{What: "less was tallied than the records say", Fix: seeRepair})
				break
			}
		}
		return err
	})
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
	made    rule.Tallies
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
	for some := range slices.Chunk(cursors, chunkEvents) {
		list, err := json.Marshal(some)
		if err != nil {
			return err
		}
		if err := c.query(f.event, `SELECT seq, at, type, blob, size, body, prev, cursor FROM events
			WHERE cursor IN (SELECT value FROM json_each(?)) ORDER BY cursor`, string(list)); err != nil {
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
	f.cursor = uint64(r.ColumnInt64(7))
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
	f.made.Add(f.task.InFlight, []td.Record{{Event: ev}})
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
