package scheduler

import (
	"context"
	"errors"
	"sync"

	"taskdaemon/internal/tool"
)

// ErrUrgent is the cause of a step's context when a command must not wait for the step's end.
var ErrUrgent = errors.New("a person's command interrupts the step")

// ErrHalted is the cause of a brief step's context when the daemon stops.
var ErrHalted = errors.New("the daemon stops")

// Control is how the scheduler reaches a run.
type Control struct {
	wake chan struct{} // something is in the inbox, or halt

	mu     sync.Mutex
	halted bool
	cause  error       // set: steps must end
	cancel func(error) // ends the step under way
}

func newControl() *Control { return &Control{wake: make(chan struct{}, 1)} }

// Wake is readable when the run should look into its inbox, or halt.
func (c *Control) Wake() <-chan struct{} { return c.wake }

// Halted reports whether the run must stop at the next safe point.
func (c *Control) Halted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.halted
}

// Step gives the context for one step: it ends when an urgent command comes or the daemon leaves.
func (c *Control) Step(ctx context.Context) (context.Context, func()) {
	return c.step(ctx, func(cause error) bool { return !errors.Is(cause, ErrHalted) })
}

// Brief is Step for what may be made again at no loss but its price, as the call of a model may: it ends also when the run must stop at the next
// safe point, however long it would take.
func (c *Control) Brief(ctx context.Context) (context.Context, func()) {
	return c.step(ctx, func(error) bool { return true })
}

// Patient is Step for what carries a command out: it ends only when the daemon leaves.
func (c *Control) Patient(ctx context.Context) (context.Context, func()) {
	return c.step(ctx, func(cause error) bool { return !errors.Is(cause, ErrUrgent) && !errors.Is(cause, ErrHalted) })
}

func (c *Control) step(ctx context.Context, ends func(error) bool) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	end := func(cause error) {
		if cause != nil && ends(cause) {
			cancel(cause)
		}
	}
	c.mu.Lock()
	c.cancel = end
	end(c.cause)
	if c.halted {
		end(ErrHalted)
	}
	c.mu.Unlock()
	return ctx, func() {
		c.mu.Lock()
		c.cancel = nil
		c.mu.Unlock()
		cancel(nil)
	}
}

// Heard is called when the inbox was read: an urgent command has done its work.
func (c *Control) Heard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(c.cause, ErrUrgent) {
		c.cause = nil
	}
}

func (c *Control) notify(urgent bool) {
	if urgent {
		c.interrupt(ErrUrgent)
	} else {
		c.Poke()
	}
}

func (c *Control) halt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.halted = true
	c.Poke() // before the step ends, as in interrupt
	if c.cancel != nil {
		c.cancel(ErrHalted)
	}
}

// abandon ends the step under way so that its process goes on and can be adopted.
func (c *Control) abandon() {
	c.interrupt(tool.ErrDetach)
	c.halt()
}

func (c *Control) interrupt(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil || errors.Is(cause, tool.ErrDetach) { // no command calls a daemon back that leaves
		c.cause = cause
	}
	c.Poke() // before the step ends: who looks at once why it did is to find it
	if c.cancel != nil {
		c.cancel(cause)
	}
}

// Poke makes Wake readable: by the scheduler, or by a run that read it and leaves it to its safe point.
func (c *Control) Poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
