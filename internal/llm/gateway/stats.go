package gateway

import (
	"maps"
	"slices"
	"time"

	"taskdaemon/internal/llm"
)

// Stats is how a gateway is doing at one moment.
type Stats struct {
	InFlight  int
	Waiting   int
	Providers []ProviderStats // as in the options
	Models    []ModelStats    // those that failed of late, by name
}

// ProviderStats is one provider.
type ProviderStats struct {
	Name    string
	Waiting int
	Keys    []KeyStats // as in the options
}

// KeyStats is one key.
type KeyStats struct {
	Key      string // its last four characters; empty: there is no key
	InFlight int
	Calls    int64 // so far
	Limited  int64 // calls that met a rate limit
	// Requests and Tokens are what was used in the last minute, as far as it is counted: only of keys that
	// have a bound.
	Requests int
	Tokens   int64
	Rests    time.Time  // until then the provider wants no calls; zero: it does
	Refused  time.Time  // until then the key is thought invalid; zero: it is not
	Limits   llm.Limits // as the provider said last
}

// State is what a gateway thinks of a model.
type State string

// The states.
const (
	On    State = "on"
	Off   State = "off"
	Trial State = "trial" // its time off is over: one call tries it out
)

// ModelStats is a model that failed of late.
type ModelStats struct {
	Model    string // with its provider
	State    State
	Failures int
	Until    time.Time // when off
}

// Stats is a snapshot.
func (g *Gateway) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	s := Stats{InFlight: g.inFlight, Waiting: g.waiting}
	for _, p := range g.order {
		ps := ProviderStats{Name: p.name, Waiting: len(p.waiting)}
		for _, k := range p.keys {
			ps.Keys = append(ps.Keys, k.stats(now))
		}
		s.Providers = append(s.Providers, ps)
	}
	for _, model := range slices.Sorted(maps.Keys(g.breakers)) {
		c := g.breakers[model]
		m := ModelStats{Model: model, State: On, Failures: len(c.failures)}
		if !c.off.IsZero() {
			m.State, m.Until = Off, c.until
			if !now.Before(c.until) {
				m.State = Trial
			}
		}
		s.Models = append(s.Models, m)
	}
	return s
}

func (k *key) stats(now time.Time) KeyStats {
	k.minute.forget(now)
	s := KeyStats{
		Key: k.name, InFlight: k.inFlight, Calls: k.calls, Limited: k.limited,
		Requests: len(k.minute.uses), Tokens: k.minute.sum, Limits: k.learned,
	}
	if now.Before(k.rests) {
		s.Rests = k.rests
	}
	if now.Before(k.refused) {
		s.Refused = k.refused
	}
	return s
}
