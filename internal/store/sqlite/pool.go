package sqlite

import (
	"context"
	"errors"

	"taskdaemon/internal/store/rule"
)

// readers is how many connections read at the same time.
const readers = 4

// pool holds the reading connections, opened when first needed.
type pool struct {
	path, vfs string
	sync      *syncer
	free      chan *conn // readers of them; nil stands for one that is not open yet
	closed    chan struct{}
}

func newPool(path, vfs string, y *syncer) *pool {
	p := &pool{path: path, vfs: vfs, sync: y, free: make(chan *conn, readers), closed: make(chan struct{})}
	for range readers {
		p.free <- nil
	}
	return p
}

// with lends f a connection, and returns when all that f may have read is durable: readers see the log's
// end before the disk has it. f must not call the store: the connection it waits for might be its own.
func (p *pool) with(ctx context.Context, f func(*conn) error) error {
	var c *conn
	select {
	case <-p.closed:
		return rule.Closed()
	default:
	}
	select {
	case c = <-p.free:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.closed:
		return rule.Closed()
	}
	if c == nil {
		var err error
		if c, err = dial(p.path, p.vfs, "query_only=on"); err != nil {
			p.free <- nil
			return err
		}
	}
	if err := p.lend(ctx, c, f); err != nil {
		return err
	}
	return p.sync.settle(ctx)
}

func (p *pool) lend(ctx context.Context, c *conn, f func(*conn) error) error {
	defer func() { p.free <- fit(c) }()
	c.SetInterrupt(ctx)
	return f(c)
}

// fit is the connection if it may be lent again, or nil. One that is still in a transaction would show the
// next reader the past, and keep the log from being moved into the database.
func fit(c *conn) *conn {
	c.SetInterrupt(context.Background())
	if c.GetAutocommit() {
		return c
	}
	_ = c.close() // it only read
	return nil
}

// close waits for those who read and closes all connections.
func (p *pool) close() error {
	close(p.closed)
	var errs []error
	for range readers {
		if c := <-p.free; c != nil {
			errs = append(errs, c.close())
		}
	}
	return errors.Join(errs...)
}
