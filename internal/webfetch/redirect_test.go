package webfetch

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

// hops answers /N with a redirect to /N-1, and /0 with a page.
func hops(w http.ResponseWriter, r *http.Request) {
	var n int
	fmt.Sscanf(r.URL.Path, "/%d", &n)
	if n == 0 {
		io.WriteString(w, "arrived")
		return
	}
	http.Redirect(w, r, fmt.Sprint("/", n-1), []int{301, 302, 303, 307, 308}[n%5])
}

func TestRedirectChain(t *testing.T) {
	base := serve(t, hops)
	if p := mustFetch(t, local(t), base+"/5"); p.Text != "arrived" || p.URL != base+"/0" {
		t.Errorf("got %+v", p)
	}
	_, err := local(t).Fetch(t.Context(), base+"/6")
	wantKind(t, err, td.Unavailable)
	if p := mustFetch(t, local(t, func(o *Options) { o.MaxRedirects = 6 }), base+"/6"); p.Text != "arrived" {
		t.Errorf("got %+v", p)
	}
}

func TestRedirectTargets(t *testing.T) {
	for _, c := range []struct {
		name, location string
		kind           td.Kind // of the error
		moved          string
	}{
		{"nowhere", "", td.Unavailable, ""},
		{"to itself", "/start", td.Unavailable, ""},
		{"to itself, with a fragment", "/start#x", td.Unavailable, ""},
		{"to a file", "file:///etc/passwd", td.Refused, ""},
		{"to a script", "javascript:alert(1)", td.Refused, ""},
		{"with a password", "http://a:b@x.example/", td.Refused, ""},
		{"to another way to write an address", "http://0x7f.1/", td.Refused, ""},
		{"to noise", "http://[::1", td.Refused, ""},
		{"to another host", "https://other.example/path?q=1#f", "", "https://other.example/path?q=1"},
		{"to a sibling", "http://api.x.example/", "", "http://api.x.example/"},
		{"to a parent", "http://example/", "", "http://example/"},
		{"to a look-alike", "http://x.example.evil.example/", "", "http://x.example.evil.example/"},
		{"to another port", "http://x.example:8080/", "", "http://x.example:8080/"},
		{"to another port with TLS", "https://x.example:8443/", "", "https://x.example:8443/"},
		{"inside", "http://10.0.0.1/", "", "http://10.0.0.1/"}, // told, and refused when asked for
		{"without a scheme", "//other.example/", "", "http://other.example/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				asked++
				w.Header().Set("Location", c.location)
				w.WriteHeader(http.StatusFound)
			})
			u, _ := url.Parse(base)
			f := local(t, names(u.Host, map[string][]string{"x.example": {"93.184.215.14"}}))
			p, err := f.Fetch(t.Context(), "http://x.example/start")
			if c.kind != "" {
				wantKind(t, err, c.kind)
			} else if err != nil || p.MovedTo != c.moved || !strings.Contains(p.Text, c.moved) || p.URL != "http://x.example/start" {
				t.Errorf("got %+v, %v", p, err)
			}
			if asked != 1 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}

// A redirect on the same site is judged like a fresh address.
func TestRedirectIsResolvedAgain(t *testing.T) {
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "x.example" {
			http.Redirect(w, r, "http://www.x.example/", http.StatusFound)
			return
		}
		io.WriteString(w, "inside")
	})
	u, _ := url.Parse(base)
	f := local(t, names(u.Host, map[string][]string{"x.example": {"93.184.215.14"}, "www.x.example": {"192.168.0.1"}}))
	_, err := f.Fetch(t.Context(), "http://x.example/")
	wantKind(t, err, td.Refused)
}

func TestSameSite(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"http://a.example/x", "http://a.example/y", true},
		{"http://a.example/", "https://a.example/", true},
		{"https://a.example/", "https://www.a.example/", true},
		{"https://www.a.example/", "https://a.example/", true},
		{"https://a.example/", "http://a.example/", false},
		{"https://a.example/", "https://b.a.example/", false},
		{"https://a.example/", "https://b.example/", false},
		{"http://a.example/", "https://a.example:8443/", false},
		{"http://a.example:8080/", "https://a.example/", false},
		{"http://a.example:8080/", "http://a.example:8080/", true},
		{"http://a.example:8080/", "http://a.example/", false},
	} {
		from, _ := url.Parse(c.from)
		to, _ := url.Parse(c.to)
		if got := sameSite(from, to); got != c.want {
			t.Errorf("%s to %s: %v", from, to, got)
		}
	}
}
