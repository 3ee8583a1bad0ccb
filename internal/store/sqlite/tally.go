package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

func writeTallies(c *conn, tallies rule.Tallies) error {
	for k, n := range tallies {
		u := n.Usage
		if err := c.exec(`INSERT INTO tallies (slot, type, kind, name, took, count, failed, calls, input, output, cache_read, cache_write, cost)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count,
			failed = failed + excluded.failed, calls = calls + excluded.calls, input = input + excluded.input, output = output + excluded.output,
			cache_read = cache_read + excluded.cache_read, cache_write = cache_write + excluded.cache_write, cost = cost + excluded.cost`,
			k.Slot, string(k.Type), string(k.Kind), k.Name, k.Took, n.Count, n.Failed, n.Calls,
			u.Input, u.Output, u.CacheRead, u.CacheWrite, int64(n.Cost)); err != nil {
			return err
		}
	}
	return nil
}

// tallied are the types of records that are tallied, and those that tell which steps are in flight.
var tallied = []td.EventType{
	td.Created{}.Type(), td.Moved{}.Type(), td.StepIntended{}.Type(), td.StepEnded{}.Type(), td.RequestOpened{}.Type(), td.Received{}.Type(),
	td.Queried{}.Type(), td.Recovered{}.Type(), td.Discarded{}.Type(), td.Rewound{}.Type(), td.IterationEnded{}.Type(),
}

// fillTallies counts what a journal holds that was made before there were tallies. What was trimmed by then is not counted.
func fillTallies(s *Store, c *conn) error {
	bodies := blobs{dir: filepath.Join(s.dir, "blobs")} // the folder is opened after the database
	types, err := json.Marshal(tallied)
	if err != nil {
		return err
	}
	tallies, inFlight := rule.Tallies{}, map[int64][]td.StepRef{}
	if err := c.query(func(r *sqlite3.Stmt) error {
		task, ev := r.ColumnInt64(0), td.Event{At: rule.FromNanos(r.ColumnInt64(1))}
		ev.Body = bodies.body(td.EventType(r.ColumnText(2)), r.ColumnBlob(3, nil), r.ColumnInt64(4), r.ColumnBlob(5, nil))
		tallies.Add(inFlight[task], []td.Record{{Event: ev}})
		if inFlight[task] = td.StepsAfter(inFlight[task], ev); len(inFlight[task]) == 0 {
			delete(inFlight, task)
		}
		return nil
	}, "SELECT task, at, type, blob, size, body FROM events WHERE type IN (SELECT value FROM json_each(?)) ORDER BY cursor", string(types)); err != nil {
		return err
	}
	return writeTallies(c, tallies)
}

// forgetTallies removes those of slots that ended before a time.
func (t *tx) forgetTallies(before time.Time) error {
	return t.exec("DELETE FROM tallies WHERE slot < ?", td.SlotOf(before))
}

// Tallies are what happened since the slot of a time.
func (s *Store) Tallies(ctx context.Context, since time.Time) (out []td.Tally, err error) {
	from := int64(math.MinInt64)
	if !since.IsZero() {
		from = td.SlotOf(since)
	}
	err = s.pool.with(ctx, func(c *conn) error {
		out, err = tallies(c, `min(slot), type, kind, name, took, sum(count), sum(failed), sum(calls), sum(input), sum(output),
			sum(cache_read), sum(cache_write), sum(cost) FROM tallies WHERE slot >= ? GROUP BY type, kind, name, took`, from)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what was tallied: %w", s.classify(err))
	}
	return out, nil
}

func tallies(c *conn, what string, args ...any) (out []td.Tally, err error) {
	err = c.query(func(r *sqlite3.Stmt) error {
		out = append(out, td.Tally{
			TallyKey: td.TallyKey{
				Slot: r.ColumnInt64(0), Type: td.EventType(r.ColumnText(1)), Kind: td.StepKind(r.ColumnText(2)), Name: r.ColumnText(3), Took: r.ColumnInt(4),
			},
			Count: r.ColumnInt(5), Failed: r.ColumnInt(6), Calls: r.ColumnInt(7),
			Usage: td.Usage{Input: r.ColumnInt64(8), Output: r.ColumnInt64(9), CacheRead: r.ColumnInt64(10), CacheWrite: r.ColumnInt64(11)},
			Cost:  td.Money(r.ColumnInt64(12)),
		})
		return nil
	}, "SELECT "+what, args...)
	return out, err
}
