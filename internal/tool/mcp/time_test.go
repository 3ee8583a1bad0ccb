package mcp

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"taskdaemon/internal/td"
)

// fake is a server without a process, for tests of time.
type fake struct {
	broken bool // it does not start
	starts int
	kill   func() // ends the one that is up
}

func (f *fake) open() (*wire, error) {
	f.starts++
	if f.broken {
		return nil, td.Errorf(td.Unavailable, "it is broken")
	}
	ours, theirs := net.Pipe()
	session, err := server().Connect(context.Background(), &sdk.IOTransport{Reader: theirs, Writer: theirs}, nil)
	if err != nil {
		return nil, err
	}
	f.kill = func() { _ = theirs.Close() }
	cut := func() { _ = ours.Close() }
	return &wire{
		transport: &sdk.IOTransport{Reader: ours, Writer: ours}, cut: cut, fault: &reason{},
		end:  func() { cut(); _ = theirs.Close(); _ = session.Wait() },
		exit: func() error { return errors.New("it was killed") },
	}, nil
}

// bubble runs f with a pool whose times are the real ones, in no time.
func bubble(t *testing.T, f func(t *testing.T, p *Pool, server *fake)) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Options{Servers: []Server{{Name: "helper", Command: "x"}}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
		if err != nil {
			t.Fatal(err)
		}
		server := &fake{}
		p.hosts[0].open = server.open
		defer p.Close()
		f(t, p, server)
	})
}

func TestPausesGrowAndEnd(t *testing.T) {
	bubble(t, func(t *testing.T, p *Pool, server *fake) {
		server.broken = true
		begin := time.Now()
		var at []time.Duration
		for len(at) < 8 {
			before := server.starts
			_, _ = p.Offers(t.Context(), nil)
			if server.starts > before {
				at = append(at, time.Since(begin).Round(time.Second/10))
			}
			time.Sleep(100 * time.Millisecond)
		}
		for i, want := range []int{0, 1, 3, 7, 15, 31, 63, 123} {
			if d := at[i] - time.Duration(want)*time.Second; d < 0 || d > time.Second {
				t.Errorf("start %d at %s, want about %ds", i+1, at[i], want)
			}
		}
		// A life of a minute makes up for it; a shorter one does not.
		server.broken = false
		time.Sleep(2 * time.Minute)
		if _, err := p.Offers(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		server.kill()
		synctest.Wait()
		if s := p.List()[0]; s.State != Failed || s.Fails != 1 || time.Until(s.NextTry) > time.Second {
			t.Errorf("after a long life: %+v", s)
		}
		if res := call(t, find(t, p, "echo"), `{"text":"waited"}`); res.Content != "waited" { // for a second
			t.Errorf("got %+v", res)
		}
		server.kill()
		synctest.Wait()
		if s := p.List()[0]; s.Fails != 2 || !strings.Contains(s.Reason, "it was killed") {
			t.Errorf("after a short life: %+v", s)
		}
	})
}

func TestRestAfterTenMinutes(t *testing.T) {
	bubble(t, func(t *testing.T, p *Pool, server *fake) {
		echo := find(t, p, "echo")
		for range 3 { // each use counts anew
			time.Sleep(9 * time.Minute)
			if res := call(t, echo, `{"text":"x"}`); res.IsError || server.starts != 1 {
				t.Fatalf("got %+v, %d starts", res, server.starts)
			}
		}
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		if s := p.List()[0]; s.State != Resting {
			t.Errorf("status %+v", s)
		}
		// A call that is under way keeps it up.
		hang := prepare(t, find(t, p, "late"), "")
		p.hosts[0].cfg.Timeout = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		if _, err := hang.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if s := p.List()[0]; s.State != Up || server.starts != 2 {
			t.Errorf("%d starts, status %+v", server.starts, s)
		}
	})
}

// A caller that goes away does not take the start from those who wait with it.
func TestStartIsForAll(t *testing.T) {
	bubble(t, func(t *testing.T, p *Pool, server *fake) {
		server.broken = true
		_, _ = p.Offers(t.Context(), nil) // from now on there is a pause of a second
		server.broken = false
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		for _, c := range []context.Context{ctx, t.Context()} {
			go func() {
				_, err := p.Offers(c, nil)
				done <- err
			}()
		}
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the one that left: %v", err)
		}
		if err := <-done; err != nil || server.starts != 2 {
			t.Errorf("the one that stayed: %v, %d starts", err, server.starts)
		}
	})
}
