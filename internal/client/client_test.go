package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/sse"
	"taskdaemon/internal/td"
)

// daemon answers on a socket with what the test wants.
func daemon(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "sock")
	start(t, socket, h)
	return socket
}

func start(t *testing.T, socket string, h http.HandlerFunc) (kill func()) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	kill = func() {
		_ = srv.Close()
		<-done
	}
	t.Cleanup(kill)
	return kill
}

func TestErrorsKeepKindAndHint(t *testing.T) {
	c := New(Options{Socket: daemon(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"kind":"conflict","message":"it is running","hint":"wait"}`)
	})})
	defer c.Close()
	_, err := c.Task(t.Context(), "t-1")
	if !td.IsKind(err, td.Conflict) || td.HintOf(err) != "wait" || err.Error() != "it is running" {
		t.Errorf("error is %v, kind %s, hint %q", err, td.KindOf(err), td.HintOf(err))
	}
}

func TestUnreachableDaemonSaysWhatToType(t *testing.T) {
	dir := t.TempDir()
	for _, socket := range []string{filepath.Join(dir, "absent"), stale(t, dir)} {
		_, err := New(Options{Socket: socket}).Status(t.Context())
		if !td.IsKind(err, td.Unavailable) || td.HintOf(err) != "taskdaemon daemon start" {
			t.Errorf("%s: %v, hint %q", socket, err, td.HintOf(err))
		}
	}
}

func stale(t *testing.T, dir string) string {
	path := filepath.Join(dir, "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	return path
}

func TestLostAnswers(t *testing.T) {
	cut := daemon(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	c := New(Options{Socket: cut})
	defer c.Close()
	if _, err := c.Status(t.Context()); !td.IsKind(err, td.Unavailable) {
		t.Errorf("a lost question: %v", err)
	}
	if _, err := c.Command(t.Context(), "t-1", api.Command{Type: td.CmdPause}); !td.IsKind(err, td.Unknown) {
		t.Errorf("a lost change: %v", err)
	}
	garbage := New(Options{Socket: daemon(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprint(w, "<html>")
	})})
	defer garbage.Close()
	if _, err := garbage.Status(t.Context()); !td.IsKind(err, td.Internal) {
		t.Errorf("garbage: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Status(ctx); !td.IsKind(err, td.Interrupted) {
		t.Errorf("cancelled: %v", err)
	}
	ctx, cancel = context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if _, err := c.Status(ctx); !td.IsKind(err, td.Timeout) {
		t.Errorf("out of time: %v", err)
	}
}

func TestChangesCarryAKey(t *testing.T) {
	var bodies []string
	c := New(Options{Socket: daemon(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(raw))
		fmt.Fprint(w, "{}")
	})})
	defer c.Close()
	_, _ = c.AddTask(t.Context(), api.AddTask{})
	_, _ = c.Command(t.Context(), "t-1", api.Command{})
	plan := api.Plan{Tasks: []api.PlanTask{{Title: "a"}, {Title: "b", Key: "mine"}}}
	_, _ = c.Plan(t.Context(), plan)
	if len(bodies) != 3 || !strings.Contains(bodies[0], `"key":"`) || !strings.Contains(bodies[1], `"key":"`) ||
		strings.Count(bodies[2], `"key":"`) != 2 || !strings.Contains(bodies[2], `"key":"mine"`) {
		t.Errorf("requests are %q", bodies)
	}
	if plan.Tasks[0].Key != "" {
		t.Error("the caller's plan was changed")
	}
}

func event(w io.Writer, cursor int) {
	fmt.Fprintf(w, "id: %d\nevent: event\ndata: {\"cursor\":%d,\"seq\":%d,\"type\":\"said\",\"body\":{}}\n\n", cursor, cursor, cursor)
	w.(http.Flusher).Flush()
}

// The daemon is killed in the middle of a stream and comes back: the reader sees every event once.
func TestEventsOutliveTheDaemon(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "sock")
	first := func(w http.ResponseWriter, r *http.Request) {
		event(w, 1)
		event(w, 2)
		fmt.Fprint(w, "id: 3\nevent: event\ndata: {\"cursor\":3") // torn
		panic(http.ErrAbortHandler)
	}
	var asked string
	second := func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RawQuery
		event(w, 3)
		fmt.Fprint(w, "event: end\ndata: {}\n\n")
	}
	kill := start(t, socket, first)
	redials := 0
	c := New(Options{Socket: socket, Redial: func(_ context.Context, cause error) error {
		redials++
		if !td.IsKind(cause, td.Unavailable) {
			t.Errorf("cause is %v", cause)
		}
		if redials == 2 {
			start(t, socket, second)
		} else {
			kill()
		}
		return nil
	}})
	defer c.Close()
	var got []uint64
	for it, err := range c.Events(t.Context(), api.EventQuery{Refs: []string{"t-1"}, Follow: true, Tail: true}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, it.Event.Cursor)
	}
	if fmt.Sprint(got) != "[1 2 3]" || redials != 2 {
		t.Errorf("saw %v after %d redials", got, redials)
	}
	if !strings.Contains(asked, "after=2") || strings.Contains(asked, "tail") || !strings.Contains(asked, "ref=t-1") {
		t.Errorf("asked again with %q", asked)
	}
}

