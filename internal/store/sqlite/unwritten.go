package sqlite

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/td"
)

// unwritten are the rows of events and lives that the calls of a group made and its transaction does not have yet.
// They are put into it many at a time: with a statement for each row the database was busier with beginning and
// ending statements than with rows.
type unwritten struct {
	events []eventRow // in the order of their cursors
	lives  []liveRow
}

type eventRow struct {
	task  int64
	prev  uint64
	epoch uint64
	at    int64
	ev    *td.Record
	kept  // where its body goes
}

type liveRow struct {
	task   int64
	newest uint64
	live   []byte
}

// flush writes the rows that are not written yet. Whoever looks at events or lives in a group's transaction
// calls it first; the commit does at last.
func (t *tx) flush() error {
	u := &t.w.unwritten
	if len(u.events) > 0 {
		fpEventsAppend.Hit()
		if err := writeRows(t, &t.w.stmts.events, u.events, bindEvent); err != nil {
			return err
		}
	}
	if len(u.lives) > 0 {
		fpEventsFold.Hit()
		if err := writeRows(t, &t.w.stmts.lives, newestLives(u.lives), bindLive); err != nil {
			return err
		}
	}
	u.forget()
	return nil
}

// forget drops the rows. What they point to belongs to callers, and is not to be kept alive.
func (u *unwritten) forget() {
	clear(u.events)
	clear(u.lives)
	u.events, u.lives = u.events[:0], u.lives[:0]
}

// newestLives are the last row of each task, in the table's order: neighbours share pages.
func newestLives(rows []liveRow) []liveRow {
	slices.SortFunc(rows, func(a, b liveRow) int { return cmp.Or(cmp.Compare(a.task, b.task), cmp.Compare(a.newest, b.newest)) })
	kept := rows[:0]
	for i, r := range rows {
		if i+1 == len(rows) || rows[i+1].task != r.task {
			kept = append(kept, r)
		}
	}
	return kept
}

// stmts are the statements that nearly every group runs.
type stmts struct{ events, lives rowsStmt }

func newStmts() stmts {
	return stmts{
		// A statement that fails half-way may leave its rows, which saves a copy of the pages: the group is rolled back then.
		events: rowsStmt{columns: 11, sql: `INSERT OR FAIL INTO events
			(cursor, task, seq, prev, epoch, at, type, takes, blob, size, body) VALUES `},
		lives: rowsStmt{columns: 3, sql: "REPLACE INTO lives (task, newest, live) VALUES "},
	}
}

// rowsStmt is a statement that writes rows, in a few sizes.
type rowsStmt struct {
	sql      string
	columns  int
	prepared [len(batches)]*sqlite3.Stmt
}

// batches are how many rows one statement may write.
var batches = [...]int{32, 4, 1}

// of is the statement for the i-th of the batches.
func (r *rowsStmt) of(c *conn, i int) (*sqlite3.Stmt, error) {
	if r.prepared[i] != nil {
		return r.prepared[i], nil
	}
	row := "(?" + strings.Repeat(", ?", r.columns-1) + ")"
	s, err := c.stmt(r.sql+row+strings.Repeat(", "+row, batches[i]-1), nil)
	if err == nil {
		r.prepared[i] = s
	}
	return s, err
}

// writeRows writes rows in as few statements as there are sizes for.
func writeRows[R any](t *tx, stmt *rowsStmt, rows []R, bind func(*binder, *R)) error {
	for i, n := range batches {
		for len(rows) >= n {
			s, err := stmt.of(t.c, i)
			if err != nil {
				return err
			}
			b := binder{s: s}
			for j := range rows[:n] {
				bind(&b, &rows[j])
			}
			if err := b.exec(); err != nil {
				return err
			}
			rows = rows[n:]
		}
	}
	return nil
}

func bindEvent(b *binder, r *eventRow) {
	b.int(int64(r.ev.Cursor))
	b.int(r.task)
	b.int(int64(r.ev.Seq))
	b.int(int64(r.prev))
	b.int(int64(r.epoch))
	b.int(r.at)
	b.text(string(r.ev.Body.Type()))
	if r.ev.Takes == "" {
		b.null()
	} else {
		b.text(r.ev.Takes)
	}
	switch {
	case r.blob != nil:
		b.blob(r.blob)
		b.int(int64(len(r.ev.Raw)))
		b.null()
	case r.packed != nil:
		b.null()
		b.int(int64(len(r.ev.Raw)))
		b.blob(r.packed)
	default:
		b.null()
		b.int(int64(len(r.ev.Raw)))
		b.blob(r.ev.Raw)
	}
}

func bindLive(b *binder, r *liveRow) {
	b.int(r.task)
	b.int(int64(r.newest))
	b.blob(r.live)
}

// binder binds one value after the other and keeps the first error. The values are not boxed: an append is a
// dozen of them, and boxing each costs more than handing it over.
type binder struct {
	s    *sqlite3.Stmt
	last int
	err  error
}

func (b *binder) next() int {
	b.last++
	return b.last
}

func (b *binder) keep(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *binder) int(v int64)   { b.keep(b.s.BindInt64(b.next(), v)) }
func (b *binder) text(v string) { b.keep(b.s.BindText(b.next(), v)) }
func (b *binder) blob(v []byte) { b.keep(b.s.BindBlob(b.next(), v)) }
func (b *binder) null()         { b.last++ } // as exec left it

// exec runs the statement and lets go of its values, which may be large.
func (b *binder) exec() error {
	if b.err == nil {
		b.err = b.s.Exec()
	}
	b.keep(b.s.ClearBindings())
	return b.err
}
