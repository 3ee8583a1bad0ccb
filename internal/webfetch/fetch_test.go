package webfetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"taskdaemon/internal/td"
)

func TestFetch(t *testing.T) {
	var got http.Header
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		respond("text/html; charset=utf-8", `<title>T</title><h1>Hello</h1><p>See <a href="/b">b</a>.`)(w, r)
	})
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := local(t, func(o *Options) { o.Now = func() time.Time { return now } })
	p := mustFetch(t, f, base+"/a#frag")
	want := Page{URL: base + "/a", Title: "T", Type: "text/html", Text: "# Hello\n\nSee [b](" + base + "/b).", Bytes: 56, FetchedAt: now}
	if p != want {
		t.Errorf("got  %#v\nwant %#v", p, want)
	}
	if got.Get("User-Agent") != "taskdaemon" || got.Get("Cookie")+got.Get("Authorization")+got.Get("Referer") != "" {
		t.Errorf("the request said %v", got)
	}
}

func TestTypes(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00", 100)
	for _, c := range []struct {
		name, contentType, body, want string
		kind                          td.Kind
	}{
		{"json", "application/json", `{"a":1}`, `{"a":1}`, ""},
		{"json of a kind", "application/problem+json", `{"a":1}`, `{"a":1}`, ""},
		{"xml", "application/atom+xml; charset=utf-8", `<a>b</a>`, `<a>b</a>`, ""},
		{"plain keeps tags", "text/plain", "<b>x</b>", "<b>x</b>", ""},
		{"markdown", "text/markdown", "# x", "# x", ""},
		{"xhtml", "application/xhtml+xml", "<p>x <b>y</b></p>", "x **y**", ""},
		{"no type, text", "", "just words", "just words", ""},
		{"no type, html", "", "<!doctype html><p>x <b>y</b>", "x **y**", ""},
		{"bytes that are text", "application/octet-stream", "package main", "package main", ""},
		{"a type that is none", ";;;", "just words", "just words", ""},
		{"a broken parameter", `text/plain; charset="`, "just words", "just words", ""},
		{"empty", "text/html", "", "[The page holds no text. It may be drawn by scripts, which are not run.]", ""},
		{"image", "image/png", png, "", td.Invalid},
		{"no type, image", "", png, "", td.Invalid},
		{"image that says text", "text/plain", png, "", td.Invalid},
		{"image that says html", "text/html", png, "", td.Invalid},
		{"pdf", "application/pdf", "%PDF-1.7", "", td.Invalid},
		{"events without end", "text/event-stream", "data: x\n\n", "", td.Invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := local(t).Fetch(t.Context(), serve(t, respond(c.contentType, c.body)))
			if c.kind != "" {
				wantKind(t, err, c.kind)
				return
			}
			if err != nil || p.Text != c.want {
				t.Errorf("got %q, %v; want %q", p.Text, err, c.want)
			}
		})
	}
	_, err := local(t).Fetch(t.Context(), serve(t, respond("application/zip", "1234567")))
	if err == nil || !strings.Contains(err.Error(), `"application/zip", 7 bytes`) {
		t.Errorf("the refusal does not say type and size: %v", err)
	}
}

