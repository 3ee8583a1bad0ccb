package sqlite

import (
	"context"
	"fmt"
)

// Cursor is how far the follower of this name has come.
func (s *Store) Cursor(ctx context.Context, name string) (uint64, error) {
	var at int64
	err := s.pool.with(ctx, func(c *conn) (err error) {
		at, err = c.number("SELECT at FROM cursors WHERE name = ?", name)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read cursor %s: %w", name, s.classify(err))
	}
	return uint64(at), nil
}

// SetCursor records it. It never goes back.
func (s *Store) SetCursor(ctx context.Context, name string, at uint64) error {
	err := s.w.do(ctx, func(t *tx) error {
		now, err := t.c.number("SELECT at FROM cursors WHERE name = ?", name)
		if err != nil || at <= uint64(now) {
			return err
		}
		fpCursorSet.Hit()
		return t.exec(`INSERT INTO cursors (name, at) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET at = ?2`, name, at)
	})
	if err != nil {
		return fmt.Errorf("set cursor %s: %w", name, err)
	}
	return nil
}
