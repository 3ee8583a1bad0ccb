package gateway

import (
	"fmt"
	"math"
	"slices"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

const (
	// patience is how long a call waits until it counts as one of the next higher priority.
	patience = 30 * time.Second
	// fullPause is when a call that found the queue full should come back.
	fullPause = 5 * time.Second
	// forever is the wait for room that no time brings, only the end of another call.
	forever = time.Duration(math.MaxInt64)
)

// level is the priority of a call after its wait.
func (c *call) level(now time.Time) int { return c.priority - int(now.Sub(c.joined)/patience) }

// before reports whether c goes before d: by priority, then by age of the task, then as they came.
func (c *call) before(d *call, now time.Time) bool {
	if l, m := c.level(now), d.level(now); l != m {
		return l < m
	}
	if !c.since.Equal(d.since) {
		return c.since.Before(d.since)
	}
	return c.number < d.number
}

// atOnce lets c in if there is room and nobody waits for it.
func (g *Gateway) atOnce(c *call, now time.Time) bool {
	if len(c.provider.waiting) > 0 || g.full() {
		return false
	}
	k, _ := c.provider.pick(now, c.use.tokens)
	if k != nil {
		g.admit(c, k, now)
	}
	return k != nil
}

func (g *Gateway) full() bool { return g.most > 0 && g.inFlight >= g.most }

func (g *Gateway) admit(c *call, k *key, now time.Time) {
	g.inFlight++
	c.key, c.began = k, now
	k.take(&c.use, now)
}

// join puts c in line.
func (g *Gateway) join(c *call, now time.Time) {
	g.joined++
	c.joined, c.number, c.ready = now, g.joined, make(chan struct{})
	if c.since.IsZero() || c.since.After(now) {
		c.since = now
	}
	c.provider.waiting = append(c.provider.waiting, c)
	g.waiting++
	if g.waiting > g.queue {
		g.sendBack(g.last(now))
	}
	g.dispatch(now)
}

// sendBack refuses a call that waits.
func (g *Gateway) sendBack(c *call) {
	g.remove(c)
	g.untry(c)
	c.refused = &llm.Error{
		Class: td.RateLimited, RetryAfter: fullPause, Hint: "let fewer tasks run at once, or add a key",
		Err: fmt.Errorf("%d calls wait for their turn already", g.queue),
	}
	close(c.ready)
}

// giveUp takes a call out whose context has ended, be it still in line or just admitted.
func (g *Gateway) giveUp(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case c.refused != nil:
		return
	case c.key != nil:
		g.inFlight--
		c.key.giveBack(&c.use)
	default:
		g.remove(c)
	}
	g.untry(c)
	g.dispatch(time.Now())
}

func (g *Gateway) remove(c *call) {
	w := c.provider.waiting
	i := slices.Index(w, c)
	w[i] = w[len(w)-1]
	w[len(w)-1] = nil
	c.provider.waiting = w[:len(w)-1]
	g.waiting--
}

// first is the call that waits for p and goes next.
func (p *provider) first(now time.Time) *call {
	var best *call
	for _, c := range p.waiting {
		if best == nil || c.before(best, now) {
			best = c
		}
	}
	return best
}

// last is the call that would be served last.
func (g *Gateway) last(now time.Time) *call {
	var worst *call
	for _, p := range g.order {
		for _, c := range p.waiting {
			if worst == nil || worst.before(c, now) {
				worst = c
			}
		}
	}
	return worst
}

// dispatch lets in all that have room, and sets the timer for the next that will. It must run after
// everything that makes room or changes who is first.
func (g *Gateway) dispatch(now time.Time) {
	if g.waiting == 0 {
		g.wakeIn(forever)
		return
	}
	for {
		var (
			best *call
			with *key
			soon = forever
		)
		for _, p := range g.order {
			c := p.first(now)
			if c == nil || g.full() || best != nil && best.before(c, now) {
				continue
			}
			if k, wait := p.pick(now, c.use.tokens); k != nil {
				best, with = c, k
			} else {
				soon = min(soon, wait)
			}
		}
		if best == nil {
			g.wakeIn(soon)
			return
		}
		g.remove(best)
		g.admit(best, with, now)
		close(best.ready)
	}
}

// wakeIn sets the timer. While nobody waits for time to pass it does not run.
func (g *Gateway) wakeIn(d time.Duration) {
	switch {
	case d == forever && g.timer != nil:
		g.timer.Stop()
	case d == forever:
	case g.timer == nil:
		g.timer = time.AfterFunc(d, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.dispatch(time.Now())
		})
	default:
		g.timer.Reset(d)
	}
}
