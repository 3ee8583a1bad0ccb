package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// How much is read from the database at once. A connection is never held while a caller looks at
// events: a slow one would keep the log from being moved into the database.
const (
	chunkEvents = 256
	chunkBytes  = 4 << 20
)

const (
	eventColumns = "SELECT e.cursor, e.seq, t.id, e.at, e.type, e.takes, e.blob, e.size, e.body "
	selectEvents = eventColumns + "FROM events e JOIN tasks t ON t.n = e.task"
	selectStream = eventColumns + "FROM events e INDEXED BY events_task JOIN tasks t ON t.n = e.task"
)

// errChunkFull ends a chunk that grew large.
var errChunkFull = errors.New("enough")

// readChunk collects the events of a query, up to a bound in bytes, and reads their blobs after the
// connection was given back.
func (s *Store) readChunk(ctx context.Context, query func(*conn, func(*sqlite3.Stmt) error) error) ([]td.Event, error) {
	type row struct {
		ev   td.Event
		was  td.EventType
		blob []byte
		size int64
		raw  []byte
	}
	var rows []row
	err := s.pool.with(ctx, func(c *conn) error {
		total := 0
		err := query(c, func(r *sqlite3.Stmt) error {
			x := row{
				ev: td.Event{Cursor: uint64(r.ColumnInt64(0)), Seq: uint64(r.ColumnInt64(1)), Task: td.TaskID(r.ColumnText(2)),
					At: rule.FromNanos(r.ColumnInt64(3)), Takes: r.ColumnText(5)},
				was: td.EventType(r.ColumnText(4)), blob: r.ColumnBlob(6, nil), size: r.ColumnInt64(7), raw: r.ColumnBlob(8, nil),
			}
			rows = append(rows, x)
			if total += int(x.size); total > chunkBytes {
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
	evs := make([]td.Event, len(rows))
	for i, x := range rows {
		evs[i] = x.ev
		evs[i].Body = s.body(x.was, x.blob, x.size, x.raw)
	}
	return evs, nil
}

// body decodes what a record says, from the blob if it has one.
func (s *Store) body(was td.EventType, blob []byte, size int64, raw []byte) td.Body {
	if blob == nil {
		return td.DecodeBody(was, raw)
	}
	if len(blob) != len(hash{}) {
		return td.Unreadable{Was: was, Err: fmt.Sprintf("%x is no hash of a blob", blob)}
	}
	raw, err := s.blobs.get(hash(blob), size)
	if err != nil {
		return td.Unreadable{Was: was, Err: err.Error()}
	}
	return td.DecodeBody(was, raw)
}

// Last is the Cursor of the newest durable event.
func (s *Store) Last(ctx context.Context) (uint64, error) {
	if s.isClosed() {
		return 0, rule.Closed()
	}
	return s.bus.Last(), nil
}

// Follow yields events that match, with Cursor > after, in order, and then waits for more.
func (s *Store) Follow(ctx context.Context, f store.EventFilter, after uint64) iter.Seq2[td.Event, error] {
	return func(yield func(td.Event, error) bool) {
		end := uint64(math.MaxInt64)
		if f.NoFuture {
			end = s.bus.Last()
		}
		for after < end {
			evs, upTo, wait, err := s.following(ctx, f, after)
			if err == nil && wait != nil {
				err = s.await(ctx, wait)
			}
			if err != nil {
				if ctx.Err() == nil || f.NoFuture {
					yield(td.Event{}, fmt.Errorf("follow the journal: %w", s.classify(err)))
				}
				return
			}
			for _, ev := range evs {
				if ev.Cursor > end || !yield(ev, nil) {
					return
				}
			}
			after = upTo
		}
	}
}

// following returns the next events that match and the cursor up to which the journal was looked at,
// or, at its end, what to wait for.
func (s *Store) following(ctx context.Context, f store.EventFilter, after uint64) (
	evs []td.Event, upTo uint64, wait <-chan struct{}, err error,
) {
	if err := ctx.Err(); err != nil {
		return nil, after, nil, err
	}
	if s.isClosed() {
		return nil, after, nil, rule.Closed()
	}
	live, complete, wait := s.bus.After(after, chunkEvents)
	if !complete {
		evs, upTo, err = s.catchUp(ctx, f, after)
		return evs, upTo, nil, err
	}
	if len(live) == 0 {
		return nil, after, wait, nil
	}
	for _, ev := range live {
		if rule.Matches(f, ev) {
			evs = append(evs, ev)
		}
	}
	return evs, live[len(live)-1].Cursor, nil, nil
}

func (s *Store) await(ctx context.Context, wait <-chan struct{}) error {
	select {
	case <-wait:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return rule.Closed()
	}
}

// catchUp reads matching events from the database. When it finds fewer than it may, the follower has
// seen all there was when it began.
func (s *Store) catchUp(ctx context.Context, f store.EventFilter, after uint64) ([]td.Event, uint64, error) {
	last := s.bus.Last()
	since := int64(math.MinInt64)
	if !f.Since.IsZero() {
		var err error
		if since, err = rule.Nanos(f.Since); err != nil {
			return nil, after, err
		}
	}
	types, err := json.Marshal(f.Types)
	if err != nil {
		return nil, after, err
	}
	evs, err := s.readChunk(ctx, func(c *conn, row func(*sqlite3.Stmt) error) error {
		tasks, err := numbersOf(c, f.Tasks)
		if err != nil {
			return err
		}
		const chosen = " AND (?2 = 'null' OR e.type IN (SELECT value FROM json_each(?2))) AND e.at >= ?3 AND e.cursor <= ?4"
		switch {
		case len(f.Tasks) == 0:
			return c.query(row, selectEvents+" WHERE e.cursor > ?1"+chosen+" ORDER BY e.cursor LIMIT ?5",
				after, string(types), since, last, chunkEvents)
		case len(tasks) == 0:
			return nil
		case len(tasks) == 1: // a stream's order is the journal's
			return c.query(row, selectStream+" WHERE e.task = ?6 AND e.cursor > ?1"+chosen+" ORDER BY e.seq LIMIT ?5",
				after, string(types), since, last, chunkEvents, tasks[0])
		}
		list, err := json.Marshal(tasks)
		if err != nil {
			return err
		}
		return c.query(row, selectEvents+" WHERE e.cursor > ?1 AND e.task IN (SELECT value FROM json_each(?6))"+chosen+" ORDER BY e.cursor LIMIT ?5",
			after, string(types), since, last, chunkEvents, string(list))
	})
	if err != nil || len(evs) == 0 {
		return nil, max(after, last), err
	}
	return evs, evs[len(evs)-1].Cursor, nil
}

// numbersOf are the numbers of those tasks that exist.
func numbersOf(c *conn, ids []td.TaskID) ([]int64, error) {
	var ns []int64
	for _, id := range ids {
		n, err := numberOf(c, id)
		if td.IsKind(err, td.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		ns = append(ns, n)
	}
	return ns, nil
}
