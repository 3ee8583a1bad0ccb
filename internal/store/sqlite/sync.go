package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"taskdaemon/internal/td"
)

// syncer is the goroutine that makes groups durable and tells their callers, in the log's order. It works
// beside the writer: while the disk takes one group, the next is written behind it. Only the log's end is
// ever in doubt, and nobody is told of what is.
type syncer struct {
	s     *Store
	log   vfs.File
	mark  *mark
	early bool // tell before the sync, to prove that tests notice
	in    chan written
	ended chan struct{}

	mu     sync.Mutex
	begun  uint64        // groups that the writer began
	told   uint64        // groups whose callers know
	moved  chan struct{} // closed when told grows
	failed error         // set when a write's outcome is unknown: nothing is written any more
}

// written is a group the writer is done with.
type written struct {
	group []*op
	tx    *tx   // what it put into the log; nil: nothing
	err   error // why the whole group was refused
}

func newSyncer(s *Store, c *conn, m *mark, early bool) (*syncer, error) {
	f, err := c.FileControl("main", sqlite3.FCNTL_JOURNAL_POINTER)
	if err != nil {
		return nil, fmt.Errorf("find the log: %w", err)
	}
	log, ok := f.(vfs.File)
	if !ok {
		return nil, errors.New("find the log: the database has none")
	}
	y := &syncer{s: s, log: log, mark: m, early: early, in: make(chan written), ended: make(chan struct{}), moved: make(chan struct{})}
	go y.loop()
	return y, nil
}

// begin announces a group, before anything of it can be read. Each is followed by one hand.
func (y *syncer) begin() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.begun++
}

// hand gives over a group when the one before it is on the disk. The writer is not further ahead than that: groups
// would be smaller, and syncs more.
func (y *syncer) hand(g written) { y.in <- g }

func (y *syncer) loop() {
	defer close(y.ended)
	for g := range y.in {
		y.tell(g, y.sync(g))
	}
}

// sync makes durable what a group put into the log.
func (y *syncer) sync(g written) error {
	switch {
	case g.tx == nil || y.early:
		return nil
	case y.broken() != nil:
		return y.fail(y.broken())
	}
	if err := y.log.Sync(vfs.SYNC_NORMAL | vfs.SYNC_DATAONLY); err != nil {
		return y.fail(err)
	}
	fpGroupSynced.Hit()
	if err := y.mark.set(g.tx.commits); err != nil {
		y.s.log.Warn("how far the journal is could not be marked; an older mark is true, too", "err", err)
	}
	return nil
}

// tell lets followers and callers know. After a failed sync the callers learn that nobody knows.
func (y *syncer) tell(g written, failed error) {
	if failed != nil {
		g.err = failed
	} else if g.tx != nil {
		y.s.bus.Publish(g.tx.publish)
		fpGroupPublished.Hit()
	}
	for _, o := range g.group {
		if g.err != nil {
			o.err = g.err
		}
		close(o.done)
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	y.told++
	close(y.moved)
	y.moved = make(chan struct{})
}

// settle waits until everything that the writer began before is durable or refused.
func (y *syncer) settle(ctx context.Context) error {
	y.mu.Lock()
	upTo := y.begun
	for y.told < upTo {
		moved := y.moved
		y.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
		y.mu.Lock()
	}
	y.mu.Unlock()
	return nil
}

// broken is why nothing is written any more, if that is so.
func (y *syncer) broken() error {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.failed
}

// stop ends all writing.
func (y *syncer) stop(err error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.failed == nil {
		y.failed = err
	}
}

// fail ends all writing after a write of which nobody knows whether it is on the disk.
func (y *syncer) fail(err error) error {
	y.stop(err)
	y.s.log.Error("the journal cannot be written any more", "err", err)
	return td.Errorf(td.Unknown, "it is not known whether the journal was written: %w", err).
		WithHint("restart the daemon: it reads back what is on the disk")
}
