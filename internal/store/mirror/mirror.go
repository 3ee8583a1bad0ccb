// Package mirror writes every task's conversation into git, so that it can be read with plain git and
// outlives the journal's retention (S-4).
//
// One bare repository holds a branch per task, named by its handle, and on it a commit per checkpoint:
// the task as it was created, its context, each message, each turn (an answer with the results of its calls),
// each request and what became of it, and the end. Beside what people read it holds the records themselves, from which a journal that
// was lost can be made again (Reader). The mirror follows the journal by a cursor and is never waited for by a
// loop. It answers no query: the journal is the truth.
//
// A commit depends on nothing but the task's events up to it, and on who asked for all there is in the middle of a turn (Flush). So a mirror that was killed anywhere and
// runs again makes the same commits with the same ids, and events whose commits are there already are
// passed over. The state that rendering needs is kept in each commit (state.json), which makes a branch
// the only place where its own progress is written. The cursor is a file in the repository: a
// repository that was deleted or put back from a copy is brought up to date from what the journal
// still has.
//
// One Mirror at a time may write to a repository. Its methods may be called from any goroutine.
package mirror

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"taskdaemon/internal/git"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// cursorName is the name under which the mirror's progress is recorded in the journal.
const cursorName = "mirror"

// busyUntidiness is how untidy the repository may get before it is packed in the middle of work.
const busyUntidiness = 2

// Options say what is mirrored where.
type Options struct {
	Journal store.Journal
	Path    string // of the bare repository; made if it is not there
	Log     *slog.Logger
	// Window is how long a batch stays open for more events; zero: 1 s.
	Window time.Duration
	// Idle is how long nothing must happen before the repository is tidied; zero: 20 s.
	Idle time.Duration
	// Retry is the first wait after a failure; it doubles up to 32 times that. Zero: 1 s.
	Retry time.Duration
	// StaleLock is how old the lock of a git that was killed must be to be removed; zero: 5 s.
	StaleLock time.Duration
}

// Mirror follows a journal into a git repository.
type Mirror struct {
	o Options

	// turn is held, by putting into it, while states or the repository are used. hurry is read by an
	// open batch: someone waits for the turn.
	turn   chan struct{}
	hurry  chan struct{}
	states map[td.TaskID]*state
	skip   map[td.TaskID]bool // branches that cannot be written, until the next start

	mirrored atomic.Uint64
	anew     chan struct{} // holds a token when the repository is another one and is to be followed from its own cursor
}

// New makes a mirror. It touches nothing before Run or Flush.
func New(o Options) *Mirror {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		at  *time.Duration
		def time.Duration
	}{
		{&o.Window, time.Second},
		{&o.Idle, 20 * time.Second},
		{&o.Retry, time.Second},
		{&o.StaleLock, 5 * time.Second},
	} {
		if *d.at == 0 {
			*d.at = d.def
		}
	}
	return &Mirror{
		o: o, turn: make(chan struct{}, 1), hurry: make(chan struct{}),
		states: map[td.TaskID]*state{}, skip: map[td.TaskID]bool{}, anew: make(chan struct{}, 1),
	}
}

// Mirrored is the cursor up to which everything is known to be in the repository: zero before Run, and
// again when the repository had to be made anew. Retention must not remove anything newer.
func (m *Mirror) Mirrored() uint64 { return m.mirrored.Load() }