func TestCharsets(t *testing.T) {
	for _, c := range []struct{ name, contentType, body, want string }{
		{"latin1 by header", "text/plain; charset=iso-8859-1", "caf\xe9", "café"},
		{"latin1 by nobody", "text/plain", "caf\xe9", "café"},
		{"utf-8 by nobody, late", "text/html", "<p>" + strings.Repeat("x", 2000) + "é", strings.Repeat("x", 2000) + "é"},
		{"utf-8 mark", "text/plain", "\xef\xbb\xbfé", "é"},
		{"utf-16 mark", "text/plain", "\xff\xfeh\x00i\x00\xe9\x00", "hié"},
		{"utf-16 by header", "text/plain; charset=utf-16be", "\x00h\x00i", "hi"},
		{"shift-jis by header", "text/plain; charset=shift_jis", "\x93\xfa\x96{", "日本"},
		{"shift-jis by meta", "text/html", "<meta charset=shift_jis><p>\x93\xfa\x96{", "日本"},
		{"iso-2022-jp by meta", "text/html", "<meta charset=iso-2022-jp><p>\x1b$BF|K\\\x1b(B", "日本"},
		{"gbk", "text/html; charset=gbk", "<p>\xc4\xe3\xba\xc3", "你好"},
		{"koi8-r", "text/plain; charset=koi8-r", "\xf0\xd2\xc9\xd7\xc5\xd4", "Привет"},
		{"header before meta", "text/html; charset=utf-8", "<meta charset=latin1><p>é", "é"},
		{"unknown name", "text/plain; charset=klingon", "é", "é"},
		{"bytes that are not utf-8", "text/plain; charset=utf-8", "a\xffb", "a\uFFFDb"},
		{"utf-7 is not spoken", "text/plain; charset=utf-7", "+AD4-", "+AD4-"},
		{"unseen characters", "text/plain", "a\u202eb\U000E0041c\u200bd\x1b[31me\x07", "abcd[31me"},
		{"lines", "text/plain", "a\r\nb\rc\u2028d", "a\nb\nc\nd"},
		{"joiners", "text/plain", "👨\u200d👩", "👨\u200d👩"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustFetch(t, local(t), serve(t, respond(c.contentType, c.body)))
			if p.Text != c.want {
				t.Errorf("got %q, want %q", p.Text, c.want)
			}
		})
	}
}

func TestStatuses(t *testing.T) {
	for code, want := range map[int]td.Kind{
		400: td.Invalid, 401: td.Refused, 403: td.Refused, 404: td.NotFound, 410: td.NotFound, 418: td.Invalid, 429: td.Unavailable,
		500: td.Unavailable, 503: td.Unavailable, 204: td.NotFound, 206: td.Unavailable, 300: td.Unavailable, 304: td.Unavailable, 999: td.Unavailable,
	} {
		base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(code)
		})
		_, err := local(t).Fetch(t.Context(), base)
		wantKind(t, err, want)
		if err != nil && !strings.Contains(err.Error(), fmt.Sprint(code)) {
			t.Errorf("%d is not told: %v", code, err)
		}
	}
}

// Without an allowance nothing private is reached, by whatever name.
func TestPrivateIsRefused(t *testing.T) {
	hits := 0
	base := serve(t, func(http.ResponseWriter, *http.Request) { hits++ })
	u, _ := url.Parse(base)
	world := names(u.Host, map[string][]string{
		"inside.example": {"10.0.0.7"}, "half.example": {"93.184.215.14", "127.0.0.1"}, "six.example": {"::1"}, "mapped.example": {"::ffff:10.0.0.1"},
		"cloud.example": {"169.254.169.254"}, "cloud6.example": {"fd00:ec2::254"}, "nat64.example": {"64:ff9b::a00:1"}, "nowhere.example": {},
	})
	f, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{
		base, "http://localhost:" + u.Port(), "http://[::1]:" + u.Port(), "http://[::ffff:127.0.0.1]:" + u.Port(), "http://127.0.0.1.:" + u.Port(),
		"http://①②⑦.⓪.⓪.①:" + u.Port(), "http://0.0.0.0:" + u.Port(), "http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/",
	} {
		_, err := f.Fetch(t.Context(), address)
		wantKind(t, err, td.Refused)
	}
	g, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	world(&g.opts)
	for _, host := range []string{"inside", "half", "six", "mapped", "cloud", "cloud6", "nat64"} {
		_, err := g.Fetch(t.Context(), "http://"+host+".example/")
		wantKind(t, err, td.Refused)
	}
	_, err = g.Fetch(t.Context(), "http://nowhere.example/")
	wantKind(t, err, td.NotFound)
	if hits > 0 {
		t.Errorf("the server was asked %d times", hits)
	}
}

