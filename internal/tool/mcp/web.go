package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"taskdaemon/internal/td"
)

// web is a server that is reached over HTTP.
type web struct {
	url     string
	headers map[string]string
	base    *http.Transport
	ctx     context.Context // ends with cut
	stop    context.CancelFunc

	fault reason

	mu    sync.Mutex
	meter meter
}

func newWeb(s *Server) *web {
	base := http.DefaultTransport.(*http.Transport).Clone()
	ctx, stop := context.WithCancel(context.Background())
	return &web{url: s.URL, headers: s.Headers, base: base, ctx: ctx, stop: stop}
}

// transport speaks to the address. The stream of a server's own messages is not opened: nothing in it is
// needed, and a server could hold up whoever opens it.
func (w *web) transport() sdk.Transport {
	client := &http.Client{Transport: w, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		return td.Errorf(td.Refused, "it redirects to %s://%s: if that is right, put it into the config", r.URL.Scheme, r.URL.Host)
	}}
	return &sdk.StreamableClientTransport{
		Endpoint: w.url, HTTPClient: client, DisableStandaloneSSE: true, MaxRetries: 2, MaxEventSize: maxLine,
	}
}

// RoundTrip implements http.RoundTripper: it adds the config's headers, bounds what comes back, and ends with cut.
func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	unhook := context.AfterFunc(w.ctx, cancel)
	r = r.Clone(ctx)
	for name, value := range w.headers {
		r.Header.Set(name, value)
	}
	resp, err := w.base.RoundTrip(r)
	if err != nil {
		unhook()
		cancel()
		return nil, err
	}
	body := &webBody{w: w, r: resp.Body, free: func() { unhook(); cancel() }}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		body.left = maxLine
	}
	resp.Body = body
	return resp, nil
}

// count counts what comes in, of all answers together.
func (w *web) count(n, lines int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.meter.add(n, lines)
	if err != nil {
		w.fault.set(err)
	}
	return err
}

// cut ends all that is under way.
func (w *web) cut() { w.stop() }

func (w *web) end() {
	w.stop()
	w.base.CloseIdleConnections()
}

// webBody is an answer's body.
type webBody struct {
	w    *web
	r    io.ReadCloser
	left int // bytes of an answer that is one message; zero for a stream of them
	free func()
}

// Read implements io.Reader.
func (b *webBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	lines := 0
	if b.left == 0 {
		for _, c := range p[:n] {
			if c == '\n' {
				lines++
			}
		}
	} else if b.left -= n; b.left <= 0 {
		return 0, errors.New("the answer is too long")
	}
	if over := b.w.count(n, lines); over != nil {
		b.w.cut()
		return 0, over
	}
	return n, err
}

// Close implements io.Closer.
func (b *webBody) Close() error {
	b.free()
	return b.r.Close()
}
