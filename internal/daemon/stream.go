package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"taskdaemon/internal/coord"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// stream is the daemon's own log in the journal: starts, stops, reports. It is claimed like a task, so
// that two daemons can never write to it at once.
type stream struct {
	journal store.Journal
	held    *coord.Held

	mu   sync.Mutex
	head uint64
}

func openStream(ctx context.Context, j store.Journal, k *coord.Keeper) (*stream, error) {
	_, held, err := k.Claim(ctx, td.DaemonStream)
	if err != nil {
		return nil, fmt.Errorf("open the daemon's log: %w", err)
	}
	t, err := j.Task(ctx, td.DaemonStream)
	if err != nil {
		return nil, fmt.Errorf("open the daemon's log: %w", err)
	}
	return &stream{journal: j, held: held, head: t.Head}, nil
}

func (s *stream) append(ctx context.Context, b td.Body) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.journal.Append(ctx, s.held.Claim, s.head, td.Event{
		Task: td.DaemonStream, At: time.Now().UTC().Round(0), Body: b,
	})
	if err != nil {
		return fmt.Errorf("record %s: %w", b.Type(), err)
	}
	s.head = t.Head
	return nil
}

// before is the record before the newest one, or nil if that is the first.
func (s *stream) before(ctx context.Context) (td.Body, error) {
	if s.head < 2 {
		return nil, nil
	}
	for ev, err := range s.journal.Read(ctx, td.DaemonStream, s.head-2) {
		if err != nil {
			return nil, fmt.Errorf("read the daemon's log: %w", err)
		}
		return ev.Body, nil
	}
	return nil, nil
}

func (s *stream) release(ctx context.Context) { s.held.Release(ctx) }
