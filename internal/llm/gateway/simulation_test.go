package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

// simulated is one call as the callers and the providers of the simulation saw it.
type simulated struct {
	provider  string
	priority  int
	since     time.Time
	asked     time.Time
	tokens    int64 // as estimated
	cancelled time.Time
	err       error

	key   string
	began time.Time // zero: it never reached the provider
	ended time.Time
	took  int64         // tokens, as the answer says
	rest  time.Duration // as a 429 says
}

// The bounds of the simulation.
const (
	simCallers  = 200
	simCalls    = 5 // of each
	simInFlight = 10
	simKeyMost  = 4
	simRequests = 40
	simTokens   = 20_000
)

// 200 callers with random priorities and sizes, of which some give up, share two providers with three keys
// that send some of them away. What happened is judged afterwards by rules that know nothing of how the
// gateway works.
func TestSimulation(t *testing.T) {
	seeds := []uint64{1, 2, 3, rand.Uint64()}
	if s, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		seeds = []uint64{s}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("SEED=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, seed) })
		})
	}
}

type simKey struct{}

func simulate(t *testing.T, seed uint64) {
	answer := func(ctx context.Context, key string, _ llm.Request) (llm.Response, error) {
		s := ctx.Value(simKey{}).(*simulated)
		dice := rand.New(rand.NewPCG(seed, uint64(s.since.UnixNano())))
		s.key, s.began = key, time.Now()
		defer func() { s.ended = time.Now() }()
		select {
		case <-time.After(time.Duration(dice.Int64N(int64(8 * time.Second)))):
		case <-ctx.Done():
			return llm.Response{}, context.Cause(ctx)
		}
		if dice.IntN(12) == 0 {
			s.rest = time.Duration(1+dice.IntN(20)) * time.Second
			return llm.Response{}, &llm.Error{Class: td.RateLimited, RetryAfter: s.rest, Err: errors.New("slow down")}
		}
		s.took = 1 + dice.Int64N(s.tokens)
		return llm.Response{Usage: td.Usage{Input: s.took}}, nil
	}
	bounded := func(name string, keys ...string) Provider {
		return Provider{Name: name, New: faking(answer), Keys: keys, InFlight: simKeyMost, Requests: simRequests, Tokens: simTokens}
	}
	g := newGateway(t, Options{InFlight: simInFlight, Providers: []Provider{bounded("one", "a", "b"), bounded("two", "c")}})

	start := time.Now()
	var (
		callers sync.WaitGroup
		all     [simCallers * simCalls]simulated
	)
	for caller := range simCallers {
		callers.Go(func() {
			dice := rand.New(rand.NewPCG(seed, uint64(caller)))
			since := start.Add(-time.Duration(caller*1000+dice.IntN(1000)) * time.Millisecond)
			for i := range simCalls {
				<-time.After(time.Duration(dice.Int64N(int64(20 * time.Second))))
				s := &all[caller*simCalls+i]
				*s = simulated{
					provider: []string{"one", "one", "two"}[dice.IntN(3)], priority: dice.IntN(5),
					since: since.Add(time.Duration(i)), asked: time.Now(), tokens: 1 + dice.Int64N(2000),
				}
				ctx, cancel := context.WithCancel(context.WithValue(t.Context(), simKey{}, s))
				if dice.IntN(5) == 0 {
					after := time.Duration(dice.Int64N(int64(time.Minute)))
					s.cancelled = s.asked.Add(after)
					time.AfterFunc(after, cancel)
				}
				// Stream would try again with another key; the rules are about single attempts.
				_, s.err = g.once(ctx, g.byName[s.provider], llm.Request{
					Model: "m", Priority: s.priority, Since: s.since, Tokens: int(s.tokens),
				}, nil)
				if !s.cancelled.IsZero() && s.cancelled.After(time.Now()) {
					s.cancelled = time.Time{} // it came to its end before
				}
				cancel()
			}
		})
	}
	callers.Wait()
	if s := g.Stats(); s.InFlight != 0 || s.Waiting != 0 {
		t.Errorf("in the end: %+v", s)
	}
	report(t, all[:], time.Since(start))
	for i := range all {
		everybodyIsServed(t, &all[i])
		if s := &all[i]; !s.began.IsZero() {
			boundsHold(t, s, all[:])
			keysRest(t, s, all[:])
			orderHolds(t, start, s, all[:])
		}
	}
}

