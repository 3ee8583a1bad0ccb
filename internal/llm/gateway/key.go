package gateway

import (
	"errors"
	"slices"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

const (
	// leastRest is for providers that say no time.
	leastRest = time.Second
	// refusedFor is how long a key that is not accepted is left alone while others are.
	refusedFor = 5 * time.Minute
	// soonest is what a call waits that can be made with another key right away.
	soonest = 10 * time.Millisecond
)

// key is one key of a provider: who answers it, its bounds, and what is known of its use.
type key struct {
	model    llm.Model
	name     string // its last characters
	most     int    // in flight; zero: no bound
	minute   minute // what was used in the last one
	inFlight int
	calls    int64     // so far
	used     time.Time // last

	rests   time.Time // until then the provider wants no calls
	limited int64     // how often it said so
	refused time.Time // until then the key is thought invalid

	// What the provider said of its limits, and when.
	requests, tokens, input, output bucket
	learned                         llm.Limits
}

// pick is the key with the most room of those that have room for a call now; without one it says when
// there will be.
func (p *provider) pick(now time.Time, tokens int64) (*key, time.Duration) {
	// One key that is not accepted would otherwise draw all calls, since it is never used up.
	some := slices.ContainsFunc(p.keys, func(k *key) bool { return !now.Before(k.refused) })
	var (
		best *key
		most float64
		soon = forever
	)
	for _, k := range p.keys {
		if some && now.Before(k.refused) {
			continue
		}
		if wait := k.wait(now, tokens); wait > 0 {
			soon = min(soon, wait)
			continue
		}
		room := 1.0
		if len(p.keys) > 1 {
			room = k.headroom(now)
		}
		if best == nil || room > most || room == most && k.idler(best) {
			best, most = k, room
		}
	}
	return best, soon
}

// idler breaks a tie: fewer calls in flight, then longer unused.
func (k *key) idler(than *key) bool {
	if k.inFlight != than.inFlight {
		return k.inFlight < than.inFlight
	}
	return k.used.Before(than.used)
}

// wait is how long until there is room for a call, as far as is known.
func (k *key) wait(now time.Time, tokens int64) time.Duration {
	if k.most > 0 && k.inFlight >= k.most {
		return forever
	}
	return max(
		k.rests.Sub(now),
		k.minute.wait(now, tokens),
		k.requests.wait(now, 1),
		k.tokens.wait(now, float64(tokens)),
		k.input.wait(now, float64(tokens)),
		k.output.wait(now, 1),
	)
}

// headroom is the part that is left of whatever is nearest to its end.
func (k *key) headroom(now time.Time) float64 {
	room := min(k.minute.room(now), k.requests.room(now), k.tokens.room(now), k.input.room(now), k.output.room(now))
	if k.most > 0 {
		room = min(room, 1-float64(k.inFlight)/float64(k.most))
	}
	return room
}

// take is a call's start.
func (k *key) take(u *use, now time.Time) {
	k.inFlight++
	k.calls++
	k.used = now
	if k.minute.bounded() || k.learned.Any() != nil {
		k.minute.add(u, now)
	}
	k.requests.take(now, 1)
	k.tokens.take(now, float64(u.tokens))
	k.input.take(now, float64(u.tokens))
}

// giveBack is for a call that was admitted and never made.
func (k *key) giveBack(u *use) {
	k.inFlight--
	k.calls--
	k.minute.remove(u)
	k.requests.give(1)
	k.tokens.give(float64(u.tokens))
	k.input.give(float64(u.tokens))
}

// learn takes over what the answer to u said of the limits, unless a later one said so before. Of limits it
// does not speak of, what was known stays.
func (k *key) learn(u *use, l *llm.Limits, now time.Time) {
	if l == nil || l.At.After(now) || l.At.Before(k.learned.At) {
		return
	}
	requests, tokens := k.minute.after(u, l.At)
	for _, of := range [...]struct {
		said  llm.Limit
		known *llm.Limit
		into  *bucket
		used  int64
	}{
		{l.Requests, &k.learned.Requests, &k.requests, requests},
		{l.Tokens, &k.learned.Tokens, &k.tokens, tokens},
		{l.Input, &k.learned.Input, &k.input, tokens},
		{l.Output, &k.learned.Output, &k.output, 0},
	} {
		// Of several that were told at once the least counts.
		if of.said.Known() && (l.At.After(k.learned.At) || !of.known.Known() || of.said.Remaining <= of.known.Remaining) {
			*of.known = of.said
			of.into.learn(of.said, l.At, now, float64(of.used))
		}
	}
	k.learned.At = l.At
}

// failed is a call that got no answer.
func (k *key) failed(e *llm.Error, now time.Time) {
	switch e.Class {
	case td.RateLimited:
		k.limited++
		if until := now.Add(max(e.RetryAfter, leastRest)); until.After(k.rests) {
			k.rests = until
		}
	case td.AuthFailed:
		k.refused = now.Add(refusedFor)
	}
}

// another reports whether a call that failed because of its key, which is left alone now, can be made with
// another right away.
func (g *Gateway) another(p *provider, err error) bool {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Class != td.RateLimited && e.Class != td.AuthFailed {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	return slices.ContainsFunc(p.keys, func(k *key) bool { return !now.Before(k.refused) && !now.Before(k.rests) })
}

// comeBack is an error as the loop should see it: when another key is ready before the one that was told
// to rest, there is no need to wait that long.
func (p *provider) comeBack(err error, now time.Time) error {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Class != td.RateLimited || len(p.keys) == 1 {
		return err
	}
	soon := forever
	for _, k := range p.keys {
		if !now.Before(k.refused) {
			soon = min(soon, max(k.rests.Sub(now), soonest))
		}
	}
	if soon >= max(e.RetryAfter, leastRest) {
		return err
	}
	sooner := *e
	sooner.RetryAfter = soon
	return &sooner
}
