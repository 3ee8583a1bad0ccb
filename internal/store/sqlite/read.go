package sqlite

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// How much is read from the database at once. A connection is never held while a caller looks at
// events: a slow one would keep the log from being moved into the database.
const (
	chunkEvents = 256
	chunkBytes  = 4 << 20
)

const selectEvents = `SELECT e.cursor, e.seq, t.id, e.at, e.type, e.takes, e.blob, e.size, e.body
	FROM events e JOIN tasks t ON t.n = e.task `

// row is an event as it is stored.
type row struct {
	td.Event
	was  td.EventType
	blob []byte
	size int64
	raw  []byte
}

func scanRow(r *sqlite3.Stmt) row {
	return row{
		Event: td.Event{
			Cursor: uint64(r.ColumnInt64(0)), Seq: uint64(r.ColumnInt64(1)), Task: td.TaskID(r.ColumnText(2)),
			At: rule.FromNanos(r.ColumnInt64(3)), Takes: r.ColumnText(5),
		},
		was: td.EventType(r.ColumnText(4)), blob: r.ColumnBlob(6, nil), size: r.ColumnInt64(7), raw: r.ColumnBlob(8, nil),
	}
}

// errChunkFull ends a chunk that grew large.
var errChunkFull = errors.New("enough")

// chunk collects the events of a query, up to a bound in bytes, and reads their blobs after the
// connection was given back.
func (s *Store) chunk(ctx context.Context, query func(c *conn, each func(*sqlite3.Stmt) error) error) ([]td.Record, error) {
	var rows []row
	err := s.pool.with(ctx, func(c *conn) error {
		total := int64(0)
		err := query(c, func(r *sqlite3.Stmt) error {
			rows = append(rows, scanRow(r))
			if total += rows[len(rows)-1].size; total > chunkBytes {
				return errChunkFull
			}
			return nil
		})
		if errors.Is(err, errChunkFull) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	evs := make([]td.Record, len(rows))
	for i, x := range rows {
		evs[i].Event = x.Event
		evs[i].Body = s.blobs.body(x.was, x.blob, x.size, x.raw)
	}
	return evs, nil
}

// body decodes what a record says, from its blob if it has one.
func (b *blobs) body(was td.EventType, blob []byte, size int64, raw []byte) td.Body {
	if blob == nil {
		raw, err := unpack(raw, size)
		if err != nil {
			return td.Unreadable{Was: was, Err: err.Error()}
		}
		return td.DecodeBody(was, raw)
	}
	if len(blob) != len(hash{}) {
		return td.Unreadable{Was: was, Err: fmt.Sprintf("%x is no hash of a blob", blob)}
	}
	raw, err := b.get(hash(blob), size)
	if err != nil {
		return td.Unreadable{Was: was, Err: err.Error()}
	}
	return td.DecodeBody(was, raw)
}

// listed reads the first of these events, and returns the cursors that are left. A record that is no
// more is passed over.
func (s *Store) listed(ctx context.Context, cursors []uint64) (evs []td.Record, left []uint64, err error) {
	n := 0
	evs, err = s.chunk(ctx, func(c *conn, each func(*sqlite3.Stmt) error) error {
		for ; n < min(len(cursors), chunkEvents); n++ {
			if err := c.query(each, selectEvents+"WHERE e.cursor = ?", cursors[n]); err != nil {
				n++
				return err
			}
		}
		return nil
	})
	return evs, cursors[n:], err
}

// chain walks a task's events back from its newest and returns, oldest first, the cursors of those
// with a greater sequence and a greater cursor than these.
func chain(c *conn, n int64, newest, afterSeq, afterCursor uint64) ([]uint64, error) {
	var out []uint64
	err := c.query(func(r *sqlite3.Stmt) error {
		out = append(out, uint64(r.ColumnInt64(0)))
		return nil
	}, `WITH RECURSIVE back(cursor, prev) AS (
			SELECT cursor, prev FROM events WHERE cursor = ?1 AND task = ?2 AND seq > ?3 AND cursor > ?4
			UNION ALL
			SELECT e.cursor, e.prev FROM back JOIN events e ON e.cursor = back.prev
			WHERE back.prev < back.cursor AND e.task = ?2 AND e.seq > ?3 AND e.cursor > ?4
		) SELECT cursor FROM back`, newest, n, afterSeq, afterCursor)
	slices.Reverse(out)
	return out, err
}

// streamOf are the cursors of a task's events after these, oldest first.
func (s *Store) streamOf(ctx context.Context, task td.TaskID, afterSeq, afterCursor uint64) (out []uint64, err error) {
	err = s.pool.with(ctx, func(c *conn) error {
		return c.inTxn(func() error {
			var n int64
			var newest uint64
			ok, err := c.one(func(r *sqlite3.Stmt) error {
				n, newest = r.ColumnInt64(0), uint64(r.ColumnInt64(1))
				return nil
			}, "SELECT t.n, l.newest FROM tasks t JOIN lives l ON l.task = t.n WHERE t.id = ?", string(task))
			if err != nil {
				return err
			}
			if !ok {
				return rule.NoTask(task)
			}
			out, err = chain(c, n, newest, afterSeq, afterCursor)
			return err
		})
	})
	return out, err
}

// Read yields the events of one task with Seq > after, in order.
func (s *Store) Read(ctx context.Context, task td.TaskID, after uint64) iter.Seq2[td.Event, error] {
	return func(yield func(td.Event, error) bool) {
		cursors, err := s.streamOf(ctx, task, after, 0)
		for err == nil && len(cursors) > 0 {
			var evs []td.Record
			evs, cursors, err = s.listed(ctx, cursors)
			for _, ev := range evs {
				if !yield(ev.Event, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(td.Event{}, fmt.Errorf("read %s: %w", task.Handle(), s.classify(err)))
		}
	}
}
