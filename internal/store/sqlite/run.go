package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// run folds a record into the run over a graph that it tells of.
func (t *tx) run(name string, ev td.Event) error {
	var g td.GraphRun
	if err := t.c.query(func(r *sqlite3.Stmt) error {
		return json.Unmarshal(r.ColumnRawBlob(0), &g)
	}, "SELECT run FROM runs WHERE name = ?", name); err != nil {
		return err
	}
	g = g.Apply(ev)
	raw, err := json.Marshal(g)
	if err != nil {
		return td.Errorf(td.Invalid, "keep the run %s: %w", name, err)
	}
	open := 0
	if g.Open() {
		open = 1
	}
	return t.exec("INSERT OR REPLACE INTO runs (name, project, first, open, run) VALUES (?, ?, ?, ?, ?)", name, g.Project, g.From, open, raw)
}

// Runs are the runs over graphs that match, the newest first.
func (s *Store) Runs(ctx context.Context, f store.RunFilter) (out []td.GraphRun, err error) {
	where, args, limit := "", []any{}, math.MaxInt32
	if f.Open {
		where = " AND open"
	}
	if f.Run != "" {
		where, args = where+" AND name = ?", append(args, f.Run)
	}
	if f.Project != "" {
		where, args = where+" AND project = ?", append(args, f.Project)
	}
	if f.Limit > 0 {
		limit = f.Limit
	}
	err = s.pool.with(ctx, func(c *conn) error {
		return c.query(func(r *sqlite3.Stmt) error {
			g, err := runOf(r)
			if err != nil {
				// One that cannot be read must not hide all others. Check reports it.
				s.log.Error("a run over a graph was left out of a list", "run", r.ColumnText(0), "err", err)
				return nil
			}
			out = append(out, g)
			return nil
		}, "SELECT name, run FROM runs WHERE true"+where+" ORDER BY first DESC LIMIT ?", append(args, limit)...)
	})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", s.classify(err))
	}
	return out, nil
}

func runOf(r *sqlite3.Stmt) (g td.GraphRun, err error) {
	if err := json.Unmarshal(r.ColumnRawBlob(1), &g); err != nil {
		return td.GraphRun{}, err
	}
	return g, nil
}

// forgetRuns removes runs whose end is older than the records that stay.
func (t *tx) forgetRuns(p store.Retention) error {
	var gone []string
	if err := t.c.query(func(r *sqlite3.Stmt) error {
		if g, err := runOf(r); err == nil && rule.ForgetsRun(g, p) {
			gone = append(gone, g.Run)
		}
		return nil
	}, "SELECT name, run FROM runs WHERE NOT open"); err != nil {
		return err
	}
	for _, name := range gone {
		if err := t.exec("DELETE FROM runs WHERE name = ?", name); err != nil {
			return err
		}
	}
	return nil
}

// graphRuns compares the table of runs with what the daemon's records say of each.
func (f *folding) graphRuns(c *conn) error {
	if f.id != td.DaemonStream {
		return nil
	}
	if err := c.query(func(r *sqlite3.Stmt) error {
		name := r.ColumnText(0)
		want, known := f.runs[name]
		delete(f.runs, name)
		g, err := runOf(r)
		if err != nil || !known || !sameRun(g, want) {
			f.problem("the run %s is listed otherwise than its records say", name)
		}
		return nil
	}, "SELECT name, run FROM runs"); err != nil {
		return err
	}
	for name := range f.runs {
		f.problem("the run %s is not listed", name)
	}
	return nil
}

// sameRun compares a run as it was read with one that was folded.
func sameRun(read, folded td.GraphRun) bool {
	raw, err := json.Marshal(folded)
	if err != nil {
		return false
	}
	var again td.GraphRun
	return json.Unmarshal(raw, &again) == nil && reflect.DeepEqual(read, again)
}
