package webfetch

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"go.uber.org/goleak"

	"taskdaemon/internal/td"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a server on loopback for a test.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// respond answers every request with this body.
func respond(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{contentType}
		io.WriteString(w, body)
	}
}

// raw serves whatever speak writes into the connection after the request.
func raw(t *testing.T, speak func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 4096))
			speak(c)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return "http://" + l.Addr().String()
}

// local is a fetcher that may reach loopback.
func local(t *testing.T, change ...func(*Options)) *Fetcher {
	t.Helper()
	opts := Options{AllowPrivate: []string{"127.0.0.0/8"}}
	for _, c := range change {
		c(&opts)
	}
	f, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// names makes a fetcher believe a world of names, whose every server is the one at address.
func names(address string, world map[string][]string) func(*Options) {
	return func(o *Options) {
		o.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
			var out []netip.Addr
			for _, a := range world[host] {
				out = append(out, netip.MustParseAddr(a))
			}
			if out == nil {
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			return out, nil
		}
		o.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
	}
}

func mustFetch(t *testing.T, f *Fetcher, address string) Page {
	t.Helper()
	p, err := f.Fetch(t.Context(), address)
	if err != nil {
		t.Fatalf("fetch %s: %v", address, err)
	}
	return p
}

func wantKind(t *testing.T, err error, kind td.Kind) {
	t.Helper()
	if !td.IsKind(err, kind) {
		t.Errorf("%v: kind %s, want %s", err, td.KindOf(err), kind)
	}
}
