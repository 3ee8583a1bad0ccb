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

// patient is a gateway whose models answer as the maps say.
type patient struct {
	*Gateway
	t    *testing.T
	errs map[string]error
	last map[string]time.Duration // how long a call lasts
}

func newPatient(t *testing.T, fallback map[string][]string) *patient {
	p := &patient{t: t, errs: map[string]error{}, last: map[string]time.Duration{}}
	p.Gateway = newGateway(t, Options{Fallback: fallback, Providers: []Provider{{Name: "p", New: faking(
		func(ctx context.Context, _ string, req llm.Request) (llm.Response, error) {
			err := p.errs[req.Model]
			if _, cancelled := lasting(p.last[req.Model])(ctx, "", req); cancelled != nil {
				return llm.Response{}, cancelled
			}
			if errors.Is(err, errCutShort) {
				return llm.Response{Cut: true}, nil
			}
			return llm.Response{}, err
		})}}})
	return p
}

var errCutShort = errors.New("cut")

func (p *patient) call(model string, n int) {
	for range n {
		_, _ = p.Stream(p.t.Context(), llm.Request{Model: model}, nil)
	}
}

func (p *patient) chooses(model, use, why string) {
	p.t.Helper()
	if u, w := p.Choose(model); u != use || w != why {
		p.t.Errorf("for %s: %s, %q; want %s, %q", model, u, w, use, why)
	}
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock starts at midnight
		p := newPatient(t, map[string][]string{"opus": {"sonnet", "p/haiku"}})
		off := func(d time.Duration) string {
			return "opus is off after 3 failures until " + time.Now().Add(d).Format("15:04")
		}
		p.errs["opus"], p.errs["sonnet"] = failing(td.Network), failing(td.Overloaded)
		p.call("opus", 2)
		p.chooses("opus", "opus", "")
		p.call("p/opus", 1)
		why := off(5*time.Minute) + "; using sonnet"
		p.chooses("opus", "sonnet", why)
		p.chooses("p/opus", "sonnet", "p/"+why)
		p.call("sonnet", 3)
		p.chooses("opus", "p/haiku", off(5*time.Minute)+"; using p/haiku")
		p.chooses("sonnet", "sonnet", "sonnet"+off(5 * time.Minute)[4:]+"; there is no other to use")
		if s := p.Stats().Models; len(s) != 2 || s[0].Model != "p/opus" || s[0].State != Off || s[0].Until.Sub(time.Now()) != 5*time.Minute {
			t.Errorf("%+v", s)
		}

		<-time.After(time.Minute)
		p.errs["haiku"] = failing(td.Network)
		p.call("haiku", 3)
		p.chooses("opus", "opus", off(4*time.Minute)+"; so are those it falls back on, trying it all the same")

		// One call tries it out; until that has ended the others stay away.
		<-time.After(4 * time.Minute)
		if s := p.Stats().Models; s[1].State != Trial {
			t.Errorf("%+v", s)
		}
		p.errs["sonnet"] = nil
		p.chooses("opus", "opus", "")
		p.chooses("opus", "sonnet", "opus is off after 3 failures and is being tried out; using sonnet")
		p.call("opus", 1)
		p.chooses("opus", "opus", "opus is off after 4 failures until "+time.Now().Add(5*time.Minute).Format("15:04")+
			"; so are those it falls back on, trying it all the same") // sonnet is kept for the one that was told to try it
		p.call("sonnet", 1)
		p.chooses("opus", "sonnet", "opus is off after 4 failures until "+time.Now().Add(5*time.Minute).Format("15:04")+"; using sonnet")

		<-time.After(5 * time.Minute)
		p.errs["opus"] = nil
		p.chooses("opus", "opus", "")
		p.call("opus", 1)
		p.chooses("opus", "opus", "")
		p.chooses("opus", "opus", "")
		if s := p.Stats().Models; len(s) != 1 || s[0].Model != "p/haiku" {
			t.Errorf("%+v", s)
		}
	})
}

func TestWhichFailuresCount(t *testing.T) {
	for _, c := range []struct {
		err  error
		down bool
	}{
		{failing(td.Network), true},
		{failing(td.Overloaded), true},
		{fmt.Errorf("call: %w", failing(td.Network)), true},
		{errCutShort, true},
		{failing(td.RateLimited), false},
		{failing(td.BadRequest), false},
		{failing(td.AuthFailed), false},
		{errors.New("nobody knows"), false},
		{context.Canceled, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPatient(t, map[string][]string{"m": {"n"}})
			p.errs["m"] = c.err
			p.call("m", 10)
			if use, _ := p.Choose("m"); (use == "n") != c.down {
				t.Errorf("after %v use %s", c.err, use)
			}
		})
	}
}

