package mcp

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"taskdaemon/internal/td"
)

// site serves a server at an address. wrap may stand before it.
func site(t *testing.T, wrap func(http.Handler) http.Handler) Server {
	t.Helper()
	srv := server()
	var handler http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return srv }, nil)
	if wrap != nil {
		handler = wrap(handler)
	}
	ts := httptest.NewServer(handler)
	t.Cleanup(func() {
		for session := range srv.Sessions() {
			_ = session.Close()
		}
		ts.CloseClientConnections()
		ts.Close()
	})
	return Server{Name: "helper", URL: ts.URL + "/mcp?key=abc", Timeout: 10 * time.Second}
}

func TestWebCall(t *testing.T) {
	var authorized atomic.Int64
	s := site(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer let-me-in" {
				authorized.Add(1)
				next.ServeHTTP(w, r)
				return
			}
			w.WriteHeader(http.StatusUnauthorized)
		})
	})
	if _, err := pool(t, s).Test(t.Context(), "helper"); !td.IsKind(err, td.Unavailable) || !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("without a key: %v", err)
	}
	s.Headers = map[string]string{"Authorization": "Bearer let-me-in"}
	p := pool(t, s)
	if res := call(t, find(t, p, "echo"), `{"text":"hello"}`); res.Content != "hello" || authorized.Load() == 0 {
		t.Errorf("got %+v", res)
	}
	if st := p.List()[0]; st.State != Up || strings.Contains(st.Where, "abc") {
		t.Errorf("status %+v", st)
	}
}

// A server that was restarted does not know its sessions: the call was refused, and is made in a new one.
func TestWebSessionIsLost(t *testing.T) {
	var lost atomic.Bool
	s := site(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Session-Id") != "" && lost.CompareAndSwap(true, false) {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	p := pool(t, s)
	echo := find(t, p, "echo")
	lost.Store(true)
	if res := call(t, echo, `{"text":"hello"}`); res.Content != "hello" {
		t.Errorf("got %+v", res)
	}
	if lost.Load() {
		t.Error("the session was not lost")
	}
}

func TestWebThatMisbehaves(t *testing.T) {
	stream := func(w http.ResponseWriter, line string) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			if _, err := fmt.Fprint(w, line); err != nil {
				return
			}
		}
	}
	for name, tc := range map[string]struct {
		serve http.HandlerFunc
		why   string
	}{
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then is the client's leaving noticed
			<-r.Context().Done()
		}, "did not start within"},
		"redirects": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/x", http.StatusTemporaryRedirect)
		}, "redirects to"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for {
				if _, err := fmt.Fprint(w, strings.Repeat(" ", 1<<16)); err != nil {
					return
				}
			}
		}, "too long"},
		"endless line": {func(w http.ResponseWriter, _ *http.Request) { stream(w, strings.Repeat("x", 1<<16)) }, "SSE event exceeded"},
		"notify": {func(w http.ResponseWriter, _ *http.Request) {
			stream(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"x\"}}\n\n")
		}, "more than anyone can read"},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, "welcome")
		}, "decode"},
		"fails": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, "Unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			s := site(t, func(http.Handler) http.Handler { return tc.serve })
			s.StartTimeout = time.Minute
			if name == "hangs" {
				s.StartTimeout = 200 * time.Millisecond
			}
			_, err := pool(t, s).Test(t.Context(), "helper")
			if err == nil || !strings.Contains(err.Error(), tc.why) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A call that is cut off in the middle is not made again.
func TestWebCutInTheMiddle(t *testing.T) {
	var calls atomic.Int64
	var cutting atomic.Bool
	s := site(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if cutting.Load() && r.Method == http.MethodPost {
				calls.Add(1)
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	})
	p := pool(t, s)
	pid := find(t, p, "pid")
	cutting.Store(true)
	if res := call(t, pid, ""); !res.IsError || !strings.Contains(res.Content, "may or may not") {
		t.Errorf("got %+v", res)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("called %d times", n)
	}
	cutting.Store(false)
	if res := call(t, pid, ""); res.IsError {
		t.Errorf("got %+v", res)
	}
}
