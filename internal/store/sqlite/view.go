package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// Task is the task as it stands.
func (s *Store) Task(ctx context.Context, id td.TaskID) (td.Task, error) {
	var t td.Task
	err := s.pool.with(ctx, func(c *conn) error {
		ok, err := c.one(func(r *sqlite3.Stmt) (err error) {
			t, err = decodeTask(r.ColumnRawBlob(0), r.ColumnRawBlob(1))
			return err
		}, "SELECT s.spec, l.live FROM tasks t JOIN lives l ON l.task = t.n JOIN specs s ON s.task = t.n WHERE t.id = ?", string(id))
		if err == nil && !ok {
			err = rule.NoTask(id)
		}
		return err
	})
	if err != nil {
		return td.Task{}, fmt.Errorf("read task %s: %w", id.Handle(), s.classify(err))
	}
	return t, nil
}

// Tasks are those that match, by priority and then age.
func (s *Store) Tasks(ctx context.Context, f store.TaskFilter) ([]td.Task, error) {
	states, err := json.Marshal(f.States)
	if err != nil {
		return nil, td.Errorf(td.Invalid, "list tasks: %w", err)
	}
	limit := f.Limit
	if limit <= 0 {
		limit = math.MaxInt32
	}
	column := "s.spec"
	if f.Brief {
		column = "s.brief"
	}
	inState := "t.state IN (SELECT value FROM json_each(?1))" // by the index: most tasks have ended
	if len(f.States) == 0 {
		inState = "?1 = 'null'"
	}
	var out []td.Task
	err = s.pool.with(ctx, func(c *conn) error {
		return c.query(func(r *sqlite3.Stmt) error {
			t, err := decodeTask(r.ColumnRawBlob(0), r.ColumnRawBlob(1))
			if err != nil {
				// One record that cannot be read must not hide all others. Check reports it.
				s.log.Error("a task was left out of a list", "task", r.ColumnText(2), "err", err)
				return nil
			}
			out = append(out, t)
			return nil
		}, "SELECT "+column+`, l.live, t.id FROM tasks t JOIN lives l ON l.task = t.n JOIN specs s ON s.task = t.n
			WHERE t.n > 0 AND `+inState+` AND (?2 = '' OR t.dir = ?2 OR instr(t.dir, ?2 || '/' || ?4 || '/') = 1)
			ORDER BY t.priority, t.created_at, t.id LIMIT ?3`, string(states), f.Dir, limit, td.WorktreeFolder)
	})
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", s.classify(err))
	}
	return out, nil
}

// Counts is how many tasks are in each state.
func (s *Store) Counts(ctx context.Context) (map[td.State]int, error) {
	out := map[td.State]int{}
	err := s.pool.with(ctx, func(c *conn) error {
		return c.query(func(r *sqlite3.Stmt) error {
			out[td.State(r.ColumnText(0))] = r.ColumnInt(1)
			return nil
		}, "SELECT state, tasks FROM counts WHERE tasks > 0")
	})
	if err != nil {
		return nil, fmt.Errorf("count tasks: %w", s.classify(err))
	}
	return out, nil
}

// Resolve finds the task a person means.
func (s *Store) Resolve(ctx context.Context, ref string) (td.TaskID, error) {
	found := rule.Meant(ref)
	add := func(r *sqlite3.Stmt) error { //nolint:unparam // as every caller of query has it
		found.Add(rule.Candidate{Task: td.TaskID(r.ColumnText(0)), ID: r.ColumnText(1), Handle: r.ColumnText(2), Title: r.ColumnText(3)})
		return nil
	}
	like := strings.ToLower(strings.TrimSpace(ref))
	var whole td.TaskID
	err := s.pool.with(ctx, func(c *conn) error {
		// A whole id or handle is one task's alone, and is looked up; fragments need a look at all.
		if _, err := c.one(func(r *sqlite3.Stmt) error { whole = td.TaskID(r.ColumnText(0)); return nil },
			"SELECT id FROM tasks WHERE n > 0 AND (id = ?1 OR handle = ?1)", like); err != nil || whole != "" {
			return err
		}
		return c.inTxn(func() error {
			// The database narrows it down, td.MatchesRef decides.
			if err := c.query(add, `SELECT t.id, t.id, t.handle, CAST(s.brief AS TEXT) ->> '$.title' FROM tasks t JOIN specs s ON s.task = t.n
				WHERE t.n > 0 AND (instr(t.handle, ?1) OR instr(t.id, ?1)) ORDER BY t.created_at, t.id`, like); err != nil {
				return err
			}
			return c.query(add, `SELECT t.id, r.id, r.handle, CAST(s.brief AS TEXT) ->> '$.title' FROM requests r JOIN tasks t ON t.n = r.task
				JOIN specs s ON s.task = t.n WHERE instr(r.handle, ?1) OR instr(r.id, ?1) ORDER BY r.id`, like)
		})
	})
	if err != nil {
		return "", fmt.Errorf("resolve %q: %w", ref, s.classify(err))
	}
	if whole != "" {
		return whole, nil
	}
	return found.One()
}
