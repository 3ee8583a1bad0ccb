package server

import (
	"encoding/json"
	"net/http"
	"sync"
)

// handlerGroup knows the handlers at work, which http.Server's Close does not wait for. Handlers are
// readers of the lock; whoever waits for them takes it for good, so that none can come after.
type handlerGroup struct{ lock sync.RWMutex }

// enter reports whether the handler may work; if so it calls leave at its end.
func (g *handlerGroup) enter() bool { return g.lock.TryRLock() }

func (g *handlerGroup) leave() { g.lock.RUnlock() }

// wait returns when all have left. It is called once.
func (g *handlerGroup) wait() { g.lock.Lock() }

// writeFailure answers with an error outside of huma.
func writeFailure(w http.ResponseWriter, err error) {
	f := fail(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	_ = json.NewEncoder(w).Encode(f) // the peer may be gone already
}
