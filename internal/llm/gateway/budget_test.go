package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

// begin makes calls one after another and says when each began, in seconds.
func begin(t *testing.T, o Options, calls ...llm.Request) string {
	t.Helper()
	start := time.Now()
	var began []string
	inner := o.Providers[0].New
	o.Providers[0].New = func(key string) llm.Model {
		m := inner(key)
		return faking(func(ctx context.Context, _ string, req llm.Request) (llm.Response, error) {
			began = append(began, fmt.Sprintf("%.3g%s", time.Since(start).Seconds(), key))
			return m.Stream(ctx, req, nil)
		})(key)
	}
	g := newGateway(t, o)
	for _, req := range calls {
		_, _ = g.Stream(t.Context(), req, nil)
	}
	return fmt.Sprint(began)
}

func TestMinute(t *testing.T) {
	of := func(tokens ...int) (calls []llm.Request) {
		for _, n := range tokens {
			calls = append(calls, llm.Request{Tokens: n})
		}
		return calls
	}
	// taking answers after ten seconds that it took this many tokens.
	taking := func(tokens int64) answer {
		return func(context.Context, string, llm.Request) (llm.Response, error) {
			<-time.After(10 * time.Second)
			return llm.Response{Usage: td.Usage{Input: tokens / 2, CacheWrite: tokens - tokens/2, CacheRead: 1e9, Output: 1e9}}, nil
		}
	}
	for _, c := range []struct {
		name  string
		p     Provider
		calls []llm.Request
		want  string
	}{
		{"requests", Provider{Requests: 2, New: faking(taking(0))}, of(0, 0, 0, 0, 0), "[0 10 60 70 120]"},
		{"tokens", Provider{Tokens: 100, New: faking(taking(0))}, of(60, 40, 10, 60), "[0 10 60 70]"},
		{"less than estimated", Provider{Tokens: 100, New: faking(taking(10))}, of(60, 60, 60, 60, 80, 80), "[0 10 20 30 70 80]"},
		{"more than estimated", Provider{Tokens: 100, New: faking(taking(70))}, of(10, 10, 10, 10), "[0 10 60 70]"},
		{"no estimate", Provider{Tokens: 100, New: faking(taking(60))}, of(0, 0, 0, 0), "[0 10 60 70]"},
		{"more than there is", Provider{Tokens: 100, New: faking(taking(0))}, of(5000, 1, 5000), "[0 60 120]"},
		{"both", Provider{Requests: 2, Tokens: 100, New: faking(taking(0))}, of(100, 1, 1, 1), "[0 60 70 120]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.p.Name = "p"
				if got := begin(t, Options{Providers: []Provider{c.p}}, c.calls...); got != c.want {
					t.Errorf("calls began at %v, want %v", got, c.want)
				}
			})
		})
	}
}

// saying answers at once with these limits.
func saying(l llm.Limits) answer {
	return func(context.Context, string, llm.Request) (llm.Response, error) {
		said := l
		said.At = time.Now()
		for _, of := range []*llm.Limit{&said.Requests, &said.Tokens, &said.Input, &said.Output} {
			if of.Known() {
				of.Reset = said.At.Add(30 * time.Second)
			}
		}
		return llm.Response{Limits: &said}, nil
	}
}

func TestLearnedLimits(t *testing.T) {
	call := llm.Request{Tokens: 50}
	for _, c := range []struct {
		name string
		says llm.Limits
		want string
	}{
		{"nothing left, refilled in 30 s", llm.Limits{Requests: llm.Limit{Max: 10}}, "[0 3.33 6.67 10]"},
		{"enough left", llm.Limits{Requests: llm.Limit{Max: 10, Remaining: 1}}, "[0 0 0 0]"},
		{"tokens", llm.Limits{Tokens: llm.Limit{Max: 100}}, "[0 15.2 30.3 45.5]"},
		{"input", llm.Limits{Input: llm.Limit{Max: 100, Remaining: 49}, Tokens: llm.Limit{Max: 1000, Remaining: 60}}, "[0 0.6 1.2 1.8]"},
		{"output", llm.Limits{Output: llm.Limit{Max: 30}}, "[0 1.03 2.07 3.1]"},
		{"needs more than there ever is", llm.Limits{Tokens: llm.Limit{Max: 10}}, "[0 30 60 90]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := Options{Providers: []Provider{{Name: "p", New: faking(saying(c.says))}}}
				if got := begin(t, o, call, call, call, call); got != c.want {
					t.Errorf("calls began at %v, want %v", got, c.want)
				}
			})
		})
	}
}

