package webfetch

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"taskdaemon/internal/td"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"https://example.com":                   "https://example.com/",
		"  HTTPS://Example.COM:443/a#frag ":     "https://example.com/a",
		"http://example.com.:80/":               "http://example.com/",
		"http://example.com:8080/x?":            "http://example.com:8080/x",
		"https://example.com/a b?q=a b&c=\"ü\"": "https://example.com/a%20b?q=a%20b&c=%22%C3%BC%22",
		"https://example.com/?q=%20%2F":         "https://example.com/?q=%20%2F",
		"https://bücher.example/":               "https://xn--bcher-kva.example/",
		"https://a_b.example/":                  "https://a_b.example/",
		"https://xn--bcher-kva.example/":        "https://xn--bcher-kva.example/",
		"http://[2606:4700::1111]:80/":          "http://[2606:4700::1111]/",
		"http://[::FFFF:127.0.0.1]/":            "http://127.0.0.1/",
		"http://127.0.0.1./":                    "http://127.0.0.1/",
		"http://①②⑦.⓪.⓪.①/":                     "http://127.0.0.1/",
		"http://１２７。０。０。１/":                     "http://127.0.0.1/",
		"http://ⓔxample.com/":                   "http://example.com/",
		"http://example.com:080/":               "http://example.com/",
		"http://example.com#@127.0.0.1:x/":      "http://example.com/",
		"http://3com.example/":                  "http://3com.example/",
		"http://example.0xg/":                   "http://example.0xg/",
	} {
		u, err := Parse(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if u.String() != want {
			t.Errorf("%s became %s, want %s", in, u, want)
		}
		if again, err := Parse(u.String()); err != nil || again.String() != u.String() {
			t.Errorf("%s is not stable: %v, %v", u, again, err)
		}
	}
}

// Addresses that mean something else to one reader than to the next, or nothing at all.
func TestHostileAddresses(t *testing.T) {
	for _, in := range []string{
		"", " ", "example.com/x", "//example.com/", "/etc/passwd", "file:///etc/passwd", "ftp://example.com/", "gopher://x/", "data:text/html,x",
		"javascript:alert(1)", "unix:///run/x.sock", "http:", "http:/", "http://", "http:///x", "http:example.com", "http:/example.com",
		"https://user@example.com/", "https://user:pass@example.com/", "https://example.com@127.0.0.1/", "https://@example.com/",
		"http://example.com\\@127.0.0.1/", "http://127.0.0.1\\.example.com/", "http://exa mple.com/",
		"http://example.com\n.evil/", "http://example.com\t/", "http://exam\x00ple.com/", "http://%31%32%37.0.0.1:x/", "http://example.com%2f@x/",
		"http://2130706433/", "http://0x7f000001/", "http://017700000001/", "http://127.1/", "http://127.0.1/", "http://0177.0.0.1/",
		"http://0x7f.0.0.1/", "http://127.0.0.0x1/", "http://127.0.0.1.1/", "http://1.2.3.4.5/", "http://256.256.256.256/", "http://00000000177.0.0.1/",
		"http://0/", "http://0x/", "http://foo.0x/", "http://foo.1/", "http://.../", "http://./", "http://a..b/", "http://.a/",
		"http://[fe80::1%25eth0]/", "http://[::1%250]/", "http://[::1/", "http://::1/", "http://[127.0.0.1]x/", "http://[v1.x]/",
		"http://example.com:0/", "http://example.com:65536/", "http://example.com:x/", "http://example.com:-1/", "http://example.com:1:2/",
		"http://" + strings.Repeat("a", 64) + ".com/", "http://" + strings.Repeat("a.", 130) + "com/", "http://x/" + strings.Repeat("a", maxURL),
		"http://a\u202eb.com/", "http://\u2488.example/", "http://xn--\u0000/", "http://<script>/", "http://*/", "http://\xff/",
	} {
		if u, err := Parse(in); !td.IsKind(err, td.Invalid) {
			t.Errorf("%q was taken for %v (%v)", in, u, err)
		} else if len(err.Error()) > 400 {
			t.Errorf("%q: the error is %d bytes long", in, len(err.Error()))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"https://example.com/a?b#c", "http://①②⑦.0.0.1/", "http://[::1%25x]/", "http://a@b/", "http://0x7f.1/", "http://x:99999/", "http://%zz/", "//",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		u, err := Parse(in)
		if err != nil {
			if !utf8.ValidString(err.Error()) || td.KindOf(err) != td.Invalid {
				t.Fatalf("%q: %v", in, err)
			}
			return
		}
		if u.User != nil || u.Scheme != "http" && u.Scheme != "https" || u.Fragment != "" || u.Opaque != "" {
			t.Fatalf("%q became %#v", in, u)
		}
		host := u.Hostname()
		if _, err := netip.ParseAddr(host); err != nil && !plainName(host) {
			t.Fatalf("%q: host %q", in, host)
		}
		std, err := url.Parse(u.String())
		if err != nil || std.Host != u.Host {
			t.Fatalf("%q: %s reads as host %v (%v)", in, u, std, err)
		}
		if again, err := Parse(u.String()); err != nil || again.String() != u.String() {
			t.Fatalf("%q: %s is not stable: %v, %v", in, u, again, err)
		}
	})
}
