package sqlite

import (
	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/store/rule"
)

// hot are the two statements that every append runs. They are bound by hand: an append is a dozen
// values, and boxing each costs more than handing it over.
type hot struct {
	insert, update *sqlite3.Stmt
}

func (t *tx) hotStmts() (*hot, error) {
	if h := t.w.hot; h != nil {
		return h, nil
	}
	insert, err := t.c.stmt(`INSERT INTO events (cursor, task, seq, prev, epoch, at, type, takes, blob, size, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, nil)
	if err != nil {
		return nil, err
	}
	update, err := t.c.stmt("UPDATE lives SET newest = ?, live = ? WHERE task = ?", nil)
	if err != nil {
		return nil, err
	}
	t.w.hot = &hot{insert, update}
	return t.w.hot, nil
}

// insertEvent writes one event row.
func (t *tx) insertEvent(e *entry, epoch uint64, r stored) error {
	at, err := rule.Nanos(r.At)
	if err != nil {
		return err
	}
	h, err := t.hotStmts()
	if err != nil {
		return err
	}
	t.wrote = true
	b := binder{s: h.insert}
	b.int(1, int64(r.Cursor))
	b.int(2, e.n)
	b.int(3, int64(r.Seq))
	b.int(4, int64(e.newest))
	b.int(5, int64(epoch))
	b.int(6, at)
	b.text(7, string(r.Body.Type()))
	if r.Takes == "" {
		b.null(8)
	} else {
		b.text(8, r.Takes)
	}
	b.int(10, int64(len(r.Raw)))
	if r.blob == nil {
		b.null(9)
		b.blob(11, r.Raw)
	} else {
		b.blob(9, r.blob)
		b.null(11)
	}
	return b.exec()
}

// updateLive writes what a task's events were folded into.
func (t *tx) updateLive(e entry, live []byte) error {
	h, err := t.hotStmts()
	if err != nil {
		return err
	}
	t.wrote = true
	b := binder{s: h.update}
	b.int(1, int64(e.newest))
	b.blob(2, live)
	b.int(3, e.n)
	return b.exec()
}

// binder binds values and keeps the first error.
type binder struct {
	s   *sqlite3.Stmt
	err error
}

func (b *binder) keep(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *binder) int(i int, v int64)   { b.keep(b.s.BindInt64(i, v)) }
func (b *binder) text(i int, v string) { b.keep(b.s.BindText(i, v)) }
func (b *binder) blob(i int, v []byte) { b.keep(b.s.BindBlob(i, v)) }
func (b *binder) null(i int)           { b.keep(b.s.BindNull(i)) }

func (b *binder) exec() error {
	if b.err != nil {
		return b.err
	}
	return b.s.Exec()
}
