package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/bus"
	"taskdaemon/internal/store"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// Last is the Cursor of the newest durable event.
func (s *Store) Last(ctx context.Context) (uint64, error) {
	if s.isClosed() {
		return 0, rule.Closed()
	}
	return s.bus.Last(), nil
}

// Follow yields events that match, with Cursor > after, in order, and then waits for more.
func (s *Store) Follow(ctx context.Context, f store.EventFilter, after uint64) iter.Seq2[td.Record, error] {
	return func(yield func(td.Record, error) bool) {
		w := &follower{s: s, f: f, at: after}
		end := uint64(math.MaxInt64)
		if f.NoFuture {
			end = s.bus.Last()
		}
		for w.at < end {
			evs, err := w.next(ctx)
			if err != nil {
				if ctx.Err() == nil || f.NoFuture {
					yield(td.Record{}, fmt.Errorf("follow the journal: %w", s.classify(err)))
				}
				return
			}
			told := false
			for _, ev := range evs {
				if ev.Cursor > end {
					return
				}
				if rule.Matches(f, ev.Event) {
					if told = yield(ev, nil); !told {
						return
					}
				}
			}
			if told && f.Pauses && !yield(td.Record{}, nil) {
				return
			}
		}
	}
}

// follower is one call of Follow.
type follower struct {
	s  *Store
	f  store.EventFilter
	at uint64 // it has seen the journal up to here
	// backlog are the cursors of the chosen tasks' events that it must still read from the database, all
	// of them up to the cursor upTo.
	backlog []uint64
	upTo    uint64
	told    time.Time // when it last found something and came to the end
}

// next returns events that follow, from memory if they are there, and waits for some at the journal's
// end.
func (w *follower) next(ctx context.Context) ([]td.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if w.s.isClosed() {
		return nil, rule.Closed()
	}
	if len(w.backlog) > 0 {
		return w.readBacklog(ctx)
	}
	if err := w.gather(ctx); err != nil {
		return nil, err
	}
	look := w.s.bus.After(w.at, bus.Wanted{Tasks: w.f.Tasks, Types: w.f.Types}, chunkEvents)
	switch {
	case !look.Complete && len(w.f.Tasks) > 0:
		return w.collect(ctx)
	case !look.Complete:
		return w.scan(ctx)
	}
	w.at = look.UpTo
	if look.Wait == nil {
		if len(look.Events) < chunkEvents { // these were all
			w.told = time.Now()
		}
		return look.Events, nil
	}
	defer look.Wait.Leave()
	if w.f.NoFuture {
		return nil, nil
	}
	select {
	case <-look.Wait.More():
		w.at = look.Wait.UpTo()
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.s.done:
		return nil, rule.Closed()
	}
}

// gather lets more come if it has told of some a moment ago. It does not wait for the first of them, which would wake it once more.
func (w *follower) gather(ctx context.Context) error {
	if w.f.Every == nil || w.told.IsZero() {
		return nil
	}
	rest := w.f.Every() - time.Since(w.told)
	if rest <= 0 {
		return nil
	}
	select {
	case <-time.After(rest):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.s.done:
		return rule.Closed()
	}
}

// collect finds the events of the chosen tasks that it has missed.
func (w *follower) collect(ctx context.Context) ([]td.Record, error) {
	w.upTo = w.s.bus.Last()
	for _, task := range w.f.Tasks {
		cursors, err := w.s.streamOf(ctx, task, 0, w.at)
		if err != nil && !td.IsKind(err, td.NotFound) {
			return nil, err
		}
		w.backlog = append(w.backlog, cursors...)
	}
	// What came after upTo was seen for some tasks and not for others: it is left for the next look.
	w.backlog = slices.DeleteFunc(w.backlog, func(c uint64) bool { return c > w.upTo })
	slices.Sort(w.backlog)
	w.backlog = slices.Compact(w.backlog)
	if len(w.backlog) == 0 {
		w.at = w.upTo
		return nil, nil
	}
	return w.readBacklog(ctx)
}

func (w *follower) readBacklog(ctx context.Context) ([]td.Record, error) {
	evs, left, err := w.s.listed(ctx, w.backlog)
	if err != nil {
		return nil, err
	}
	w.at = w.backlog[len(w.backlog)-len(left)-1]
	if w.backlog = left; len(left) == 0 {
		w.at = max(w.at, w.upTo)
	}
	return evs, nil
}

// scan reads on in the journal of all tasks.
func (w *follower) scan(ctx context.Context) ([]td.Record, error) {
	last := w.s.bus.Last()
	since := int64(math.MinInt64)
	if !w.f.Since.IsZero() {
		var err error
		if since, err = rule.Nanos(w.f.Since); err != nil {
			return nil, err
		}
	}
	types, err := json.Marshal(w.f.Types)
	if err != nil {
		return nil, err
	}
	evs, err := w.s.chunk(ctx, func(c *conn, each func(*sqlite3.Stmt) error) error {
		return c.query(each, selectEvents+`WHERE e.cursor > ?1 AND e.cursor <= ?2 AND e.at >= ?3
			AND (?4 = 'null' OR e.type IN (SELECT value FROM json_each(?4))) ORDER BY e.cursor LIMIT ?5`,
			w.at, last, since, string(types), chunkEvents)
	})
	if err != nil {
		return nil, err
	}
	if len(evs) == 0 {
		w.at = last
		return nil, nil
	}
	w.at = evs[len(evs)-1].Cursor
	return evs, nil
}
