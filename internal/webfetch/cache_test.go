package webfetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestCache(t *testing.T) {
	var hits atomic.Int32
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		switch r.URL.Path {
		case "/old", "/older":
			http.Redirect(w, r, "/new", http.StatusMovedPermanently)
		case "/fails":
			w.WriteHeader(http.StatusInternalServerError)
		case "/away":
			http.Redirect(w, r, "https://other.example/", http.StatusFound)
		default:
			io.WriteString(w, "page")
		}
	})
	now := time.Now()
	f := local(t, func(o *Options) { o.Now = func() time.Time { return now } })
	ask := func(path string, wantHits int32, cached bool) {
		t.Helper()
		before := hits.Load()
		p, err := f.Fetch(t.Context(), base+path)
		if got := hits.Load() - before; got != wantHits || err == nil && p.Cached != cached {
			t.Errorf("%s: %d requests, cached %v (%v)", path, got, p.Cached, err)
		}
	}
	ask("/old", 2, false)
	ask("/old", 0, true)
	ask("/new", 0, true) // kept under its final address, too
	ask("/new#part", 0, true)
	ask("/new?q", 1, false)
	ask("/fails", 1, false)
	ask("/fails", 1, false) // a failure is not kept
	ask("/away", 1, false)
	ask("/away", 0, true)
	now = now.Add(15*time.Minute - time.Second)
	ask("/new", 0, true)
	ask("/older", 2, false) // leads to the same page, and makes it younger
	now = now.Add(2 * time.Second)
	ask("/old", 2, false)
	ask("/new", 0, true)
	now = now.Add(15*time.Minute - 2*time.Second)
	ask("/new", 0, true)
	now = now.Add(2 * time.Second)
	ask("/new", 1, false)
	ask("/old", 2, false)
	if len(f.cache.oldest) != 2 || len(f.cache.flights) != 0 {
		t.Errorf("%d pages kept, %d flights", len(f.cache.oldest), len(f.cache.flights))
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := cache{life: time.Hour, room: 10_000, now: time.Now}
	put := func(key string, size int) {
		t.Helper()
		if _, err := c.do(t.Context(), key, func() (Page, error) { return Page{URL: key, Text: strings.Repeat("x", size)}, nil }); err != nil {
			t.Fatal(err)
		}
		var sum int64
		for _, k := range c.oldest {
			sum += k.size
		}
		if c.used > c.room || c.used != sum || len(c.kept) != len(c.oldest) {
			t.Fatalf("%d bytes used, %d summed, %d keys, %d pages", c.used, sum, len(c.kept), len(c.oldest))
		}
	}
	for i := range 200 {
		put(fmt.Sprint("k", i), i*37%4000)
	}
	if c.kept["k199"] == nil || c.kept["k0"] != nil {
		t.Error("it is not the oldest that went")
	}
	put("huge", 20_000)
	if c.kept["huge"] != nil || len(c.oldest) == 0 {
		t.Error("a page larger than the cache pushed the others out")
	}
}

func TestSharedFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache{life: time.Hour, room: 1 << 20, now: time.Now}
		fetches := 0
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				p, err := c.do(t.Context(), "k", func() (Page, error) {
					fetches++
					<-time.After(time.Second) // all others are waiting now
					return Page{URL: "k", Text: "x"}, nil
				})
				if err != nil || p.Text != "x" {
					t.Errorf("got %+v, %v", p, err)
				}
			})
		}
		wg.Wait()
		if fetches != 1 {
			t.Errorf("%d fetches", fetches)
		}
	})
}

// The one who fetches gives up; those who wait do not pay for it.
func TestLeaderGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache{life: time.Hour, room: 1 << 20, now: time.Now}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		fetch := func(ctx context.Context, want error) {
			wg.Go(func() {
				_, err := c.do(ctx, "k", func() (Page, error) {
					select {
					case <-ctx.Done():
						return Page{}, ctx.Err()
					case <-time.After(time.Minute):
						return Page{URL: "k"}, nil
					}
				})
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			})
			synctest.Wait()
		}
		fetch(ctx, context.Canceled) // leads
		fetch(t.Context(), nil)
		fetch(t.Context(), nil)
		fetch(ctx, context.Canceled) // only waits
		cancel()
		wg.Wait()
		if p, _ := c.do(t.Context(), "k", nil); !p.Cached {
			t.Error("the second fetch was not kept")
		}
	})
}

// A failure reaches all who wait for it, and a panic leaves nobody waiting.
func TestLeaderFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache{life: time.Hour, room: 1 << 20, now: time.Now}
		boom := errors.New("boom")
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := c.do(t.Context(), "k", func() (Page, error) {
					<-time.After(time.Second)
					return Page{}, boom
				})
				if !errors.Is(err, boom) {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		wg.Go(func() {
			defer func() { recover() }()
			c.do(t.Context(), "k", func() (Page, error) {
				<-time.After(time.Second)
				panic("the first one")
			})
		})
		synctest.Wait()
		if p, err := c.do(t.Context(), "k", func() (Page, error) { return Page{Text: "second"}, nil }); err != nil || p.Text != "second" {
			t.Errorf("got %+v, %v", p, err)
		}
		wg.Wait()
	})
}
