package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

const keyA, keyB, keyC = "sk-aaaaaaaaaaaaaaaaaaaa", "sk-bbbbbbbbbbbbbbbbbbbb", "sk-cccccccccccccccccccc"

func TestKeysTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := map[string]int{}
		g := newGateway(t, Options{Providers: []Provider{{Name: "p", Keys: []string{keyA, keyB, keyC}, New: faking(
			func(_ context.Context, key string, _ llm.Request) (llm.Response, error) {
				used[key]++
				<-time.After(time.Second)
				return llm.Response{}, nil
			})}}})
		for range 9 {
			if _, err := g.Stream(t.Context(), llm.Request{}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if used[keyA] != 3 || used[keyB] != 3 || used[keyC] != 3 {
			t.Error(used)
		}
	})
}

func TestTheKeyWithMostRoomIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order strings.Builder
		left := map[string]int64{keyA: 20, keyB: 90}
		g := newGateway(t, Options{Providers: []Provider{{Name: "p", Keys: []string{keyA, keyB}, New: faking(
			func(_ context.Context, key string, _ llm.Request) (llm.Response, error) {
				order.WriteByte(key[len(key)-1])
				left[key] -= 10
				<-time.After(time.Second)
				return llm.Response{Limits: &llm.Limits{At: time.Now(), Tokens: llm.Limit{Max: 100, Remaining: left[key], Reset: time.Now().Add(time.Hour)}}}, nil
			})}}})
		for range 7 {
			if _, err := g.Stream(t.Context(), llm.Request{}, nil); err != nil {
				t.Fatal(err)
			}
		}
		// Each is tried once; then b is used until it has less left than a, which was refilling meanwhile.
		if got := order.String(); got != "abbbbbb" {
			t.Error(got)
		}
	})
}

// limited refuses calls of some keys for a time.
func limited(rest map[string]time.Duration) answer {
	return func(_ context.Context, key string, _ llm.Request) (llm.Response, error) {
		if d, ok := rest[key]; ok {
			delete(rest, key)
			return llm.Response{}, &llm.Error{Class: td.RateLimited, Status: 429, RetryAfter: d, Err: errors.New("slow down")}
		}
		return llm.Response{Model: key}, nil
	}
}

func TestALimitedKeyRests(t *testing.T) {
	for _, c := range []struct {
		name  string
		keys  []string
		rest  map[string]time.Duration
		again []time.Duration // what the loop is told, call by call
		at    time.Duration   // when the call after that is answered
	}{
		{"one key", []string{keyA}, map[string]time.Duration{keyA: 9 * time.Second}, []time.Duration{9 * time.Second}, 9 * time.Second},
		{"no time said", []string{keyA}, map[string]time.Duration{keyA: 0}, []time.Duration{0}, time.Second},
		{"another is free", []string{keyA, keyB}, map[string]time.Duration{keyA: 9 * time.Second}, nil, 0},
		{"another is free, no time said", []string{keyA, keyB}, map[string]time.Duration{keyA: 0}, nil, 0},
		{
			"another is free sooner", []string{keyA, keyB}, map[string]time.Duration{keyA: 3 * time.Second, keyB: 9 * time.Second},
			[]time.Duration{3 * time.Second}, 3 * time.Second,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGateway(t, Options{Providers: []Provider{{Name: "p", Keys: c.keys, New: faking(limited(c.rest))}}})
				start := time.Now()
				for _, want := range c.again {
					_, err := g.Stream(t.Context(), llm.Request{}, nil)
					if e, ok := errors.AsType[*llm.Error](err); !ok || e.RetryAfter != want || e.Class != td.RateLimited || e.Status != 429 {
						t.Errorf("%+v, want %v", err, want)
					}
				}
				if _, err := g.Stream(t.Context(), llm.Request{}, nil); err != nil || time.Since(start) != c.at {
					t.Errorf("%v after %v, want %v", err, time.Since(start), c.at)
				}
			})
		})
	}
}

// A key that is not accepted is never used up: it must not draw all calls for that.
func TestARefusedKeyIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuses := map[string]bool{keyA: true}
		g := newGateway(t, Options{Providers: []Provider{{Name: "p", Keys: []string{keyA, keyB}, New: faking(
			func(_ context.Context, key string, _ llm.Request) (llm.Response, error) {
				if refuses[key] {
					return llm.Response{}, failing(td.AuthFailed)
				}
				return llm.Response{Model: key}, nil
			})}}})
		failures := func(calls int) (n int) {
			for range calls {
				if _, err := g.Stream(t.Context(), llm.Request{}, nil); err != nil {
					n++
				}
			}
			return n
		}
		if n := failures(10); n != 0 {
			t.Errorf("%d of 10 calls failed although a key is good", n)
		}
		if s := g.Stats().Providers[0].Keys[0]; s.Refused.IsZero() {
			t.Errorf("%+v", s)
		}
		refuses[keyB] = true
		if n := failures(10); n != 10 {
			t.Errorf("%d of 10 calls failed: with no good key the error must come at once", n)
		}
		<-time.After(refusedFor)
		clear(refuses)
		if n := failures(10); n != 0 {
			t.Errorf("%d of 10 calls failed", n)
		}
	})
}

// Nothing that can be shown holds a key.
func TestKeysAreNotShown(t *testing.T) {
	g := newGateway(t, Options{Providers: []Provider{
		{Name: "p", Keys: []string{keyA, "hunter2"}, New: faking(lasting(0))},
		{Name: "q", New: faking(lasting(0))},
	}})
	shown := fmt.Sprintf("%+v", g.Stats())
	if strings.Contains(shown, keyA) || strings.Contains(shown, "hunter2") || !strings.Contains(shown, "…aaaa ") || strings.Contains(shown, "aaaaa") {
		t.Error(shown)
	}
	if got := g.Stats().Providers[1].Keys; len(got) != 1 || got[0].Key != "" {
		t.Errorf("%+v", got)
	}
}
