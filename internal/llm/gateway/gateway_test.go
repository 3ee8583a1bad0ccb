package gateway

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/td"
)

// fake is a model that does as it is told.
type fake struct {
	key    string
	answer func(ctx context.Context, key string, req llm.Request) (llm.Response, error)
}

func (f *fake) Provider() string { return "fake" }

func (f *fake) Stream(ctx context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	return f.answer(ctx, f.key, req)
}

type answer = func(ctx context.Context, key string, req llm.Request) (llm.Response, error)

func faking(a answer) func(string) llm.Model {
	return func(key string) llm.Model { return &fake{key, a} }
}

func newGateway(t testing.TB, o Options) *Gateway {
	t.Helper()
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// lasting answers after a time, unless the caller gives up.
func lasting(d time.Duration) answer {
	return func(ctx context.Context, _ string, _ llm.Request) (llm.Response, error) {
		select {
		case <-time.After(d):
			return llm.Response{}, nil
		case <-ctx.Done():
			return llm.Response{}, context.Cause(ctx)
		}
	}
}

func failing(class td.FailureClass) error {
	return &llm.Error{Class: class, Err: errors.New("no")}
}

// A gateway is a model like those behind it.
func TestConformance(t *testing.T) {
	llmtest.Run(t, func(t *testing.T, script *rehearsal.Script) llm.Model {
		model := rehearsal.New(rehearsal.Options{Default: script})
		return newGateway(t, Options{
			Providers: []Provider{{Name: "rehearsal", New: func(string) llm.Model { return model }, Requests: 1000, Tokens: 1e6}},
			InFlight:  4,
		})
	})
}

func TestProvidersByName(t *testing.T) {
	answering := func(provider string) func(string) llm.Model {
		return faking(func(_ context.Context, key string, req llm.Request) (llm.Response, error) {
			return llm.Response{Model: fmt.Sprintf("%s answers with %s for %s", provider, key, req.Model)}, nil
		})
	}
	g := newGateway(t, Options{Default: "claude", Providers: []Provider{
		{Name: "openrouter", New: answering("openrouter"), Keys: []string{"k2"}},
		{Name: "claude", New: answering("claude"), Keys: []string{"k1"}},
	}})
	for model, want := range map[string]string{
		"opus":                   "claude answers with k1 for opus",
		"claude/opus":            "claude answers with k1 for opus",
		"openrouter/meta/llama":  "openrouter answers with k2 for meta/llama",
		"openrouter/claude/opus": "openrouter answers with k2 for claude/opus",
	} {
		if r, err := g.Stream(t.Context(), llm.Request{Model: model}, nil); err != nil || r.Model != want {
			t.Errorf("%s: %q, %v", model, r.Model, err)
		}
		if err := g.Check(model); err != nil {
			t.Error(err)
		}
	}
	for model, want := range map[string]string{
		"openruter/x": `there is no provider "openruter"; did you mean "openrouter"?`,
		"/x":          `there is no provider ""`,
		"claude/":     `"claude/" names a provider and no model`,
	} {
		_, err := g.Stream(t.Context(), llm.Request{Model: model}, nil)
		e, ok := errors.AsType[*llm.Error](err)
		if !ok || e.Class != td.BadRequest || !td.IsKind(err, td.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", model, err)
		}
		if err := g.Check(model); !td.IsKind(err, td.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", model, err)
		}
		if use, why := g.Choose(model); use != model || why != "" {
			t.Errorf("%s: %s, %s", model, use, why)
		}
	}
	if _, err := g.Stream(t.Context(), llm.Request{Model: "openruter/x"}, nil); td.HintOf(err) == "" {
		t.Error("no hint")
	}
	if s := g.Stats(); s.InFlight != 0 || s.Waiting != 0 || s.Providers[1].Keys[0].Calls != 2 {
		t.Errorf("%+v", s)
	}
}

func TestBadOptions(t *testing.T) {
	ok := Provider{Name: "a", New: faking(lasting(0))}
	with := func(change func(*Provider)) []Provider {
		p := ok
		change(&p)
		return []Provider{p}
	}
	for want, o := range map[string]Options{
		"there is no provider":                   {},
		`"" cannot be the name`:                  {Providers: with(func(p *Provider) { p.Name = "" })},
		`"a/b" cannot be the name`:               {Providers: with(func(p *Provider) { p.Name = "a/b" })},
		"the provider a is there twice":          {Providers: []Provider{ok, ok}},
		"bounds of the provider a":               {Providers: with(func(p *Provider) { p.Tokens = -1 })},
		"bounds of the gateway":                  {Providers: []Provider{ok}, InFlight: -1},
		`the key "…4321" twice`:                  {Providers: with(func(p *Provider) { p.Keys = []string{"sk-secret-87654321", "sk-secret-87654321"} })},
		`the key "…" twice`:                      {Providers: with(func(p *Provider) { p.Keys = []string{"short", "short"} })},
		`no provider "b"; did you mean "a"?`:     {Providers: []Provider{ok}, Default: "b"},
		`no provider "c"; did you mean "a"?`:     {Providers: []Provider{ok}, Fallback: map[string][]string{"c/m": {"n"}}},
		`no provider "d"; did you mean "a"?`:     {Providers: []Provider{ok}, Fallback: map[string][]string{"m": {"d/n"}}},
		"the model m cannot fall back on itself": {Providers: []Provider{ok}, Fallback: map[string][]string{"m": {"a/m"}}},
		"the model a/m has two fallback chains":  {Providers: []Provider{ok}, Fallback: map[string][]string{"m": {"n"}, "a/m": {"o"}}},
	} {
		if g, err := New(o); g != nil || !td.IsKind(err, td.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		g := newGateway(t, Options{InFlight: 1, Providers: []Provider{{Name: "p", New: faking(
			func(ctx context.Context, _ string, req llm.Request) (llm.Response, error) {
				order = append(order, req.System)
				return lasting(time.Second)(ctx, "", req)
			})}}})
		start := time.Now()
		var all sync.WaitGroup
		ask := func(name string, priority int, age time.Duration) {
			all.Go(func() {
				if _, err := g.Stream(t.Context(), llm.Request{System: name, Priority: priority, Since: start.Add(-age)}, nil); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		ask("first", 4, 0)
		ask("low", 3, time.Hour)
		ask("young", 2, time.Minute)
		ask("old", 2, time.Hour)
		ask("old too", 2, time.Hour)
		ask("high", 0, 0)
		all.Wait()
		if got := strings.Join(order, ", "); got != "first, high, old, old too, young, low" {
			t.Error(got)
		}
	})
}

// A stream of urgent calls that never ends does not keep an idle one out.
func TestWaitingCallsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, Options{InFlight: 1, Providers: []Provider{{Name: "p", New: faking(lasting(time.Second))}}})
		ctx, stop := context.WithCancel(t.Context())
		var urgent sync.WaitGroup
		for range 5 {
			urgent.Go(func() {
				for ctx.Err() == nil {
					_, _ = g.Stream(ctx, llm.Request{Priority: 0, Since: time.Now().Add(-time.Hour)}, nil)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		if _, err := g.Stream(t.Context(), llm.Request{Priority: 4}, nil); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited < 4*patience || waited > 5*patience+10*time.Second {
			t.Errorf("it waited %v", waited)
		}
		stop()
		urgent.Wait()
	})
}

func TestCancelledCallersLeaveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, Options{InFlight: 1, Providers: []Provider{{Name: "p", New: faking(lasting(time.Hour))}}})
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the task was cancelled")
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if _, err := g.Stream(ctx, llm.Request{}, nil); !errors.Is(err, cause) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if s := g.Stats(); s.InFlight != 1 || s.Waiting != 1 || s.Providers[0].Waiting != 1 {
			t.Errorf("%+v", s)
		}
		start := time.Now()
		cancel(cause)
		all.Wait()
		if s := g.Stats(); s.InFlight != 0 || s.Waiting != 0 || time.Since(start) != 0 {
			t.Errorf("%+v after %v", s, time.Since(start))
		}
		if _, err := g.Stream(ctx, llm.Request{}, nil); !errors.Is(err, cause) || g.Stats().Providers[0].Keys[0].Calls != 1 {
			t.Errorf("a call was made for nobody: %v", err)
		}
	})
}

func TestFullQueueSendsTheLastBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, Options{InFlight: 1, Queue: 2, Providers: []Provider{{Name: "p", New: faking(lasting(time.Second))}}})
		var all sync.WaitGroup
		var refused []int
		for _, priority := range []int{0, 3, 1, 2, 4} {
			all.Go(func() {
				_, err := g.Stream(t.Context(), llm.Request{Priority: priority}, nil)
				if e, ok := errors.AsType[*llm.Error](err); ok && e.Class == td.RateLimited && e.RetryAfter > 0 && e.Hint != "" {
					refused = append(refused, priority)
				} else if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		if fmt.Sprint(refused) != "[3 4]" {
			t.Errorf("refused: %v", refused)
		}
	})
}

// A model that panics keeps no place.
func TestPanicFreesThePlace(t *testing.T) {
	g := newGateway(t, Options{Providers: []Provider{{Name: "p", New: faking(
		func(context.Context, string, llm.Request) (llm.Response, error) { panic("oh") })}}})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is lost")
			}
		}()
		_, _ = g.Stream(t.Context(), llm.Request{}, nil)
	}()
	if s := g.Stats(); s.InFlight != 0 || s.Providers[0].Keys[0].InFlight != 0 {
		t.Errorf("%+v", s)
	}
}

