package client

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// hasty is a client that asks for signs of life at once.
func hasty(socket string, sign time.Duration) *Client {
	c := New(Options{Socket: socket})
	c.patience = patience{answer: time.Millisecond, stream: time.Millisecond, sign: sign}
	return c
}

// A daemon that takes connections and never answers is told by its pid, with what to type, to questions and to changes.
func TestFrozenDaemonIsTold(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "sock")
	l, err := net.Listen("unix", socket) // the kernel takes connections, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := hasty(socket, 10*time.Millisecond)
	defer c.Close()
	_, err = c.Status(t.Context())
	if !td.IsKind(err, td.Timeout) || !strings.Contains(fmt.Sprint(err), "does not answer") || !strings.Contains(td.HintOf(err), "kill -9 ") {
		t.Errorf("a question: %v (%s), hint %q", err, td.KindOf(err), td.HintOf(err))
	}
	_, err = c.Command(t.Context(), "t-1", api.Command{Type: td.CmdPause})
	if !td.IsKind(err, td.Timeout) || !strings.Contains(fmt.Sprint(err), "may be done later") || td.HintOf(err) == "" {
		t.Errorf("a change: %v (%s), hint %q", err, td.KindOf(err), td.HintOf(err))
	}
	for _, err = range c.Events(t.Context(), api.EventQuery{Follow: true}) {
	}
	if !td.IsKind(err, td.Timeout) {
		t.Errorf("a stream: %v", err)
	}
}

// A daemon that is at work on a long answer, or has nothing to say on a stream, is waited for.
func TestSlowDaemonIsWaitedFor(t *testing.T) {
	var signs atomic.Int64
	c := hasty(daemon(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			signs.Add(1)
			w.WriteHeader(http.StatusNotFound)
			return
		}
		asked := func(more int64) {
			for from := signs.Load(); signs.Load() < from+more && r.Context().Err() == nil; {
				<-time.After(time.Millisecond)
			}
		}
		asked(3)
		if r.URL.Path == "/v1/events" {
			event(w, 1)
			asked(3)
			fmt.Fprint(w, "event: end\ndata: {}\n\n")
			return
		}
		fmt.Fprint(w, "{}")
	}), time.Minute)
	defer c.Close()
	if _, err := c.Status(t.Context()); err != nil {
		t.Error(err)
	}
	seen := 0
	for _, err := range c.Events(t.Context(), api.EventQuery{Follow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		seen++
	}
	if seen != 1 {
		t.Errorf("the stream gave %d events", seen)
	}
}

// A stream that falls silent because its daemon does nothing any more ends, and says why.
func TestStreamOfAFrozenDaemonEnds(t *testing.T) {
	var frozen atomic.Bool
	c := hasty(daemon(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/events" {
			event(w, 1)
			frozen.Store(true)
		}
		if frozen.Load() {
			<-r.Context().Done()
		}
	}), 10*time.Millisecond)
	defer c.Close()
	var last error
	for _, last = range c.Events(t.Context(), api.EventQuery{Follow: true}) {
	}
	if !td.IsKind(last, td.Timeout) {
		t.Errorf("the stream ended with %v", last)
	}
}
