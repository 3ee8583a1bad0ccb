// Package gateway is the one client that all loops share: an llm.Model in front of the models of one or
// several providers, each with one or several keys. It owns the admission to their APIs (L-4, L-6).
//
// A call waits until there is room for it: a place among the calls in flight, and of one key what it needs
// of the minute's requests and tokens. Room is bounded by what the options say, and by what providers
// say of their limits in the headers of answers. Calls go in by priority, then by the age of their task;
// a call that waits is treated, for each half minute, as one of the next higher priority, so that none
// waits forever. Nobody passes by the first in line because it needs less: a large call would
// wait forever too. The lines of providers do not hold each other up. A place is held during Stream only,
// and by nobody whose context has ended.
//
// Like every model a gateway makes one attempt for each call and leaves retries to the loop. A key that is
// told to wait rests for that long; while it does, the others are used. A call that fails because of its
// key, by a rate limit or because the key is not accepted, is made again with another that is ready: it says
// nothing of the call, and must not cost the loop an attempt.
//
// A gateway also knows which models are down (Choose). All it knows is in memory: after a restart every
// model is thought healthy and every key unused, and the first answers teach it better.
package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

var fpAdmitted = failpoint.New("gateway.call.admitted")

// Options set up a gateway.
type Options struct {
	// Providers are those there are, at least one.
	Providers []Provider
	// Default names the provider of models that are named without one; empty: the first.
	Default string
	// Fallback gives for a model those to use, in this order, while it is down.
	Fallback map[string][]string
	// Breaker says when a model counts as down; the zero value: as the constants of this package say.
	Breaker Breaker
	// InFlight is how many calls there may be at once, of all providers; zero: no bound of its own.
	InFlight int
	// Queue is how many calls may wait; zero: DefaultQueue. Of more the one that would be served last is
	// sent back, as if it had met a rate limit.
	Queue int
}

// Provider is one API, or one endpoint of it.
type Provider struct {
	// Name is what comes before the slash in "provider/model".
	Name string
	// New makes the model of one key.
	New func(key string) llm.Model
	// Keys are used in turn, the one with the most room first; none: one call without a key.
	Keys []string
	// The bounds of each key; zero: none but what the provider says of its own accord.
	InFlight int // calls at once
	Requests int // in any minute
	Tokens   int // in any minute: input that was not read from the provider's cache
}

// DefaultQueue is how many calls may wait when the options do not say.
const DefaultQueue = 10_000

// Gateway is the shared client. It is safe for concurrent use.
type Gateway struct {
	order    []*provider // as in the options
	byName   map[string]*provider
	standard *provider // of models named without one
	fallback map[string][]string
	breaker  Breaker
	most     int // in flight; zero: no bound
	queue    int
	start    time.Time

	mu       sync.Mutex
	inFlight int
	waiting  int
	joined   uint64      // counts calls
	timer    *time.Timer // lets the next call in when room comes by the mere passing of time
	breakers map[string]*circuit
}

// provider is an API with its keys and the calls that wait for one.
type provider struct {
	name    string
	keys    []*key
	waiting line
}

// call is one call, from its coming to its end.
type call struct {
	provider *provider
	model    string // with its provider
	priority int
	since    time.Time // age of the task
	rank     int       // by priority and time of coming
	number   uint64
	index    int // in line

	ready   chan struct{} // closed when the waiting is over; nil: it did not wait
	refused error         // set before ready is closed, if it was
	key     *key          // likewise, if it may go
	use     use
	began   time.Time
	trial   *circuit // the circuit whose trial this call is
}

// Provider names the implementation behind models that are named without a provider.
func (g *Gateway) Provider() string { return g.standard.keys[0].model.Provider() }

// errPanicked stands for the answer of a model that did not come back.
var errPanicked = errors.New("the model panicked")

// Stream waits for its turn and makes one call. What it does to the world is what the provider's model
// does, and like there nothing is left of a call that was interrupted but its cost. An unknown provider
// is an *llm.Error around a td.Error of kind Invalid.
func (g *Gateway) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	p, model, err := g.resolve(req.Model)
	if err != nil {
		return llm.Response{}, badRequest(err)
	}
	req.Model = model
	for left := len(p.keys) - 1; ; left-- {
		resp, err := g.once(ctx, p, req, emit)
		if err == nil || left == 0 || !g.another(p, err) {
			return resp, err
		}
	}
}

// Count asks the provider of a call how many tokens its input has. It waits for no place: providers count apart from their other
// limits. A key that is not accepted is asked only if there is no other.
func (g *Gateway) Count(ctx context.Context, req llm.Request) (int, error) {
	p, model, err := g.resolve(req.Model)
	if err != nil {
		return 0, badRequest(err)
	}
	req.Model = model
	counter, ok := g.accepted(p).(llm.Counter)
	if !ok {
		return 0, llm.ErrNoCounter
	}
	return counter.Count(ctx, req)
}

// accepted is the model of a key that is not known to be invalid, if there is one.
func (g *Gateway) accepted(p *provider) llm.Model {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for _, k := range p.keys {
		if !now.Before(k.refused) {
			return k.model
		}
	}
	return p.keys[0].model
}

// once makes the call with one key.
func (g *Gateway) once(ctx context.Context, p *provider, req llm.Request, emit func(llm.Delta)) (resp llm.Response, err error) {
	c := &call{
		provider: p, model: p.name + "/" + req.Model, priority: req.Priority, since: req.Since,
		use: use{tokens: int64(max(req.Tokens, 0))},
	}
	if err := g.enter(ctx, c); err != nil {
		return llm.Response{}, err
	}
	err = errPanicked // until the model comes back
	defer func() { err = g.leave(c, resp, err) }()
	fpAdmitted.Hit()
	resp, err = c.key.model.Stream(ctx, req, emit)
	if !resp.Usage.True() {
		resp.Usage = td.Usage{} // as if nothing had been said: it is estimated
	}
	return resp, err
}

// enter waits until c may go.
func (g *Gateway) enter(ctx context.Context, c *call) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	g.mu.Lock()
	now := time.Now()
	g.tryOut(c, now)
	if g.atOnce(c, now) {
		g.mu.Unlock()
		return nil
	}
	g.join(c, now)
	g.mu.Unlock()

	select {
	case <-c.ready:
		return c.refused
	case <-ctx.Done():
		g.giveUp(c)
		return context.Cause(ctx)
	}
}

// leave ends a call: others may have its place, and all learn from how it went. It returns the error as
// the loop should see it.
func (g *Gateway) leave(c *call, resp llm.Response, err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.inFlight--
	c.key.inFlight--
	failure, _ := errors.AsType[*llm.Error](err)
	switch {
	case err == nil:
		c.key.minute.correct(&c.use, resp.Usage.Input+resp.Usage.CacheWrite)
		c.key.learn(&c.use, resp.Limits, now)
	case failure != nil:
		c.key.learn(&c.use, failure.Limits, now)
		c.key.failed(failure, now)
		err = c.provider.comeBack(err, now)
	}
	g.judge(c, resp, err, now)
	g.dispatch(now)
	return err
}