// One provider's line does not hold up another's.
func TestProvidersWaitApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, Options{InFlight: 10, Providers: []Provider{
			{Name: "slow", New: faking(lasting(0)), Requests: 1},
			{Name: "fast", New: faking(lasting(0))},
		}})
		start := time.Now()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { _, _ = g.Stream(t.Context(), llm.Request{Model: "slow/m"}, nil) })
		}
		synctest.Wait()
		if _, err := g.Stream(t.Context(), llm.Request{Model: "fast/m", Priority: 4}, nil); err != nil || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		all.Wait()
		if time.Since(start) != 2*time.Minute {
			t.Errorf("three calls at one a minute took %v", time.Since(start))
		}
	})
}

// The timer is set for whoever has room first, in whatever order providers are looked at.
func TestTheFirstToHaveRoomIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		once := map[string]time.Duration{"a": 50 * time.Second, "b": 5 * time.Second, "c": 20 * time.Second}
		var providers []Provider
		for _, name := range []string{"a", "b", "c"} {
			providers = append(providers, Provider{Name: name, Keys: []string{name}, New: faking(limited(once))})
		}
		g := newGateway(t, Options{Providers: providers})
		start := time.Now()
		var all sync.WaitGroup
		for name, rest := range map[string]time.Duration{"a": 50 * time.Second, "b": 5 * time.Second, "c": 20 * time.Second} {
			_, _ = g.Stream(t.Context(), llm.Request{Model: name + "/m"}, nil)
			all.Go(func() {
				if _, err := g.Stream(t.Context(), llm.Request{Model: name + "/m"}, nil); err != nil || time.Since(start) != rest {
					t.Errorf("%s: %v after %v", name, err, time.Since(start))
				}
			})
		}
		all.Wait()
	})
}

// What no call can have taken is not believed: it would be added up, and paid for.
func TestUsageIsNotBelieved(t *testing.T) {
	for _, u := range []td.Usage{{Input: math.MaxInt64}, {Output: -1}, {CacheRead: 1 << 40}} {
		if u.True() {
			t.Errorf("%+v is believed", u)
		}
	}
	if !(td.Usage{Input: 1_000_000, Output: 128_000, CacheRead: 2_000_000, CacheWrite: 5}).True() {
		t.Error("a long call is not believed")
	}
	o := Options{Providers: []Provider{{Name: "p", New: func(string) llm.Model { return boaster{} }}}, Default: "p"}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := g.Stream(t.Context(), llm.Request{Model: "m"}, func(llm.Delta) {})
	if err != nil || r.Usage != (td.Usage{}) {
		t.Errorf("%+v, %v", r.Usage, err)
	}
}

type boaster struct{}

func (boaster) Provider() string { return "p" }
func (boaster) Stream(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
	return llm.Response{Usage: td.Usage{Input: math.MaxInt64, Output: 5}}, nil
}
