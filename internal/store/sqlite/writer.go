package sqlite

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// op is one call that writes. run is called in the group's transaction, perhaps more than once, and
// must check everything before it writes anything: an error with a td.Kind refuses this op alone, any
// other ends the group.
type op struct {
	run  func(*tx) error
	err  error
	done chan struct{}
	// taken is set by whoever decides the op's fate first: the writer or a caller that gave up.
	taken atomic.Bool
}

// writer is the one goroutine that writes. What it wrote the syncer makes durable.
type writer struct {
	s    *Store
	c    *conn
	sync *syncer
	last uint64 // the newest event's cursor
	// commits is how many groups were written, those of earlier lives among them.
	commits uint64

	cache     *cache
	staged    map[td.TaskID]*entry // of the group that is written
	unwritten unwritten
	stmts     stmts

	mu      sync.Mutex
	queue   []*op
	stopped bool
	wake    chan struct{} // holds a token when there is something to do
	ended   chan struct{}

	logPages int // length of the write-ahead log after the last commit
	tried    int // its length when a checkpoint was last tried
}

// maxGroup bounds a transaction, and so the time until its first op is acknowledged.
const maxGroup = 1024

// checkpointAt is the length of the log, in pages, at which it is moved into the database.
const checkpointAt = 1000

func newWriter(s *Store, c *conn, y *syncer, last, commits uint64) *writer {
	w := &writer{
		s: s, c: c, sync: y, last: last, commits: commits, cache: newCache(), staged: map[td.TaskID]*entry{}, stmts: newStmts(),
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	c.WALHook(func(_ *sqlite3.Conn, _ string, pages int) error {
		w.logPages = pages
		return nil
	})
	go w.loop()
	return w
}

// do hands run to the writer and waits until it is durable or refused. A caller whose context ends
// before the writer took it leaves nothing behind; after that it waits, for the outcome is certain soon.
func (w *writer) do(ctx context.Context, run func(*tx) error) error {
	o := &op{run: run, done: make(chan struct{})}
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return rule.Closed()
	}
	w.queue = append(w.queue, o)
	w.mu.Unlock()
	w.poke()
	select {
	case <-o.done:
	case <-ctx.Done():
		if o.taken.CompareAndSwap(false, true) {
			return w.s.classify(ctx.Err())
		}
		<-o.done
	}
	return o.err
}

func (w *writer) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// stop lets the writer finish what was handed to it, and reports whether the journal is sound.
func (w *writer) stop() bool {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.poke()
	<-w.ended
	close(w.sync.in)
	<-w.sync.ended
	return w.sync.broken() == nil
}

func (w *writer) loop() {
	defer close(w.ended)
	for range w.wake {
		for {
			group, stopped := w.next()
			if len(group) == 0 {
				if stopped {
					return
				}
				break
			}
			w.write(group)
			w.checkpoint()
		}
	}
}

// next takes the ops that queued since it was last called.
func (w *writer) next() (group []*op, stopped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxGroup)
	for _, o := range w.queue[:n] {
		if o.taken.CompareAndSwap(false, true) {
			group = append(group, o)
		}
	}
	if n == len(w.queue) {
		w.queue = nil
	} else {
		w.queue = w.queue[n:]
	}
	return group, w.stopped && len(w.queue) == 0
}

// write puts a group into the log and hands it to the syncer. If one op made the database refuse the
// whole group, each is tried again alone.
func (w *writer) write(group []*op) {
	w.sync.begin()
	t, err := w.commit(group)
	if err != nil && len(group) > 1 && w.sync.broken() == nil && w.alone(err) {
		w.sync.hand(written{})
		for _, o := range group {
			w.write([]*op{o})
		}
		return
	}
	w.sync.hand(written{group, t, err})
}

// alone reports whether an error may be of one op's making.
func (w *writer) alone(err error) bool {
	return w.s.full(err) || is(err, sqlite3.TOOBIG) || is(err, sqlite3.CONSTRAINT)
}

// commit runs a group in one transaction, which is nil if it wrote nothing. The error is that of the
// group; an op that was refused has its own.
func (w *writer) commit(group []*op) (*tx, error) {
	if err := w.s.Displaced(); err != nil {
		w.sync.stop(err) // also if it comes back: what was done meanwhile was done elsewhere
	}
	if err := w.sync.broken(); err != nil {
		return nil, td.Errorf(td.Unavailable, "the journal refuses writes since one failed: %w", err).
			WithHint("restart the daemon: it reads back what is on the disk")
	}
	if err := w.c.exec("BEGIN IMMEDIATE"); err != nil {
		return nil, w.s.classify(err)
	}
	t := newTx(w, len(group))
	defer w.unwritten.forget()
	for _, o := range group {
		o.err = o.run(t)
		if _, refused := errors.AsType[*td.Error](o.err); o.err != nil && !refused {
			return nil, w.rollback(w.s.classify(o.err))
		}
	}
	if !t.wrote {
		return nil, w.rollback(nil)
	}
	if err := t.flush(); err != nil {
		return nil, w.rollback(w.s.classify(err))
	}
	if err := writeTallies(t.c, t.tallies); err != nil {
		return nil, w.rollback(w.s.classify(err))
	}
	if err := t.exec("UPDATE commits SET n = ?", t.commits); err != nil {
		return nil, w.rollback(w.s.classify(err))
	}
	fpGroupCommit.Hit()
	if err := w.c.exec("COMMIT"); err != nil {
		return nil, w.undecided(err)
	}
	fpGroupCommitted.Hit()
	t.committed()
	return t, nil
}

// rollback undoes the transaction. If that fails, nothing is known any more.
func (w *writer) rollback(err error) error {
	if w.c.GetAutocommit() {
		return err // SQLite did it already
	}
	if rerr := w.c.exec("ROLLBACK"); rerr != nil && !w.c.GetAutocommit() {
		return w.sync.fail(errors.Join(err, rerr))
	}
	if td.IsKind(err, td.Corrupt) {
		w.sync.stop(err) // a damaged database is not written to
	}
	return err
}

// undecided sorts out a COMMIT that failed.
func (w *writer) undecided(err error) error {
	if notWritten(err) {
		return w.rollback(w.s.classify(err))
	}
	if !w.c.GetAutocommit() {
		err = errors.Join(err, w.c.exec("ROLLBACK"))
	}
	return w.sync.fail(err)
}

// checkpoint moves the log into the database when it has grown. What fails here is tried again: the
// log still has everything, and pages that could not be synced are written once more. The log itself is synced
// by the syncer alone: the kernel tells of a page that it could not write once, and whoever hears of
// it must be the one who answers for it.
func (w *writer) checkpoint() {
	if w.logPages < w.tried {
		w.tried = 0 // the log began anew
	}
	if w.logPages < w.tried+checkpointAt {
		return
	}
	if err := w.sync.settle(context.Background()); err != nil || w.sync.broken() != nil {
		return
	}
	w.tried = w.logPages
	fpCheckpoint.Hit()
	if _, _, err := w.c.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE); err != nil {
		w.s.log.Warn("the journal's log could not be moved into the database; it is tried again", "err", err)
	}
	fpCheckpointed.Hit()
}
