package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var (
	fpBeforeDial = failpoint.New("mcp.host.before_dial")
	fpUp         = failpoint.New("mcp.host.up")
)

var errSilent = errors.New("it did not answer and was ended")

// silentCalls is how many calls in a row may go without an answer before the server is given up: a server that
// hangs would cost each call its whole time.
const silentCalls = 2

// host looks after one server for all loops.
type host struct {
	pool *Pool
	cfg  Server
	open func() (*wire, error)

	mu      sync.Mutex
	link    *link
	leaving *link       // was ended on purpose, and may not be gone yet
	start   *attempt    // under way
	fails   int         // in a row
	next    time.Time   // not to be started before
	err     error       // of the last start or life, if it failed
	silent  int         // calls in a row without an answer
	rest    *time.Timer // ends the link when nobody uses it
	listed  *listing    // the last list; it outlives the link
	stale   bool        // the server says that its list has changed
}

// attempt is a start that is under way, for all who wait for it.
type attempt struct {
	done chan struct{}
	err  error // set before done is closed
}

// listing is what a server offered when it was last asked.
type listing struct {
	offers    []Offer
	leftOut   []LeftOut
	info      info
	handshake time.Duration
}

// use gives the link to the server, which is started if need be, and a function to give it back.
func (h *host) use(ctx context.Context) (*link, func(), error) {
	for {
		l, a, err := h.try(ctx)
		switch {
		case err != nil:
			return nil, nil, err
		case a == nil:
			return l, sync.OnceFunc(func() { h.release(l) }), nil
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		if a.err != nil {
			return nil, nil, a.err
		}
	}
}

// try gives the link, or what to wait for before trying again.
func (h *host) try(ctx context.Context) (*link, *attempt, error) {
	switch {
	case h.cfg.Disabled:
		return nil, nil, td.Errorf(td.Refused, "the config disables it")
	case h.pool.ctx.Err() != nil:
		return nil, nil, errClosed
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.link; l != nil {
		select {
		case <-l.gone: // its end is being recorded
			return nil, &attempt{done: l.ended}, nil
		default:
		}
		l.users++
		return l, nil, nil
	}
	if l := h.leaving; l != nil { // one process at a time: it may hold what the next one needs
		select {
		case <-l.ended:
			h.leaving = nil
		default:
			return nil, &attempt{done: l.ended}, nil
		}
	}
	if h.start != nil {
		return nil, h.start, nil
	}
	pause := max(0, h.next.Sub(h.pool.now()))
	if pause > h.pool.lim.patience {
		return nil, nil, td.Errorf(td.Unavailable, "%w (%d failures in a row; the next try is in %s)", h.err, h.fails, pause.Round(time.Second/10))
	}
	a := &attempt{done: make(chan struct{})}
	if !h.pool.spawn(func() { h.bringUp(pause, a) }) {
		return nil, nil, errClosed
	}
	h.start = a
	return nil, a, nil
}

// bringUp waits out the pause and starts the server. It is for all who want the server, so it heeds none of their
// contexts.
func (h *host) bringUp(pause time.Duration, a *attempt) {
	ctx, cancel := context.WithTimeoutCause(h.pool.ctx, pause+h.cfg.StartTimeout,
		td.Errorf(td.Timeout, "it did not start within %s", h.cfg.StartTimeout))
	defer cancel()
	err := sleep(ctx, pause)
	var l *link
	var list *listing
	if err == nil {
		fpBeforeDial.Hit()
		l, list, err = h.dial(ctx)
	}
	h.mu.Lock()
	h.start = nil
	if err == nil {
		h.link, h.listed, h.err, h.stale, h.silent = l, list, nil, false, 0
		h.restLater()
	} else {
		a.err = err
		h.failed(err)
	}
	close(a.done)
	h.mu.Unlock()
	if err != nil {
		h.pool.log.Warn("MCP server did not start", "server", h.cfg.Name, "error", err)
		return
	}
	fpUp.Hit()
	h.pool.log.Info("MCP server is up", "server", h.cfg.Name, "tools", len(list.offers), "took", l.handshake)
	if !h.pool.spawn(func() { h.watch(l) }) {
		l.end()
	}
}

func (h *host) dial(ctx context.Context) (*link, *listing, error) {
	l, tools, err := dial(ctx, h.open, h.pool.lim, h.changed)
	if err != nil {
		return nil, nil, h.secret(err)
	}
	list := &listing{info: l.info, handshake: l.handshake}
	list.offers, list.leftOut = offers(&h.cfg, tools)
	for _, o := range list.leftOut {
		h.pool.log.Debug("MCP tool is left out", "server", h.cfg.Name, "tool", o.Tool, "why", o.Why)
	}
	return l, list, nil
}

// watch records the end of a link that nobody asked for.
func (h *host) watch(l *link) {
	<-l.gone
	l.end()
	h.mu.Lock()
	if h.link != l {
		h.mu.Unlock()
		return
	}
	h.link = nil
	err := h.secret(l.err)
	if h.pool.now().Sub(l.since) >= h.pool.lim.healthy {
		h.fails = 0
	}
	h.failed(err)
	h.mu.Unlock()
	h.pool.log.Warn("MCP server is gone", "server", h.cfg.Name, "error", err)
}

// failed plans the next start. The lock is held.
func (h *host) failed(err error) {
	h.fails++
	h.err = err
	h.next = h.pool.now().Add(h.pool.lim.backoff(h.fails))
}

// release gives a link back.
func (h *host) release(l *link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.users--
	h.restLater()
}

// restLater ends the link if nobody uses it for a while from now on. The lock is held.
func (h *host) restLater() {
	l := h.link
	if l == nil || l.users > 0 {
		return
	}
	if h.rest != nil {
		h.rest.Stop()
	}
	h.rest = time.AfterFunc(h.pool.lim.idle, func() {
		h.pool.spawn(func() {
			if h.drop(func() bool { return h.link == l && l.users == 0 }) {
				h.pool.log.Info("MCP server was not needed and is ended", "server", h.cfg.Name)
			}
		})
	})
}

// drop ends the link on purpose, which is no failure, if may says so under the lock.
func (h *host) drop(may func() bool) bool {
	h.mu.Lock()
	l := h.link
	if l == nil || !may() {
		h.mu.Unlock()
		return false
	}
	h.link, h.leaving = nil, l
	if h.rest != nil {
		h.rest.Stop()
	}
	h.mu.Unlock()
	l.wire.fault.set(errEnded)
	l.end()
	return true
}

// heard counts answers, and gives up a server that gives none.
func (h *host) heard(l *link, answered bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if answered {
		h.silent = 0
		return
	}
	if h.silent++; h.silent >= silentCalls && h.link == l {
		h.silent = 0
		l.wire.fault.set(errSilent)
		h.pool.spawn(l.end) // watch takes it for a failure, which it is
	}
}

// changed is told when the server says that its list has changed.
func (h *host) changed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stale = true
}

// tools is what the server offers. It is asked if it never was, or if it says that its list has changed since.
func (h *host) tools(ctx context.Context) (*listing, error) {
	h.mu.Lock()
	list, stale := h.listed, h.stale && h.link != nil
	h.mu.Unlock()
	if list != nil && !stale {
		return list, nil
	}
	l, release, err := h.use(ctx)
	if err != nil {
		return list, err
	}
	defer release()
	return h.relist(ctx, l, stale)
}

// relist asks the server for its list if that is wanted, and gives the last one.
func (h *host) relist(ctx context.Context, l *link, ask bool) (*listing, error) {
	h.mu.Lock()
	list := h.listed
	if ask {
		h.stale = false // before it is asked: what changes meanwhile counts again
	}
	h.mu.Unlock()
	if !ask {
		return list, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.cfg.StartTimeout, td.Errorf(td.Timeout, "it did not tell its tools within %s", h.cfg.StartTimeout))
	defer cancel()
	tools, err := l.list(ctx)
	if err != nil {
		h.changed()
		return list, fmt.Errorf("list tools: %w", h.secret(err))
	}
	fresh := &listing{info: l.info, handshake: l.handshake}
	fresh.offers, fresh.leftOut = offers(&h.cfg, tools)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listed = fresh
	return fresh, nil
}

// secret takes out of an error what the server was trusted with.
func (h *host) secret(err error) error {
	text := err.Error()
	if clean := cut(h.pool.redactors[h.cfg.Name].String(text), 600); clean != text {
		return td.Errorf(td.KindOf(err), "%s", clean)
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
