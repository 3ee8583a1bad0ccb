package anthropic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go/option"

	"taskdaemon/internal/llm"
)

// MaxAnswer is how many bytes of a stream are read before it counts as endless.
const MaxAnswer = 64 << 20

// maxErrorBody is how much of an error's body is read.
const maxErrorBody = 64 << 10

// drainTime is how long to wait, after the answer is complete, for the end of the HTTP message: with it
// the connection can be used again.
const drainTime = 250 * time.Millisecond

var (
	errSilent  = errors.New("nothing came any more")
	errTooLong = fmt.Errorf("the answer is longer than %d MiB", MaxAnswer>>20)
)

// call is one HTTP request and the watch over it.
type call struct {
	model  *Model
	ctx    context.Context // ends when the caller gives up, or the watch does
	cancel context.CancelCauseFunc
	watch  *time.Timer // cancels ctx when nothing comes
	drains bool        // the answer is complete: no byte buys more time
	body   body
	res    *http.Response // as soon as there is one
	limits *llm.Limits    // likewise, if it speaks of any
}

func (m *Model) newCall(ctx context.Context, req llm.Request) (*call, error) {
	b, err := encode(req)
	if err != nil {
		return nil, err
	}
	c := &call{model: m, body: b}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.watch = time.AfterFunc(m.headerTimeout, func() { c.cancel(errSilent) })
	return c, nil
}

func (c *call) end() {
	c.watch.Stop()
	c.cancel(nil)
	if c.res != nil {
		_ = c.res.Body.Close()
	}
}

// run sends the request and feeds the stream to a. It returns nil when the stream has ended, and then
// a.done says whether the answer is complete.
func (c *call) run(a *answer) error {
	var res *http.Response
	if err := c.model.client.Post(c.ctx, "v1/messages", nil, &res, option.WithMiddleware(c.exchange)); err != nil {
		return err
	}
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "text/event-stream") {
		return &notAStream{status: res.StatusCode, kind: kind}
	}
	return a.read(res.Body, func() {
		c.drains = true
		c.watch.Reset(drainTime)
	})
}

// exchange is the middleware that gives the request its body and puts the watch on the response.
func (c *call) exchange(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	req.ContentLength = c.body.length
	req.GetBody = c.body.open // lets the transport send again on a new connection if the pooled one was dead
	req.Body, _ = c.body.open()
	res, err := next(req)
	if err != nil {
		return res, err
	}
	c.res, c.limits = res, limits(res.Header, time.Now())
	watched := &watchedBody{ReadCloser: res.Body, call: c, left: MaxAnswer}
	res.Body = watched
	if res.StatusCode >= 400 {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(watched, maxErrorBody), watched}
	}
	return res, nil
}

// watchedBody is a response's body: each byte puts off the end of the watch's patience.
type watchedBody struct {
	io.ReadCloser
	call *call
	left int
}

func (b *watchedBody) Read(p []byte) (int, error) {
	if !b.call.drains {
		b.call.watch.Reset(b.call.model.idleTimeout)
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLong
	}
	return n, err
}
