package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// note lists the record of an ended iteration among the notes.
func (t *tx) note(n int64, spec td.Spec, cursor uint64, b td.IterationEnded) error {
	t.wrote = true
	return insertNote(t.c, n, spec, cursor, b)
}

func insertNote(c *conn, n int64, spec td.Spec, cursor uint64, b td.IterationEnded) error {
	return c.exec("INSERT INTO notes (cursor, task, project, run, words) VALUES (?, ?, ?, ?, ?)",
		cursor, n, spec.Project, b.Run, rule.NoteWords(spec.Title, b))
}

// fillNotes lists the notes among the records of earlier versions.
func fillNotes(s *Store, c *conn) error {
	bodies := blobs{dir: filepath.Join(s.dir, "blobs")} // the folder is opened after the database
	was := td.IterationEnded{}.Type()
	return c.query(func(r *sqlite3.Stmt) error {
		b, ok := bodies.body(was, r.ColumnBlob(2, nil), r.ColumnInt64(3), r.ColumnBlob(4, nil)).(td.IterationEnded)
		if !ok {
			return nil // trimmed, or unreadable: Check tells
		}
		var spec td.Spec
		if err := json.Unmarshal(r.ColumnRawBlob(5), &spec); err != nil {
			return nil // a task that cannot be read stops no start: Check tells
		}
		return insertNote(c, r.ColumnInt64(1), spec, uint64(r.ColumnInt64(0)), b)
	}, "SELECT e.cursor, e.task, e.blob, e.size, e.body, s.brief FROM events e JOIN specs s ON s.task = e.task WHERE e.type = ?", string(was))
}

// Notes are those that match: the newest first, or with words to match the best first.
func (s *Store) Notes(ctx context.Context, q store.NoteQuery) (out []store.Note, err error) {
	err = s.pool.with(ctx, func(c *conn) error {
		return c.inTxn(func() error {
			cursors, err := chooseNotes(c, q)
			if err != nil {
				return err
			}
			for _, cursor := range cursors {
				if err := c.query(func(r *sqlite3.Stmt) error {
					if n, ok := s.readNote(r); ok {
						out = append(out, n)
					}
					return nil
				}, selectNote, cursor); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list notes: %w", s.classify(err))
	}
	return out, nil
}

// chooseNotes are the cursors of the notes that match, in order.
func chooseNotes(c *conn, q store.NoteQuery) (out []uint64, err error) {
	if q.Match != "" {
		search := rule.SearchNotes(q.Match)
		err := c.query(func(r *sqlite3.Stmt) error {
			cursor := uint64(r.ColumnInt64(0))
			search.Show(cursor, r.ColumnText(2), (q.Run == "" || r.ColumnText(1) == q.Run) && !slices.Contains(q.Except, cursor))
			return nil
		}, "SELECT cursor, run, words FROM notes WHERE project = ? ORDER BY cursor DESC LIMIT ?", q.Project, rule.MaxSearched)
		return search.Best(q.Limit), err
	}
	ofRun, args, limit := "", []any{q.Project}, math.MaxInt32
	if q.Run != "" {
		ofRun, args = " AND run = ?", append(args, q.Run)
	}
	if q.Limit > 0 {
		limit = q.Limit + len(q.Except)
	}
	err = c.query(func(r *sqlite3.Stmt) error {
		if cursor := uint64(r.ColumnInt64(0)); !slices.Contains(q.Except, cursor) && (q.Limit <= 0 || len(out) < q.Limit) {
			out = append(out, cursor)
		}
		return nil
	}, "SELECT cursor FROM notes WHERE project = ?"+ofRun+" ORDER BY cursor DESC LIMIT ?", append(args, limit)...)
	return out, err
}

const selectNote = `SELECT e.cursor, e.at, e.blob, e.size, e.body, t.id, t.handle,
	CAST(s.brief AS TEXT) ->> '$.title', CAST(l.live AS TEXT) ->> '$.untrusted'
	FROM events e JOIN tasks t ON t.n = e.task JOIN specs s ON s.task = e.task JOIN lives l ON l.task = e.task WHERE e.cursor = ?`

func (s *Store) readNote(r *sqlite3.Stmt) (n store.Note, ok bool) {
	n = store.Note{
		Cursor: uint64(r.ColumnInt64(0)), At: rule.FromNanos(r.ColumnInt64(1)), Task: td.TaskID(r.ColumnText(5)),
		Handle: r.ColumnText(6), Title: r.ColumnText(7), Untrusted: r.ColumnBool(8),
	}
	body := s.blobs.body(td.IterationEnded{}.Type(), r.ColumnBlob(2, nil), r.ColumnInt64(3), r.ColumnBlob(4, nil))
	if n.IterationEnded, ok = body.(td.IterationEnded); !ok {
		// One record that cannot be read must not hide all others. Check reports it.
		s.log.Error("a note was left out of a list", "task", n.Handle, "cursor", n.Cursor)
	}
	return n, ok
}

// notes compares the list of a task's notes with its records.
func (f *folding) notes(c *conn, e entry) error {
	if err := c.query(func(r *sqlite3.Stmt) error {
		cursor := uint64(r.ColumnInt64(0))
		b, ok := f.noted[cursor]
		delete(f.noted, cursor)
		if !ok || r.ColumnText(1) != e.task.Project || r.ColumnText(2) != b.Run || r.ColumnText(3) != rule.NoteWords(e.task.Title, b) {
			f.problem("the note in record %d is listed otherwise than it is", cursor)
		}
		return nil
	}, "SELECT cursor, project, run, words FROM notes WHERE task = ?", e.n); err != nil {
		return err
	}
	for cursor := range f.noted {
		f.problem("the note in record %d is not listed", cursor)
	}
	return nil
}
