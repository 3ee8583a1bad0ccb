package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/option"

	"taskdaemon/internal/llm"
)

// MaxAnswer is how many bytes of a stream are read before it counts as endless.
const MaxAnswer = 64 << 20

// maxErrorBody is how much of an error's body is read.
const maxErrorBody = 64 << 10

// How long to wait for what comes after the answer. After the finish reason that is the count of tokens,
// if the server counts; after [DONE] the end of the HTTP message, with which the connection can be used again.
const (
	tailTime  = 5 * time.Second
	drainTime = 250 * time.Millisecond
)

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
	drains bool        // the answer is there: no byte buys more time
	body   body
	stream io.Closer      // as soon as there is one
	res    *http.Response // likewise
	limits *llm.Limits    // likewise, if it speaks of any
	said   []byte         // in an answer that is no stream, at most maxErrorBody
}

func (m *Model) newCall(ctx context.Context, req llm.Request) (*call, error) {
	b, err := encode(req, m.limit)
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
	if c.stream != nil {
		_ = c.stream.Close()
	}
}

// run sends the request and feeds the stream to a. It returns nil when the stream has ended, and then
// a.done says whether the answer is complete.
func (c *call) run(a *answer) error {
	var res *http.Response
	if err := c.model.client.Post(c.ctx, "chat/completions", nil, &res, option.WithMiddleware(c.exchange)); err != nil {
		return err
	}
	if !streams(res) {
		return errNotAStream
	}
	return a.read(res.Body, func(patience time.Duration) {
		c.drains = true
		c.watch.Reset(patience)
	})
}

func streams(res *http.Response) bool {
	return res.StatusCode == http.StatusOK && strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
}

// exchange is the middleware that gives the request its body and puts the watch on the response. What is
// no stream it reads right away: the SDK expects errors in one form only.
func (c *call) exchange(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	req.ContentLength = c.body.length
	req.GetBody = c.body.open // lets the transport send again on a new connection if the pooled one was dead
	req.Body, _ = c.body.open()
	res, err := next(req)
	if err != nil {
		return res, err
	}
	watched := &watchedBody{ReadCloser: res.Body, call: c, left: MaxAnswer}
	c.res, c.stream, res.Body = res, res.Body, watched
	c.limits = limits(res.Header, time.Now())
	if !streams(res) {
		c.said, _ = io.ReadAll(io.LimitReader(watched, maxErrorBody)) // half an error still says something
		res.Body = io.NopCloser(bytes.NewReader(c.said))
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
