package llm

import (
	"context"
	"errors"
	"sync"
	"time"

	"taskdaemon/internal/td"
)

// Throttle makes a rate limit felt by one caller hold for all callers of the same key (L-6): nobody
// calls before the time the provider named.
func Throttle(m Model) Model { return &throttle{Model: m} }

// leastPause is for providers that say no time.
const leastPause = time.Second

type throttle struct {
	Model

	mu    sync.Mutex
	until time.Time
}

func (t *throttle) Stream(ctx context.Context, req Request, emit func(Delta)) (Response, error) {
	if err := t.wait(ctx); err != nil {
		return Response{}, err
	}
	resp, err := t.Model.Stream(ctx, req, emit)
	if e, ok := errors.AsType[*Error](err); ok && e.Class == td.RateLimited {
		t.mu.Lock()
		if at := time.Now().Add(max(e.RetryAfter, leastPause)); at.After(t.until) {
			t.until = at
		}
		t.mu.Unlock()
	}
	return resp, err
}

func (t *throttle) wait(ctx context.Context) error {
	for {
		t.mu.Lock()
		wait := time.Until(t.until)
		t.mu.Unlock()
		if wait <= 0 {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}
