package daemon

import (
	"context"
	"sync"
)

// locks are locks by name that can be waited for no longer than somebody cares.
type locks struct{ all sync.Map }

// hold waits until nobody else holds the lock of this name, and holds it until release is called.
func (l *locks) hold(ctx context.Context, name string) (release func(), err error) {
	m, _ := l.all.LoadOrStore(name, make(chan struct{}, 1))
	held := m.(chan struct{})
	select {
	case held <- struct{}{}:
		return func() { <-held }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