// report says that the simulation was hard enough to mean something.
func report(t *testing.T, all []simulated, took time.Duration) {
	var served, limited, cancelledInLine, waited int
	for _, s := range all {
		switch {
		case s.err == nil:
			served++
		case s.rest > 0:
			limited++
		case s.began.IsZero():
			cancelledInLine++
		}
		if s.began.After(s.asked) {
			waited++
		}
	}
	t.Logf("%d served, %d limited, %d gave up in line, %d waited, in %v", served, limited, cancelledInLine, waited, took)
	if served < 600 || limited < 30 || cancelledInLine < 20 || waited < 300 {
		t.Error("the simulation is too easy")
	}
}

func everybodyIsServed(t *testing.T, s *simulated) {
	switch e, _ := errors.AsType[*llm.Error](s.err); {
	case s.err == nil && s.took > 0:
	case e != nil && s.rest > 0 && e.RetryAfter > 0 && e.RetryAfter <= s.rest:
	case errors.Is(s.err, context.Canceled) && !s.cancelled.IsZero():
		if end := s.ended; !end.IsZero() && !end.Equal(s.cancelled) {
			t.Errorf("cancelled at %v, ended at %v", s.cancelled, end)
		}
	default:
		t.Errorf("%+v", *s)
	}
}

// boundsHold looks at the moment a call began.
func boundsHold(t *testing.T, s *simulated, all []simulated) {
	var inFlight, ofKey, requests int
	var tokens int64
	for i := range all {
		o := &all[i]
		if o.began.IsZero() || o.began.After(s.began) {
			continue
		}
		if o == s || o.ended.After(s.began) {
			inFlight++
			if o.key == s.key {
				ofKey++
			}
		}
		if o.key == s.key && s.began.Sub(o.began) < time.Minute {
			requests++
			if o.took > 0 && o.ended.Before(s.began) {
				tokens += o.took
			} else if o.took == 0 || o.ended.After(s.began) {
				tokens += o.tokens
			}
		}
	}
	if inFlight > simInFlight || ofKey > simKeyMost || requests > simRequests || tokens > simTokens {
		t.Errorf("at %v: %d in flight, %d of key %s; in a minute %d requests, %d tokens", s.began, inFlight, ofKey, s.key, requests, tokens)
	}
}

func keysRest(t *testing.T, s *simulated, all []simulated) {
	for i := range all {
		if o := &all[i]; o.rest > 0 && o.key == s.key && s.began.After(o.ended) && s.began.Before(o.ended.Add(o.rest)) {
			t.Errorf("key %s was told at %v to rest for %v and used at %v", s.key, o.ended, o.rest, s.began)
		}
	}
}

// orderHolds looks for calls that waited when s began and should have gone before it.
func orderHolds(t *testing.T, start time.Time, s *simulated, all []simulated) {
	level := func(c *simulated) int { // one more for each half minute that passed since
		return c.priority - (int(s.began.Sub(start)/patience) - int(c.asked.Sub(start)/patience))
	}
	for i := range all {
		o := &all[i]
		waits := o.asked.Before(s.began) && (o.began.After(s.began) || o.began.IsZero() && o.cancelled.After(s.began))
		if o == s || o.provider != s.provider || !waits {
			continue
		}
		if level(o) < level(s) || level(o) == level(s) && o.since.Before(s.since) {
			t.Errorf("at %v one of priority %d since %v, asked at %v, went before one of priority %d since %v, asked at %v",
				s.began, s.priority, s.since, s.asked, o.priority, o.since, o.asked)
		}
	}
}
