package anthropic

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go/option"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/exchange"
)

// call is one HTTP request and the watch over it.
type call struct {
	model  *Model
	watch  *exchange.Watch
	body   exchange.Body
	res    *http.Response // as soon as there is one
	limits *llm.Limits    // likewise, if it speaks of any
}

func (m *Model) newCall(ctx context.Context, req llm.Request) (*call, error) {
	b, err := m.encoder.encode(req)
	if err != nil {
		return nil, err
	}
	return &call{model: m, body: b, watch: exchange.NewWatch(ctx, m.patience)}, nil
}

func (c *call) end() { c.watch.End() }

// run sends the request and feeds the stream to a. It returns nil when the stream has ended, and then
// a.done says whether the answer is complete.
func (c *call) run(a *answer) error {
	var res *http.Response
	if err := c.model.client.Post(c.watch.Context(), "v1/messages", nil, &res, option.WithMiddleware(c.exchange)); err != nil {
		return err
	}
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "text/event-stream") {
		return &notAStream{status: res.StatusCode, kind: kind}
	}
	return a.read(res.Body, func() { c.watch.Hurry(exchange.DrainTime) })
}

// exchange is the middleware that gives the request its body and puts the watch on the response.
func (c *call) exchange(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	c.body.Give(req)
	res, err := next(req)
	if err != nil {
		return res, err
	}
	c.res, c.limits = res, limits(res.Header, time.Now())
	c.watch.Over(res)
	if res.StatusCode >= 400 {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, exchange.MaxErrorBody), res.Body}
	}
	return res, nil
}
