package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// interrupts are the signals by which a person stops a command: the first asks, the second does not wait.
type interrupts struct {
	mu     sync.Mutex
	cancel context.CancelFunc // nil: asked already
}

// arm gives a context that the next signal ends. What its parent was ended by is forgotten.
func (i *interrupts) arm(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cancel = cancel
	return ctx
}

// listen obeys signals for as long as the process lives.
func (i *interrupts) listen() {
	sigs := make(chan os.Signal, 2)
	signal.Notify(sigs, syscall.SIGINT, syscall.SIGTERM)
	for range sigs {
		i.mu.Lock()
		cancel := i.cancel
		i.cancel = nil
		i.mu.Unlock()
		if cancel == nil {
			os.Exit(exitInterrupted)
		}
		cancel()
	}
}
