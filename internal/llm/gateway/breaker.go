package gateway

import (
	"errors"
	"fmt"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

// Breaker says when a model counts as down: after so many failures in a time, for a time. After that one
// call tries it out, and the others go on as if it were down until that call has ended.
type Breaker struct {
	Failures int
	Within   time.Duration
	Off      time.Duration
}

// What a Breaker left at zero means.
const (
	DefaultFailures = 3
	DefaultWithin   = time.Minute
	DefaultOff      = 5 * time.Minute
)

// trialWait is how long a model is kept for the one that was told to try it out.
const trialWait = time.Minute

func (b Breaker) orDefault() Breaker {
	if b.Failures <= 0 {
		b.Failures = DefaultFailures
	}
	if b.Within <= 0 {
		b.Within = DefaultWithin
	}
	if b.Off <= 0 {
		b.Off = DefaultOff
	}
	return b
}

// circuit is a model that failed. Models of which there is none are healthy.
type circuit struct {
	failures []time.Time // of late; when it is off, those that turned it off
	off      time.Time   // since then; zero: it is on
	until    time.Time
	trial    time.Time // until then somebody may come who was told to try it
	trying   int       // calls that do
}

// last is when it failed last.
func (c *circuit) last() time.Time { return c.failures[len(c.failures)-1] }

// Choose says which model to call when this one is wanted: itself, or while it is down the first
// healthy one of its fallback chain, or itself when there is none. Why says so in words, for people; it is
// empty when there is nothing to say. Ask before the call is written down, since its name is in the
// record. Choose acts on nothing but the gateway's memory: where a model is to be tried out again, that is
// left to the caller that was told to for a minute.
func (g *Gateway) Choose(model string) (use, why string) {
	full, err := g.fullName(model)
	if err != nil {
		return model, "" // the call will say
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	why = g.down(full, now)
	if why == "" {
		return model, ""
	}
	why = model + " " + why
	for _, other := range g.fallback[full] {
		name, _ := g.fullName(other) // New has checked it
		if g.down(name, now) == "" {
			return other, fmt.Sprintf("%s; using %s", why, other)
		}
	}
	if len(g.fallback[full]) == 0 {
		return model, why + "; there is no other to use"
	}
	return model, why + "; so are those it falls back on, trying it all the same"
}

// Chain is the models to use in place of one, in this order.
func (g *Gateway) Chain(model string) []string {
	full, _ := g.fullName(model) // of one with no provider the call will say
	return g.fallback[full]
}

// down says why a model should not be called, or nothing. Where it may be tried out it is kept for the
// caller.
func (g *Gateway) down(full string, now time.Time) string {
	c := g.breakers[full]
	switch {
	case c == nil || c.off.IsZero():
		return ""
	case now.Before(c.until):
		return fmt.Sprintf("is off after %s until %s", failures(len(c.failures)), c.until.Format("15:04"))
	case c.trying > 0 || now.Before(c.trial):
		return fmt.Sprintf("is off after %s and is being tried out", failures(len(c.failures)))
	}
	c.trial = now.Add(trialWait)
	return ""
}

func failures(n int) string {
	if n == 1 {
		return "1 failure"
	}
	return fmt.Sprintf("%d failures", n)
}

// tryOut marks a call of a model whose time off is over.
func (g *Gateway) tryOut(c *call, now time.Time) {
	if b := g.breakers[c.model]; b != nil && !b.off.IsZero() && !now.Before(b.until) {
		b.trying++
		c.trial = b
	}
}

// untry ends a trial that came to nothing: the next may try.
func (g *Gateway) untry(c *call) {
	if c.trial != nil {
		c.trial.trying--
		c.trial.trial = time.Time{}
		c.trial = nil
	}
}

// judge learns from a call whether its model is healthy.
func (g *Gateway) judge(c *call, resp llm.Response, err error, now time.Time) {
	b := g.breakers[c.model]
	g.untry(c)
	switch bad, known := verdict(resp, err); {
	case !known:
	case bad:
		if b == nil {
			b = &circuit{}
			g.breakers[c.model] = b
		}
		g.count(b, c, now)
	case b != nil && !c.began.Before(b.last()):
		// What began before the last failure may have been lucky; this call was not.
		delete(g.breakers, c.model)
	}
}

// verdict says whether a call speaks against its model. A rate limit, a bad request or a bad key does not,
// and does not speak for it either.
func verdict(resp llm.Response, err error) (bad, known bool) {
	if err == nil {
		return resp.Cut, true
	}
	e, ok := errors.AsType[*llm.Error](err)
	bad = ok && (e.Class == td.Network || e.Class == td.Overloaded)
	return bad, bad
}

// count takes note of a failure.
func (g *Gateway) count(b *circuit, c *call, now time.Time) {
	switch {
	case b.off.IsZero():
		for len(b.failures) > 0 && now.Sub(b.failures[0]) >= g.breaker.Within {
			b.failures = b.failures[1:]
		}
		b.failures = append(b.failures, now)
		if len(b.failures) >= g.breaker.Failures {
			b.off, b.until = now, now.Add(g.breaker.Off)
		}
	case !now.Before(b.until) && !c.began.Before(b.off): // not one from before, that was slow to fail
		b.failures = append(b.failures, now)
		b.off, b.until = now, now.Add(g.breaker.Off)
	}
}