// What was learned is followed without further word: calls made since are counted, time refills.
func TestLearnedLimitsAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		o := Options{Providers: []Provider{{Name: "p", New: faking(func(context.Context, string, llm.Request) (llm.Response, error) {
			defer func() { first = false }()
			if !first {
				return llm.Response{}, nil
			}
			return llm.Response{Limits: &llm.Limits{
				Requests: llm.Limit{Max: 4, Remaining: 2, Reset: time.Now().Add(40 * time.Second)}, At: time.Now(),
			}}, nil
		})}}}
		// Two are left and are used; in 40 s the other two are there, then one comes every 15 s.
		if got := begin(t, o, make([]llm.Request, 7)...); got != "[0 0 0 40 40 55 70]" {
			t.Error(got)
		}
	})
}

// Nobody waits longer than a minute for what was only announced.
func TestLearnedLimitsAreAdvice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Providers: []Provider{{Name: "p", New: faking(func(context.Context, string, llm.Request) (llm.Response, error) {
			return llm.Response{Limits: &llm.Limits{Requests: llm.Limit{Max: 1, Reset: time.Now().Add(24 * time.Hour)}, At: time.Now()}}, nil
		})}}}
		if got := begin(t, o, make([]llm.Request, 3)...); got != "[0 60 120]" {
			t.Error(got)
		}
	})
}

// An answer that took long tells of the past.
func TestLateAnswersTellOfThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g *Gateway
		g = newGateway(t, Options{Providers: []Provider{{Name: "p", New: faking(
			func(_ context.Context, _ string, req llm.Request) (llm.Response, error) {
				l := llm.Limits{Requests: llm.Limit{Max: 60, Remaining: int64(req.Tokens), Reset: time.Now().Add(time.Minute)}, At: time.Now()}
				<-time.After(time.Duration(req.MaxTokens) * time.Second)
				return llm.Response{Limits: &l}, nil
			})}}})
		var all sync.WaitGroup
		ask := func(remaining, seconds int) {
			all.Go(func() { _, _ = g.Stream(t.Context(), llm.Request{Tokens: remaining, MaxTokens: seconds}, nil) })
			<-time.After(time.Second)
		}
		ask(30, 10)
		ask(40, 2)
		all.Wait()
		if got := g.Stats().Providers[0].Keys[0].Limits.Requests.Remaining; got != 40 {
			t.Errorf("an older answer counts: %d", got)
		}
	})
}

// A server that refills steadily and tells what is left is hardly ever overrun by a hundred callers.
func TestLearnedLimitsAvoidRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, perSecond = 30, 0.5
		level, at, refused := float64(most), time.Now(), 0
		var mu sync.Mutex
		server := func(context.Context, string, llm.Request) (llm.Response, error) {
			mu.Lock()
			now := time.Now()
			level, at = min(most, level+now.Sub(at).Seconds()*perSecond), now
			if level < 0.999 {
				refused++
				mu.Unlock()
				return llm.Response{}, &llm.Error{Class: td.RateLimited, RetryAfter: time.Second, Err: errors.New("slow down")}
			}
			level--
			said := llm.Limits{At: now, Requests: llm.Limit{
				Max: most, Remaining: int64(level), Reset: now.Add(time.Duration((most - level) / perSecond * float64(time.Second))),
			}}
			mu.Unlock()
			<-time.After(3 * time.Second)
			return llm.Response{Limits: &said}, nil
		}
		g := newGateway(t, Options{InFlight: 8, Providers: []Provider{{Name: "p", New: faking(server)}}})
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				_, err := g.Stream(t.Context(), llm.Request{}, nil)
				if e, is := errors.AsType[*llm.Error](err); err != nil && (!is || e.Class != td.RateLimited) {
					t.Error(err)
				}
			})
		}
		start := time.Now()
		all.Wait()
		// 70 calls beyond the first 30 need 140 seconds; a tenth more is allowed.
		if took := time.Since(start); refused > 2 || took > 154*time.Second {
			t.Errorf("%d calls were refused, all took %v", refused, took)
		}
	})
}
