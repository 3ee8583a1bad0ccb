package openai

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/option"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/exchange"
)

// tailTime is how long to wait, after the finish reason, for the count of tokens, if the server counts.
const tailTime = 5 * time.Second

// call is one HTTP request and the watch over it.
type call struct {
	model  *Model
	watch  *exchange.Watch
	body   exchange.Body
	res    *http.Response // as soon as there is one
	limits *llm.Limits    // likewise, if it speaks of any
	said   []byte         // in an answer that is no stream, at most exchange.MaxErrorBody
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
	if err := c.model.client.Post(c.watch.Context(), "chat/completions", nil, &res, option.WithMiddleware(c.exchange)); err != nil {
		return err
	}
	if !streams(res) {
		return errNotAStream
	}
	return a.read(res.Body, c.watch.Hurry)
}

func streams(res *http.Response) bool {
	return res.StatusCode == http.StatusOK && strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
}

// exchange is the middleware that gives the request its body and puts the watch on the response. What is
// no stream it reads right away: the SDK expects errors in one form only.
func (c *call) exchange(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	c.body.Give(req)
	res, err := next(req)
	if err != nil {
		return res, err
	}
	c.res, c.limits = res, limits(res.Header, time.Now())
	c.watch.Over(res)
	if !streams(res) {
		c.said, _ = io.ReadAll(io.LimitReader(res.Body, exchange.MaxErrorBody)) // half an error still says something
		res.Body = io.NopCloser(bytes.NewReader(c.said))
	}
	return res, nil
}
