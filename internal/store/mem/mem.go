// Package mem keeps the journal in memory, with the same contract as the one on disk. It does no IO,
// starts no goroutine and takes the time from time.Now, so that a simulation under testing/synctest runs
// on the bubble's clock. Nothing in it is durable.
package mem

import (
	"sync"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// Store is one process's hold on a journal in memory. Its methods may be called from any goroutine.
type Store struct {
	alive func(td.Holder) bool
	*data
	done   chan struct{}
	closed bool // guarded by data.mu
}

var _ store.Journal = (*Store)(nil)

// data is what would be on disk. Its mutex is the one writer.
type data struct {
	mu      sync.Mutex
	last    uint64
	events  []record // by cursor
	tasks   map[td.TaskID]*task
	order   []td.TaskID // as created
	handles map[string]bool
	keys    map[string]td.TaskID
	cursors map[string]uint64
	ledger  ledger
	runs    map[string]td.GraphRun
	tallies rule.Tallies
	more    chan struct{} // closed at the next event; nil when nobody waits
}

type record struct {
	td.Record
	epoch uint64
}

type task struct {
	td.Task
	stream []record
	inbox  []*command
	claim  claim
	leased leased
}

type claim struct {
	epoch    uint64
	held     bool
	holder   td.Holder
	deadline time.Time
}

type command struct {
	td.Command
	consumed uint64 // cursor of the event that took it
}

// New makes an empty journal. alive reports whether a claim's holder still lives; nil: all do.
func New(alive func(td.Holder) bool) *Store {
	d := &data{
		tasks: map[td.TaskID]*task{}, handles: map[string]bool{}, keys: map[string]td.TaskID{},
		cursors: map[string]uint64{}, ledger: newLedger(), runs: map[string]td.GraphRun{}, tallies: rule.Tallies{},
	}
	daemon := rule.Daemon()
	d.tasks[daemon.ID] = &task{Task: daemon}
	return d.open(alive)
}

func (d *data) open(alive func(td.Holder) bool) *Store {
	return &Store{alive: alive, data: d, done: make(chan struct{})}
}

// Open is another process's hold on the same journal, or a later one's.
func (s *Store) Open() *Store { return s.open(s.alive) }

// Close ends this hold. Calls after it fail with td.Unavailable; other holds are not affected.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return rule.Closed()
	}
	s.closed = true
	close(s.done)
	return nil
}

// enter takes the lock for a call, unless the store is closed or the caller gave up.
func (s *Store) enter(done <-chan struct{}) (leave func(), err error) {
	select {
	case <-done:
		return nil, td.Errorf(td.Interrupted, "interrupted")
	default:
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, rule.Closed()
	}
	return s.mu.Unlock, nil
}

func (d *data) task(id td.TaskID) (*task, error) {
	t := d.tasks[id]
	if t == nil {
		return nil, rule.NoTask(id)
	}
	return t, nil
}

// fenced is the claim's task, if the claim still holds it.
func (d *data) fenced(c td.Claim) (*task, error) {
	t, err := d.task(c.Task)
	if err != nil {
		return nil, err
	}
	if !t.claim.held || t.claim.epoch != c.Epoch {
		return nil, rule.Fenced(c, t.claim.epoch)
	}
	return t, nil
}
