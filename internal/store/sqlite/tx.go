package sqlite

import (
	"encoding/json"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/bus"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// entry is a task as the writer knows it.
type entry struct {
	n      int64
	task   *td.Task // never changed, only replaced
	newest uint64   // cursor of its newest event
	epoch  uint64
	held   bool
	holder td.Holder
	// expires is the claim's end as it is on disk.
	expires int64
}

// tx is a group's transaction. What it learns and changes becomes the writer's knowledge only when it
// is committed.
type tx struct {
	w       *writer
	c       *conn
	last    uint64
	commits uint64 // the number of this group
	wrote   bool
	publish []bus.Entry
	tallies rule.Tallies // what the group's events add to the table
	after   []func()     // run after the commit, by the writer
}

// newTx is a transaction for a group of this many calls.
func newTx(w *writer, calls int) *tx {
	clear(w.staged)
	return &tx{w: w, c: w.c, last: w.last, commits: w.commits + 1, publish: make([]bus.Entry, 0, calls), tallies: rule.Tallies{}}
}

// committed makes the transaction's changes the writer's knowledge: the next group builds on them.
func (t *tx) committed() {
	t.w.cache.put(t.w.staged)
	for _, f := range t.after {
		f()
	}
	t.w.last, t.w.commits = t.last, t.commits
}

// exec writes.
func (t *tx) exec(sql string, args ...any) error {
	t.wrote = true
	return t.c.exec(sql, args...)
}

// load returns a copy of what is known of the task in this transaction.
func (t *tx) load(id td.TaskID) (entry, error) {
	if e := t.w.staged[id]; e != nil {
		return *e, nil
	}
	if e := t.w.cache.get(id); e != nil {
		return *e, nil
	}
	e, ok, err := loadEntry(t.c, id)
	if err != nil {
		return entry{}, err
	}
	if !ok {
		return entry{}, rule.NoTask(id)
	}
	return e, nil
}

// stage keeps what this transaction made of the task.
func (t *tx) stage(id td.TaskID, e entry) { t.w.staged[id] = &e }

// fenced loads the task of a claim and checks that the claim still holds it.
func (t *tx) fenced(c td.Claim) (entry, error) {
	e, err := t.load(c.Task)
	if err != nil {
		return e, err
	}
	if !e.held || e.epoch != c.Epoch {
		return e, rule.Fenced(c, e.epoch)
	}
	return e, nil
}

const selectEntry = `SELECT t.n, l.live, s.spec, c.epoch, c.holder, c.expires, l.newest
	FROM tasks t JOIN lives l ON l.task = t.n JOIN specs s ON s.task = t.n LEFT JOIN claims c ON c.task = t.n WHERE t.id = ?`

// loadEntry reads a task with its claim.
func loadEntry(c *conn, id td.TaskID) (e entry, ok bool, err error) {
	ok, err = c.one(func(r *sqlite3.Stmt) error {
		e.n = r.ColumnInt64(0)
		e.epoch = uint64(r.ColumnInt64(3))
		e.held = r.ColumnType(4) != sqlite3.NULL
		if e.held {
			if err := json.Unmarshal(r.ColumnRawText(4), &e.holder); err != nil {
				return td.Errorf(td.Corrupt, "the claim on %s cannot be read: %w", id.Handle(), err)
			}
		}
		e.expires = r.ColumnInt64(5)
		e.newest = uint64(r.ColumnInt64(6))
		task, err := decodeTask(r.ColumnRawBlob(2), r.ColumnRawBlob(1))
		e.task = &task
		return err
	}, selectEntry, string(id))
	if td.IsKind(err, td.Corrupt) {
		return e, ok, fmt.Errorf("task %s: %w", id.Handle(), err)
	}
	return e, ok, err
}

func decodeTask(spec, live []byte) (t td.Task, err error) {
	if err := json.Unmarshal(spec, &t.Spec); err != nil {
		return t, td.Errorf(td.Corrupt, "its spec cannot be read: %w", err)
	}
	if err := json.Unmarshal(live, &t.Live); err != nil {
		return t, td.Errorf(td.Corrupt, "what its events were folded into cannot be read: %w", err)
	}
	return t.Renewed(), nil
}
