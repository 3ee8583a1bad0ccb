package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// Post puts a command into the task's inbox.
func (s *Store) Post(ctx context.Context, task td.TaskID, cmd td.Command) error {
	_, raw, err := rule.PrepareCommand(task, cmd)
	if err != nil {
		return err
	}
	err = s.w.do(ctx, func(t *tx) error {
		e, err := t.load(task)
		if err != nil {
			return err
		}
		if n, err := t.c.number("SELECT count(*) FROM inbox WHERE task = ? AND key = ?", e.n, cmd.Key); err != nil || n > 0 {
			return err
		}
		fpCommandPost.Hit()
		return t.exec("INSERT INTO inbox (task, key, command) VALUES (?, ?, ?)", e.n, cmd.Key, raw)
	})
	if err != nil {
		return fmt.Errorf("post to %s: %w", task.Handle(), err)
	}
	return nil
}

// Posted reports whether a command with this key was ever put into the task's inbox.
func (s *Store) Posted(ctx context.Context, task td.TaskID, key string) (cmd td.Command, ok bool, err error) {
	err = s.pool.with(ctx, func(c *conn) (err error) {
		ok, err = c.one(func(r *sqlite3.Stmt) error { return json.Unmarshal(r.ColumnRawBlob(0), &cmd) },
			"SELECT i.command FROM inbox i JOIN tasks t ON t.n = i.task WHERE t.id = ? AND i.key = ?", string(task), key)
		return err
	})
	if err != nil {
		return td.Command{}, false, fmt.Errorf("look for a command of %s: %w", task.Handle(), s.classify(err))
	}
	return cmd, ok, nil
}

// Take returns the commands of the claimed task that no event has consumed, oldest first.
func (s *Store) Take(ctx context.Context, c td.Claim) ([]td.Command, error) {
	var out []td.Command
	err := s.pool.with(ctx, func(db *conn) error {
		return db.inTxn(func() error {
			e, ok, err := loadEntry(db, c.Task)
			switch {
			case err != nil:
				return err
			case !ok:
				return rule.NoTask(c.Task)
			case !e.held || e.epoch != c.Epoch:
				return rule.Fenced(c, e.epoch)
			}
			return db.query(func(r *sqlite3.Stmt) error {
				var cmd td.Command
				if err := json.Unmarshal(r.ColumnRawBlob(1), &cmd); err != nil {
					// It cannot be acted on, and must not hide those behind it. An append that takes its key
					// gets rid of it.
					cmd = td.Command{Key: r.ColumnText(0)}
				}
				out = append(out, cmd)
				return nil
			}, "SELECT key, command FROM inbox WHERE task = ? AND consumed IS NULL ORDER BY n", e.n)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("take the commands of %s: %w", c.Task.Handle(), s.classify(err))
	}
	return out, nil
}

// Pending are the tasks whose inbox is not empty.
func (s *Store) Pending(ctx context.Context) ([]td.TaskID, error) {
	var out []td.TaskID
	err := s.pool.with(ctx, func(c *conn) error {
		return c.query(func(r *sqlite3.Stmt) error {
			out = append(out, td.TaskID(r.ColumnText(0)))
			return nil
		}, `SELECT t.id FROM (SELECT task, min(n) AS first FROM inbox WHERE consumed IS NULL GROUP BY task) i
			JOIN tasks t ON t.n = i.task ORDER BY i.first`)
	})
	if err != nil {
		return nil, fmt.Errorf("list tasks with commands: %w", s.classify(err))
	}
	return out, nil
}