// Run follows the journal until ctx ends. No failure ends it: what cannot be written now is tried again
// later, and said once.
func (m *Mirror) Run(ctx context.Context) error {
	wait, said := m.o.Retry, td.Kind("")
	for {
		moved, err := m.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if moved {
			wait, said = m.o.Retry, ""
		}
		if kind := td.KindOf(err); kind != said {
			m.o.Log.Warn("conversations cannot be mirrored now; trying again", "kind", kind, "error", err)
			said = kind
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = min(2*wait, 32*m.o.Retry)
	}
}

// follow mirrors from the repository's cursor on until something fails, and reports whether it got
// anywhere.
func (m *Mirror) follow(ctx context.Context) (moved bool, err error) {
	repo, err := m.open(ctx)
	if err != nil {
		return false, err
	}
	cursor := readCursor(repo)
	last, err := m.o.Journal.Last(ctx)
	if err != nil {
		return false, err
	}
	if cursor > last {
		m.o.Log.Warn("the journal is another than the one that was mirrored here; it is followed from its beginning", "mirrored", cursor, "journal", last)
		cursor = 0
	}
	m.mirrored.Store(cursor)
	ctx, cancel := context.WithCancel(ctx)
	events, ended := make(chan td.Record, 256), make(chan error, 1)
	go func() {
		defer close(events)
		ended <- m.pump(ctx, cursor, events)
	}()
	defer func() {
		cancel()
		for range events { // the pump may be about to hand one over
		}
	}()

	idle := time.NewTimer(m.o.Idle)
	defer idle.Stop()
	for {
		select {
		case ev, ok := <-events:
			if !ok {
				return moved, <-ended
			}
			if err := ctx.Err(); err != nil {
				return moved, err
			}
			if err := m.batch(ctx, repo, ev, events); err != nil {
				return moved, err
			}
			moved = true
			// A daemon that is never idle must not drown in small packs either.
			if err := m.tidy(ctx, repo, busyUntidiness); err != nil {
				return moved, err
			}
			idle.Reset(m.o.Idle)
		case <-m.anew:
			return true, nil
		case <-idle.C:
			if err := m.tidy(ctx, repo, 1); err != nil {
				return moved, err
			}
		}
	}
}

// open makes the repository ready: nothing of a git that was killed stands in the way.
func (m *Mirror) open(ctx context.Context) (*git.Repo, error) {
	if err := m.take(ctx); err != nil {
		return nil, err
	}
	defer m.give()
	repo, err := git.OpenBare(ctx, m.o.Path)
	if err != nil {
		return nil, err
	}
	if aside := repo.Aside(); aside != "" {
		m.mirrored.Store(0)
		m.o.Log.Error("the repository of conversations could not be opened; a new one is written from the journal, and what retention has taken from that is only in the old one", "kept", aside)
	}
	gone, err := repo.Sweep(m.o.StaleLock)
	if err != nil {
		return nil, td.Errorf(td.Storage, "sweep repository: %w", err)
	}
	if len(gone) > 0 {
		m.o.Log.Info("removed what a killed git left behind", "files", gone)
	}
	return repo, nil
}

func (m *Mirror) pump(ctx context.Context, after uint64, to chan<- td.Record) error {
	all := store.EventFilter{Every: func() time.Duration { return m.o.Window / 20 }} // a commit waits for the window anyway
	for ev, err := range m.o.Journal.Follow(ctx, all, after) {
		if err != nil {
			return err
		}
		select {
		case to <- ev:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return td.Errorf(td.Unavailable, "the journal ended")
}

// tidy packs the repository when it has grown beyond limit times what is neat.
func (m *Mirror) tidy(ctx context.Context, repo *git.Repo, limit float64) error {
	if repo.Untidiness() < limit {
		return nil
	}
	if err := m.take(ctx); err != nil {
		return err
	}
	defer m.give()
	fpTidy.Hit()
	return repo.Upkeep(ctx)
}

// Flush brings one task's branch up to the journal's present end and returns its tip: the newest
// checkpoint.
func (m *Mirror) Flush(ctx context.Context, task td.TaskID) (string, error) {
	repo, err := m.open(ctx)
	if err != nil {
		return "", err
	}
	if err := m.take(ctx); err != nil {
		return "", err
	}
	defer m.give()
	branch, err := m.sync(ctx, repo, task, true)
	for tries := 0; git.Crossed(err) && tries < mostCrossed && ctx.Err() == nil; tries++ {
		select {
		case <-ctx.Done():
		case <-time.After(crossedRest):
			branch, err = m.sync(ctx, repo, task, true)
		}
	}
	if err != nil {
		return "", err
	}
	tip, err := repo.Tip(ctx, branch)
	if err == nil && tip == "" {
		err = td.Errorf(td.NotFound, "there is no conversation of task %s", task.Handle())
	}
	return tip, err
}

// How often, and after what rest, an import is begun again that crossed another one.
const (
	mostCrossed = 20
	crossedRest = 100 * time.Millisecond
)

// Hurry asks an open batch to end: somebody waits for what is in it.
func (m *Mirror) Hurry() {
	select {
	case m.hurry <- struct{}{}:
	default:
	}
}

// take waits for the turn and asks an open batch to end.
func (m *Mirror) take(ctx context.Context) error {
	for {
		select {
		case m.turn <- struct{}{}:
			return nil
		case m.hurry <- struct{}{}:
		case <-ctx.Done():
			return td.Errorf(td.Interrupted, "wait for the mirror: %w", context.Cause(ctx))
		}
	}
}

func (m *Mirror) give() { <-m.turn }
