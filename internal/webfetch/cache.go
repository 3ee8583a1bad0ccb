package webfetch

import (
	"context"
	"sync"
	"time"

	"taskdaemon/internal/td"
)

// cache keeps pages for a while and lets callers who want the same one wait for a single fetch. A page
// is kept under its final address and under the one that was asked for.
type cache struct {
	life time.Duration
	room int64
	now  func() time.Time

	mu      sync.Mutex
	used    int64
	kept    map[string]*keptPage
	oldest  []*keptPage // in order of age; all live equally long, so the oldest is the first to go
	flights map[string]*flight
}

type keptPage struct {
	page  Page
	keys  []string
	until time.Time
	size  int64
}

// flight is a fetch under way. page, err and orphaned are set before done is closed.
type flight struct {
	done     chan struct{}
	page     Page
	err      error
	orphaned bool // its caller gave up, which says nothing about the page
}

// do is the page kept under key, or what fetch brings. Of several callers with one key the first
// fetches, in its own goroutine and for its own context; when it gives up, one of the others takes over.
func (c *cache) do(ctx context.Context, key string, fetch func() (Page, error)) (Page, error) {
	for {
		page, fl, mine := c.join(key)
		switch {
		case fl == nil:
			return page, nil
		case mine:
			return c.lead(ctx, key, fl, fetch)
		}
		select {
		case <-ctx.Done():
			return Page{}, td.Errorf(td.Interrupted, "fetch %s: %w", quote(key), context.Cause(ctx))
		case <-fl.done:
			if !fl.orphaned {
				return fl.page, fl.err
			}
		}
	}
}

// join is the page kept under key; else the flight that will bring it, and whether it is the caller's.
func (c *cache) join(key string) (page Page, fl *flight, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget()
	if k := c.kept[key]; k != nil {
		page = k.page
		page.Cached = true
		return page, nil, false
	}
	if fl := c.flights[key]; fl != nil {
		return Page{}, fl, false
	}
	if c.flights == nil {
		c.flights, c.kept = map[string]*flight{}, map[string]*keptPage{}
	}
	fl = &flight{done: make(chan struct{}), orphaned: true}
	c.flights[key] = fl
	return Page{}, fl, true
}

func (c *cache) lead(ctx context.Context, key string, fl *flight, fetch func() (Page, error)) (Page, error) {
	defer func() { // deferred, so that nobody waits for ever even if fetch panics
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.flights, key)
		if !fl.orphaned && fl.err == nil {
			c.keep(fl.page, key)
		}
		close(fl.done)
	}()
	page, err := fetch()
	fl.page, fl.err, fl.orphaned = page, err, err != nil && ctx.Err() != nil
	return page, err
}

func (c *cache) keep(p Page, asked string) {
	k := &keptPage{page: p, keys: []string{asked}, until: c.now().Add(c.life)}
	if p.URL != asked && p.MovedTo == "" {
		k.keys = append(k.keys, p.URL)
	}
	k.size = int64(len(p.Text) + len(p.Title) + len(p.URL) + len(p.MovedTo) + 512)
	if k.size > c.room {
		return
	}
	for _, key := range k.keys {
		c.kept[key] = k
	}
	c.oldest = append(c.oldest, k)
	c.used += k.size
	c.forget()
}

// forget lets go of what is stale, and of the oldest while there is too much.
func (c *cache) forget() {
	now, n := c.now(), 0
	for _, k := range c.oldest {
		if c.used <= c.room && now.Before(k.until) {
			break
		}
		n++
		c.used -= k.size
		for _, key := range k.keys {
			if c.kept[key] == k { // a younger page may have taken its place
				delete(c.kept, key)
			}
		}
	}
	clear(c.oldest[:n])
	c.oldest = c.oldest[n:]
}
