package exchange

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestEndpoint(t *testing.T) {
	var seen *http.Request
	var body string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		seen, body = r, string(b)
	}))
	defer srv.Close()
	for base, want := range map[string]string{
		"": "/chat", "/": "/chat", "/v1": "/v1/chat", "/v1/": "/v1/chat", "/a%2Fb": "/a%2Fb/chat", "/v1?api-version=3": "/v1/chat?api-version=3",
	} {
		e := NewEndpoint(nil, srv.URL+base, "chat", http.Header{"X-Key": {"k"}})
		w := NewWatch(t.Context(), Patience{Header: time.Minute, Idle: time.Minute, Progress: time.Minute, Total: time.Minute})
		var b Body
		b.Add([]byte("one "))
		b.Add([]byte("two"))
		_, err := e.Send(w, b)
		w.End()
		if err != nil {
			t.Fatal(err)
		}
		if seen.RequestURI != want || seen.Method != http.MethodPost || body != "one two" || seen.ContentLength != 7 ||
			seen.Header.Get("X-Key") != "k" || seen.Header.Get("User-Agent") != "taskdaemon" || seen.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%q: %s %s of %q, %v; want %s", base, seen.Method, seen.RequestURI, body, seen.Header, want)
		}
	}
	w := NewWatch(t.Context(), Patience{Header: time.Minute, Idle: time.Minute, Progress: time.Minute, Total: time.Minute})
	defer w.End()
	if _, err := NewEndpoint(nil, "http://[::1", "chat", http.Header{}).Send(w, Body{}); err == nil {
		t.Error("an address that is none was called")
	}
}
