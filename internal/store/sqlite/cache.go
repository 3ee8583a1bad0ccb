package sqlite

import (
	"sync"

	"taskdaemon/internal/td"
)

// cache keeps the tasks the writer touched, as they are on disk, so that an append need not read and
// decode them again. Only the writer changes it; entries are replaced, never changed.
type cache struct {
	mu      sync.RWMutex
	entries map[td.TaskID]*entry
}

const cacheSize = 4096

func newCache() *cache { return &cache{entries: map[td.TaskID]*entry{}} }

func (c *cache) get(id td.TaskID) *entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.entries[id]
}

func (c *cache) put(staged map[td.TaskID]*entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, e := range staged {
		if len(c.entries) >= cacheSize && c.entries[id] == nil {
			for other := range c.entries { // any one: the map's order is chance
				delete(c.entries, other)
				break
			}
		}
		c.entries[id] = e
	}
}