// A name that is public when it is looked at and private when it is dialled.
func TestRebinding(t *testing.T) {
	u, _ := url.Parse(serve(t, respond("text/plain", "inside")))
	lookups, dialled := 0, []string(nil)
	f := local(t, names(u.Host, nil), func(o *Options) {
		o.AllowPrivate = nil
		world := []map[string][]string{{"x.example": {"93.184.215.14"}}, {"x.example": {"127.0.0.1"}}}
		o.lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			var now Options
			names("", world[min(lookups, 1)])(&now)
			lookups++
			return now.lookup(ctx, host)
		}
		dial := o.dial
		o.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			dialled = append(dialled, address)
			return dial(ctx, network, address)
		}
	})
	mustFetch(t, f, "http://x.example/")
	if lookups != 1 || len(dialled) != 1 || dialled[0] != "93.184.215.14:80" {
		t.Errorf("%d lookups, dialled %v", lookups, dialled)
	}
	_, err := f.Fetch(t.Context(), "http://x.example/again")
	wantKind(t, err, td.Refused)
	if len(dialled) != 1 {
		t.Errorf("dialled %v", dialled)
	}
}

// An address that does not answer gives way to the next.
func TestSeveralAddresses(t *testing.T) {
	u, _ := url.Parse(serve(t, respond("text/plain", "here")))
	f := local(t, names(u.Host, map[string][]string{"x.example": {"2606:4700::1", "93.184.215.14"}}), func(o *Options) {
		dial := o.dial
		o.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "[") {
				return nil, errors.New("no route")
			}
			return dial(ctx, network, address)
		}
	})
	if p := mustFetch(t, f, "http://x.example/"); p.Text != "here" {
		t.Errorf("got %q", p.Text)
	}
}

func TestSizes(t *testing.T) {
	big := strings.Repeat("word ", 2<<20) // 10 MiB
	bomb := bytes.Repeat(pack(bytes.Repeat([]byte{'a'}, 1<<20)), 200)
	packed := func(body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(body)
		}
	}
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, "on and on\n"); err != nil {
				return
			}
		}
	}
	empties := func(w http.ResponseWriter, r *http.Request) { // unpacks to nothing, for ever
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "text/plain")
		member := bytes.Repeat(pack(nil), 1000)
		for r.Context().Err() == nil {
			if _, err := w.Write(member); err != nil {
				return
			}
		}
	}
	for _, c := range []struct {
		name  string
		serve http.HandlerFunc
		bytes int64
		cut   bool
	}{
		{"10 MiB of text", respond("text/plain", big), 5 << 20, true},
		{"10 MiB of HTML", respond("text/html", "<p>"+strings.Repeat("<b>word</b> ", 1<<20)), 5 << 20, true},
		{"at the limit", respond("text/html", "<p>x<!--"+strings.Repeat("-", 5<<20-8)), 5 << 20, false},
		{"one over", respond("text/html", "<p>x<!--"+strings.Repeat("-", 5<<20-7)), 5 << 20, true},
		{"bomb", packed(bomb), 5 << 20, true},
		{"bomb in a bomb", packed(pack(bomb)), 0, false},
		{"endless", endless, 5 << 20, true},
		{"endless empty", empties, 0, true},
		{"gzip", packed(pack([]byte("hello"))), 5, false},
		{"gzip of nothing", packed(nil), 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p, err := local(t).Fetch(t.Context(), serve(t, c.serve))
			if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 200<<20 {
				t.Errorf("%d MiB were used", (after.TotalAlloc-before.TotalAlloc)>>20)
			}
			if c.name == "bomb in a bomb" { // unpacked once, it is no text
				wantKind(t, err, td.Invalid)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := utf8.RuneCountInString(p.Text); n > MaxText+200 || p.Bytes != c.bytes || p.Cut != c.cut {
				t.Errorf("%d characters, %d bytes, cut %v", n, p.Bytes, p.Cut)
			}
			if p.Cut && !strings.HasSuffix(p.Text, "]") {
				t.Errorf("nothing says that the text is cut: …%s", p.Text[max(0, len(p.Text)-80):])
			}
		})
	}
}

