package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// grant refuses events whose steps want what is not free.
func (t *tx) grant(before, next *td.Task, evs []td.Record) error {
	return rule.Grant(before, next, evs, func(resources []string) (td.Locks, error) {
		names, err := json.Marshal(resources)
		if err != nil {
			return td.Locks{}, err
		}
		return readLocks(t.c, string(names), func(id td.TaskID) (*td.Task, error) {
			e, err := t.load(id)
			return e.task, err
		})
	})
}

// lease keeps the tables of leases and waiters in step with the task.
func (t *tx) lease(n int64, before, next *td.Task, evs []td.Record) error {
	if !rule.LeasesChange(before, next, evs) {
		return nil
	}
	fences := map[rule.LeaseID]uint64{}
	if err := t.c.query(func(r *sqlite3.Stmt) error {
		fences[rule.LeaseID{Resource: r.ColumnText(0), Step: td.StepKey(r.ColumnText(1))}] = uint64(r.ColumnInt64(2))
		return nil
	}, "SELECT resource, step, fence FROM leases WHERE task = ?", n); err != nil {
		return err
	}
	ticket, err := t.c.number("SELECT coalesce(max(ticket), 0) FROM waiters WHERE task = ?", n)
	if err != nil {
		return err
	}
	fpLeaseWrite.Hit()
	if err := t.exec("DELETE FROM leases WHERE task = ?", n); err != nil {
		return err
	}
	if err := t.exec("DELETE FROM waiters WHERE task = ?", n); err != nil {
		return err
	}
	for _, l := range rule.Fence(next, evs, fences) {
		if err := t.exec("INSERT INTO leases (resource, task, step, fence) VALUES (?, ?, ?, ?)",
			l.Resource, n, string(l.Step), l.Fence); err != nil {
			return err
		}
	}
	w := rule.Queued(before, next, evs, uint64(ticket))
	if w == nil {
		return nil
	}
	for _, want := range w.Wants {
		if err := t.exec("INSERT INTO waiters (resource, ticket, task) VALUES (?, ?, ?)", want.Resource, w.Ticket, n); err != nil {
			return err
		}
	}
	return nil
}

// readLocks reads the leases and waiters of these resources, a JSON list, or of all when it is null. The
// tables only say where to look: what counts is what a task's events were folded into.
func readLocks(c *conn, resources string, load func(td.TaskID) (*td.Task, error)) (td.Locks, error) {
	type row struct {
		task   td.TaskID
		id     rule.LeaseID
		number uint64
	}
	read := func(sql string) (out []row, err error) {
		err = c.query(func(r *sqlite3.Stmt) error {
			out = append(out, row{
				td.TaskID(r.ColumnText(0)), rule.LeaseID{Resource: r.ColumnText(1), Step: td.StepKey(r.ColumnText(2))},
				uint64(r.ColumnInt64(3)),
			})
			return nil
		}, sql, resources)
		return out, err
	}
	var l td.Locks
	held, err := read(`SELECT t.id, l.resource, l.step, l.fence FROM leases l JOIN tasks t ON t.n = l.task
		WHERE ?1 = 'null' OR l.resource IN (SELECT value FROM json_each(?1))`)
	if err != nil {
		return l, err
	}
	for _, h := range held {
		task, err := load(h.task)
		if unreadable(err) {
			continue
		}
		if err != nil {
			return l, err
		}
		for _, lease := range task.Leases() {
			if rule.IDOf(lease) == h.id {
				lease.Fence = h.number
				l.Held = append(l.Held, lease)
			}
		}
	}
	waits, err := read(`SELECT DISTINCT t.id, '', '', w.ticket FROM waiters w JOIN tasks t ON t.n = w.task
		WHERE ?1 = 'null' OR w.resource IN (SELECT value FROM json_each(?1))`)
	if err != nil {
		return l, err
	}
	for _, w := range waits {
		task, err := load(w.task)
		if unreadable(err) {
			continue
		}
		if err != nil {
			return l, err
		}
		if task.Place != nil {
			l.Waiters = append(l.Waiters, td.Waiter{
				Place: *task.Place, Task: task.ID, Handle: task.Handle, Title: task.Title, Ticket: w.number,
			})
		}
	}
	return rule.SortLocks(l), nil
}

// unreadable reports whether a task is lost. What it had is free: it will never give it back, and must not
// stop all others. Check reports it.
func unreadable(err error) bool { return td.IsKind(err, td.Corrupt) || td.IsKind(err, td.NotFound) }

// Locks are all leases and all who wait.
func (s *Store) Locks(ctx context.Context) (l td.Locks, err error) {
	err = s.pool.with(ctx, func(c *conn) error {
		return c.inTxn(func() error {
			l, err = readLocks(c, "null", func(id td.TaskID) (*td.Task, error) {
				e, ok, err := loadEntry(c, id)
				if err == nil && !ok {
					err = rule.NoTask(id)
				}
				return e.task, err
			})
			return err
		})
	})
	if err != nil {
		return td.Locks{}, fmt.Errorf("read leases: %w", s.classify(err))
	}
	return l, nil
}

// leases compares the tables of leases and waiters with the task's.
func (f *folding) leases(c *conn, e entry) error {
	listed := map[rule.LeaseID]bool{}
	if err := c.query(func(r *sqlite3.Stmt) error {
		listed[rule.LeaseID{Resource: r.ColumnText(0), Step: td.StepKey(r.ColumnText(1))}] = true
		return nil
	}, "SELECT resource, step FROM leases WHERE task = ?", e.n); err != nil {
		return err
	}
	for _, l := range e.task.Leases() {
		if !listed[rule.IDOf(l)] {
			f.problem("its lease on %s is not listed: others may take it", l.Resource)
		}
		delete(listed, rule.IDOf(l))
	}
	for id := range listed {
		f.problem("it is listed with a lease on %s that it does not have; it counts as free", id.Resource)
	}
	var waits, want []string
	if err := c.query(func(r *sqlite3.Stmt) error { waits = append(waits, r.ColumnText(0)); return nil },
		"SELECT resource FROM waiters WHERE task = ? ORDER BY resource", e.n); err != nil {
		return err
	}
	if p := e.task.Place; p != nil {
		for _, w := range p.Wants {
			want = append(want, w.Resource)
		}
	}
	if !slices.Equal(waits, want) {
		f.problem("it is listed as waiting for %q, and waits for %q", waits, want)
	}
	return nil
}
