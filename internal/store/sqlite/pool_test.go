package sqlite

import (
	"context"
	"testing"
)

// A reader that goes away in the middle of a transaction must not leave it open: the connection would see
// the journal of that moment for ever, and refuse the next transaction.
func TestReaderGoesAwayInsideTransaction(t *testing.T) {
	s, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	leave := map[string]func(*conn, context.CancelFunc) error{
		"while it reads": func(c *conn, cancel context.CancelFunc) error {
			return c.inTxn(func() error {
				cancel()
				_, err := c.number("SELECT count(*) FROM tasks")
				return err
			})
		},
		"without a word": func(c *conn, cancel context.CancelFunc) error {
			cancel()
			c.SetInterrupt(context.Background())
			return c.exec("BEGIN")
		},
	}
	for how, f := range leave {
		t.Run(how, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			_ = s.pool.with(ctx, func(c *conn) error { return f(c, cancel) }) // it may fail, it went away
			for range readers {                                               // every connection once
				err := s.pool.with(t.Context(), func(c *conn) error {
					if !c.GetAutocommit() {
						t.Error("a connection was lent inside a transaction")
					}
					return c.inTxn(func() error { return nil })
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}
