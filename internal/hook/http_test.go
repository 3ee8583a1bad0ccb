package hook

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// server is one on loopback that ends with the test.
func server(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func posting(url string) Spec {
	s := at(PreToolUse)
	s.Command, s.URL = "", url
	return s
}

func TestHTTP(t *testing.T) {
	var got PreToolUsePayload
	var key string
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		key = r.Header.Get("Idempotency-Key")
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s", r.Method, r.Header)
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, `{"decision":"block","reason":"not today"}`)
	})
	r, err := HTTP(t.Context(), posting(s.URL), samplePreToolUse, "step-1", nil)
	if err != nil || !r.Blocked || r.Reason != "not today" || r.Hook != "h" {
		t.Errorf("%+v, %v", r, err)
	}
	if got.ToolName != "Bash" || key != "step-1" {
		t.Errorf("it was told %+v with key %q", got, key)
	}
}

func TestHTTPAnswers(t *testing.T) {
	other := server(t, func(http.ResponseWriter, *http.Request) { t.Error("sent on to another host") })
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		failure string // "": none
	}{
		"empty":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, ""},
		"object": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); _, _ = io.WriteString(w, "{}") }, ""},
		"text":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "no JSON object"},
		"half":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"decision":`) }, "read its decision"},
		"4xx":    {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who?", 404) }, "it answered 404 Not Found: who?"},
		"5xx, block": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, `{"decision":"block"}`)
		}, "it answered 500"},
		"endless": {func(w http.ResponseWriter, r *http.Request) { flood(w, r) }, "more than 1048576 bytes"},
		"other host": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, "another host"},
		"loses it":    {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) }, "without the payload"},
		"in circles":  {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusPermanentRedirect) }, "too often"},
		"goes away":   {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"never comes": {func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() }, "it took longer than 50ms"},
		"stays within": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/x" {
				http.Redirect(w, r, "/x", http.StatusPermanentRedirect)
				return
			}
			if b, err := io.ReadAll(r.Body); err != nil || len(b) == 0 {
				http.Error(w, "no payload", 400)
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec := posting(server(t, c.handler).URL)
			if name == "never comes" {
				spec.Timeout = 50 * time.Millisecond
			}
			spec.OnError = Closed
			r, err := HTTP(t.Context(), spec, samplePreToolUse, "k", nil)
			if err != nil {
				t.Fatal(err)
			}
			if (c.failure == "") != (r.Failure == "") || !strings.Contains(r.Failure, c.failure) || r.Blocked != (c.failure != "") {
				t.Errorf("got %+v", r)
			}
		})
	}
}

func flood(w io.Writer, r *http.Request) {
	for r.Context().Err() == nil {
		if _, err := w.Write([]byte(strings.Repeat("x", 64<<10))); err != nil {
			return
		}
	}
}

func TestHTTPNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	r, err := HTTP(t.Context(), posting("http://"+addr), samplePreToolUse, "k", nil)
	if err != nil || r.Blocked || !strings.Contains(r.Failure, "refused") {
		t.Errorf("%+v, %v", r, err)
	}
}

// A daemon that leaves decides nothing in the hook's name.
func TestHTTPCutOff(t *testing.T) {
	leaving := errors.New("the daemon leaves")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := server(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel(leaving)
		<-r.Context().Done()
	})
	spec := posting(s.URL)
	spec.OnError = Closed
	if r, err := HTTP(ctx, spec, samplePreToolUse, "k", nil); !errors.Is(err, leaving) || r.Blocked {
		t.Errorf("%+v, %v", r, err)
	}
}
