package server

import (
	"encoding/json"
	"net/http"
	"sync"
)

// handlerGroup waits for handlers: http.Server's Close does not.
type handlerGroup struct{ sync.WaitGroup }

func (g *handlerGroup) enter() (leave func()) {
	g.Add(1)
	return g.Done
}

// writeFailure answers with an error outside of huma.
func writeFailure(w http.ResponseWriter, err error) {
	f := fail(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	_ = json.NewEncoder(w).Encode(f) // the peer may be gone already
}
