package gateway

import (
	"container/heap"
	"fmt"
	"math"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

const (
	// patience is how long it takes until a call that waits counts as one of the next higher priority.
	patience = 30 * time.Second
	// fullPause is when a call that found the queue full should come back.
	fullPause = 5 * time.Second
	// forever is the wait for room that no time brings, only the end of another call.
	forever = time.Duration(math.MaxInt64)
)

// line is the calls that wait for one provider, as a heap: the first goes next.
type line []*call

func (l line) Len() int           { return len(l) }
func (l line) Less(i, j int) bool { return l[i].before(l[j]) }

func (l line) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].index, l[j].index = i, j
}

func (l *line) Push(c any) {
	c.(*call).index = len(*l)
	*l = append(*l, c.(*call))
}

func (l *line) Pop() any {
	old := *l
	n := len(old) - 1
	c := old[n]
	old[n] = nil
	*l = old[:n]
	return c
}

// before reports whether c goes before d: by rank, then by age of the task, then as they came.
func (c *call) before(d *call) bool {
	if c.rank != d.rank {
		return c.rank < d.rank
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
	c.number, c.ready = g.joined, make(chan struct{})
	// All that wait gain a priority at the same time; so it is as well to let those that come later lose it,
	// and the order never changes.
	c.rank = c.priority + int(now.Sub(g.start)/patience)
	if c.since.IsZero() || c.since.After(now) {
		c.since = now
	}
	heap.Push(&c.provider.waiting, c)
	g.waiting++
	if g.waiting > g.queue {
		g.sendBack(g.last())
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
	heap.Remove(&c.provider.waiting, c.index)
	g.waiting--
}

// last is the call that would be served last.
func (g *Gateway) last() *call {
	var worst *call
	for _, p := range g.order {
		for _, c := range p.waiting {
			if worst == nil || worst.before(c) {
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
			if len(p.waiting) == 0 || g.full() || best != nil && best.before(p.waiting[0]) {
				continue
			}
			c := p.waiting[0]
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