func TestBreakerInTime(t *testing.T) {
	bad := failing(td.Network)
	for _, c := range []struct {
		name string
		play func(p *patient)
		use  string
	}{
		{"far apart", func(p *patient) {
			for range 10 {
				p.call("m", 1)
				<-time.After(31 * time.Second)
			}
		}, "m"},
		{"just within", func(p *patient) {
			p.call("m", 2)
			<-time.After(59 * time.Second)
			p.call("m", 1)
		}, "n"},
		{"a success between", func(p *patient) {
			p.call("m", 2)
			p.errs["m"] = nil
			p.call("m", 1)
			p.errs["m"] = bad
			p.call("m", 2)
		}, "m"},
		{"a success that began before", func(p *patient) {
			p.errs["m"], p.last["m"] = nil, 10*time.Second
			var slow sync.WaitGroup
			slow.Go(func() { p.call("m", 1) })
			synctest.Wait()
			<-time.After(time.Second)
			p.errs["m"], p.last["m"] = bad, 0
			p.call("m", 3)
			slow.Wait()
		}, "n"},
		{"a failure from before does not turn it off anew", func(p *patient) {
			p.last["m"] = 6 * time.Minute
			var slow sync.WaitGroup
			slow.Go(func() { p.call("m", 1) })
			synctest.Wait()
			<-time.After(time.Second)
			p.last["m"] = 0
			p.call("m", 3)
			slow.Wait()
		}, "m"},
		{"others of the same provider", func(p *patient) {
			p.errs["o"] = bad
			p.call("o", 3)
		}, "m"},
		{"a trial nobody came for", func(p *patient) {
			p.call("m", 3)
			<-time.After(5 * time.Minute)
			p.chooses("m", "m", "")
			<-time.After(trialWait)
		}, "m"},
		{"a trial that met a rate limit", func(p *patient) {
			p.call("m", 3)
			<-time.After(5 * time.Minute)
			p.chooses("m", "m", "")
			p.errs["m"] = failing(td.RateLimited)
			p.call("m", 1)
		}, "m"},
		{"a trial that is under way", func(p *patient) {
			p.call("m", 3)
			<-time.After(5 * time.Minute)
			p.chooses("m", "m", "")
			p.last["m"] = time.Hour
			ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Hour)
			go func() { defer cancel(); _, _ = p.Stream(ctx, llm.Request{Model: "m"}, nil) }()
			<-time.After(30 * time.Minute)
			p.t.Cleanup(func() { <-ctx.Done() })
		}, "n"},
		{"a trial that was cancelled", func(p *patient) {
			p.call("m", 3)
			<-time.After(5 * time.Minute)
			p.chooses("m", "m", "")
			p.last["m"] = time.Hour
			ctx, cancel := context.WithTimeout(p.t.Context(), time.Second)
			defer cancel()
			_, _ = p.Stream(ctx, llm.Request{Model: "m"}, nil)
		}, "m"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPatient(t, map[string][]string{"m": {"n"}})
				p.errs["m"] = bad
				c.play(p)
				if use, why := p.Choose("m"); use != c.use {
					t.Errorf("use %s: %s", use, why)
				}
			})
		})
	}
}

// A trial that never came to its call leaves the model to the next.
func TestTrialThatGaveUpInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := true
		g := newGateway(t, Options{InFlight: 1, Queue: 1, Fallback: map[string][]string{"m": {"n"}}, Providers: []Provider{{Name: "p", New: faking(
			func(ctx context.Context, _ string, req llm.Request) (llm.Response, error) {
				if req.Model == "m" && bad {
					return llm.Response{}, failing(td.Network)
				}
				return lasting(time.Hour)(ctx, "", req)
			})}}})
		for range 3 {
			_, _ = g.Stream(t.Context(), llm.Request{Model: "m"}, nil)
		}
		bad = false
		<-time.After(5 * time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		ask := func(ctx context.Context, model string, priority int) {
			all.Go(func() { _, _ = g.Stream(ctx, llm.Request{Model: model, Priority: priority}, nil) })
			synctest.Wait()
		}
		chooses := func(want string) {
			t.Helper()
			if use, why := g.Choose("m"); use != want {
				t.Errorf("%s: %s", use, why)
			}
		}
		ask(ctx, "n", 0) // has the place
		trial, giveUp := context.WithCancel(ctx)
		chooses("m")
		ask(trial, "m", 1)
		chooses("n")
		giveUp()
		synctest.Wait()
		chooses("m")
		ask(ctx, "m", 1)
		chooses("n")
		ask(ctx, "n", 0) // sends the trial back: the queue is full
		chooses("m")
		cancel()
		all.Wait()
	})
}