func pack(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(body)
	w.Close()
	return b.Bytes()
}

// Servers that do not keep to the rules.
func TestRudeServers(t *testing.T) {
	for _, c := range []struct {
		name  string
		speak string
		kind  td.Kind
	}{
		{"nothing", "", td.Unavailable},
		{"HTTP/0.9", "<html>hello", td.Unavailable},
		{"noise", strings.Repeat("\x00\xff\x16\x03\n", 50_000), td.Unavailable},
		{"one endless line", strings.Repeat("x", 1<<20), td.Unavailable},
		{"header flood", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: "+strings.Repeat("y", 1000)+"\r\n", 1000) + "\r\nbody", td.Unavailable},
		{"many small headers", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 200_000) + "\r\nbody", td.Unavailable},
		{"one huge header", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 1<<20) + "\r\n\r\nbody", td.Unavailable},
		{"interim answers without end", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100_000), td.Unavailable},
		{"broken off", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nhalf", td.Unavailable},
		{"broken chunk", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx", td.Unavailable},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", td.Unavailable},
		{"another packing", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: br\r\n\r\nx", td.Unavailable},
		{"no gzip", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\n\r\nplain", td.Unavailable},
		{"another protocol", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", td.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := raw(t, func(conn net.Conn) { io.WriteString(conn, c.speak) })
			_, err := local(t).Fetch(t.Context(), base)
			wantKind(t, err, c.kind)
			if err != nil && (len(err.Error()) > 600 || !utf8.ValidString(err.Error()) || strings.ContainsAny(err.Error(), "\x00\n\x1b")) {
				t.Errorf("the error repeats the noise: %q", err)
			}
		})
	}
}

// A server that takes its time uses up the fetch's, and no more.
func TestSlowServers(t *testing.T) {
	drip := func(first string) func(net.Conn) {
		return func(c net.Conn) {
			io.WriteString(c, first)
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for range tick.C {
				if _, err := io.WriteString(c, "x"); err != nil {
					return
				}
			}
		}
	}
	for name, first := range map[string]string{
		"head": "HTTP/1.1 200 OK\r\nX: ",
		"body": "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n",
	} {
		f := local(t, func(o *Options) { o.Timeout = 100 * time.Millisecond })
		start := time.Now()
		_, err := f.Fetch(t.Context(), raw(t, drip(first)))
		wantKind(t, err, td.Timeout)
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s: took %s", name, took)
		}
	}
	stop := errors.New("the person stopped it")
	ctx, cancel := context.WithCancelCause(t.Context())
	base := raw(t, func(c net.Conn) {
		cancel(stop)
		drip("")(c)
	})
	_, err := local(t).Fetch(ctx, base)
	wantKind(t, err, td.Interrupted)
	if !errors.Is(err, stop) {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(respond("text/plain", "secret"))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	_, err := local(t).Fetch(t.Context(), s.URL)
	wantKind(t, err, td.Refused)
	f := local(t, func(o *Options) { o.tls = s.Client().Transport.(*http.Transport).TLSClientConfig })
	if p := mustFetch(t, f, s.URL); p.Text != "secret" {
		t.Errorf("got %q", p.Text)
	}
}

// The environment's proxy is not used: what it connects to, nobody here could judge.
func TestNoProxy(t *testing.T) {
	asked := false
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { asked = true })
	t.Setenv("HTTP_PROXY", proxy)
	t.Setenv("http_proxy", proxy)
	u, _ := url.Parse(serve(t, respond("text/plain", "direct")))
	world := names(u.Host, map[string][]string{"x.example": {"93.184.215.14"}})
	if p := mustFetch(t, local(t, world), "http://x.example/"); p.Text != "direct" || asked {
		t.Errorf("got %q, by proxy: %v", p.Text, asked)
	}
}