func TestEventsWithoutRedialReportTheLoss(t *testing.T) {
	c := New(Options{Socket: daemon(t, func(w http.ResponseWriter, _ *http.Request) {
		event(w, 1)
		panic(http.ErrAbortHandler)
	})})
	defer c.Close()
	n := 0
	var last error
	for _, err := range c.Events(t.Context(), api.EventQuery{Follow: true}) {
		n++
		last = err
	}
	if n != 2 || !td.IsKind(last, td.Unavailable) {
		t.Errorf("%d items, the last with %v", n, last)
	}
}

func TestRedialMayGiveUp(t *testing.T) {
	giveUp := errors.New("enough")
	c := New(Options{Socket: filepath.Join(t.TempDir(), "absent"), Redial: func(context.Context, error) error { return giveUp }})
	var last error
	for _, err := range c.Events(t.Context(), api.EventQuery{}) {
		last = err
	}
	if !errors.Is(last, giveUp) {
		t.Errorf("ended with %v", last)
	}
}

// Breaking off after an item must end the request, not leave it hanging.
func TestReaderMayHaveEnough(t *testing.T) {
	gone := make(chan struct{})
	c := New(Options{Socket: daemon(t, func(w http.ResponseWriter, r *http.Request) {
		event(w, 1)
		<-r.Context().Done()
		close(gone)
	})})
	defer c.Close()
	for range c.Events(t.Context(), api.EventQuery{Follow: true}) {
		break
	}
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Error("the request goes on")
	}
}

func FuzzMessage(f *testing.F) {
	f.Add("event", []byte(`{"cursor":1,"seq":1,"type":"said","body":{"text":"x"}}`))
	f.Add("live", []byte(`{"kind":"text"}`))
	f.Add("error", []byte(`{"kind":"not_found","message":"no"}`))
	f.Add("end", []byte(`{}`))
	f.Add("", []byte("a"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if item, err := decode(sse.Event{Name: []byte(name), Data: data}); err != nil && (item.Event != nil || item.Live != nil) {
			t.Errorf("both an item and the error %v", err)
		}
	})
}

func FuzzErrorBody(f *testing.F) {
	f.Add([]byte(`{"kind":"conflict","message":"x","hint":"y"}`), 409)
	f.Add([]byte(`<html>`), 502)
	f.Add([]byte(`{"kind":7}`), 500)
	f.Fuzz(func(t *testing.T, raw []byte, status int) {
		err := readError(&http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(raw))})
		if _, ok := errors.AsType[*td.Error](err); !ok {
			t.Errorf("%T is no td.Error", err)
		}
	})
}
