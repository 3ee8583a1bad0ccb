package proxy

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

func TestAllowed(t *testing.T) {
	hosts := []string{"example.org", "*.github.com", "localhost:8080", "10.0.0.1"}
	for _, c := range []struct {
		host, port string
		want       bool
	}{
		{"example.org", "443", true}, {"example.org", "80", true}, {"example.org", "22", false}, {"www.example.org", "443", false},
		{"api.github.com", "443", true}, {"a.b.github.com", "443", true}, {"github.com", "443", false}, {"evilgithub.com", "443", false},
		{"github.com.evil.org", "443", false}, {"localhost", "8080", true}, {"localhost", "80", false}, {"10.0.0.1", "80", true}, {"", "80", false},
	} {
		if got := Allowed(hosts, c.host, c.port); got != c.want {
			t.Errorf("%s:%s: %v", c.host, c.port, got)
		}
	}
	if err := Check([]string{"[a"}); !td.IsKind(err, td.Invalid) {
		t.Errorf("got %v", err)
	}
}

// through is a client that goes through a proxy whose names all lead to addr.
func through(t *testing.T, addr string, hosts ...string) *http.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, l, Options{Hosts: hosts, Log: slog.New(slog.DiscardHandler), Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "private.") {
				return nil, td.Errorf(td.Refused, "%s is a private address", address)
			}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: l.Addr().String()})}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestProxy(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello "+r.Host) })
	plain, secure := httptest.NewServer(answer), httptest.NewTLSServer(answer)
	defer plain.Close()
	defer secure.Close()

	c := through(t, plain.Listener.Addr().String(), "good.test", "private.test")
	res, err := c.Get("http://good.test/")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if string(body) != "hello good.test" {
		t.Errorf("got %q", body)
	}
	for host, want := range map[string]string{"bad.test": "sandbox.hosts", "private.test": "private address"} {
		res, err := c.Get("http://" + host + "/")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusForbidden || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, %q", host, res.Status, body)
		}
	}

	c = through(t, secure.Listener.Addr().String(), "example.com")
	c.Transport.(*http.Transport).TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig
	res, err = c.Get("https://example.com/")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if _, err := c.Get("https://bad.test/"); err == nil || !strings.Contains(err.Error(), Refusal) {
		t.Errorf("got %v", err)
	}
}
