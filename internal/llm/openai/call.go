package openai

import (
	"context"
	"net/http"
	"strings"
	"time"

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
	res, err := c.model.endpoint.Send(c.watch, c.body)
	if err != nil {
		return err
	}
	c.res, c.limits = res, limits(res.Header, time.Now())
	if !streams(res) {
		c.said = c.model.key.Said(res)
		return errNotAStream
	}
	return a.read(res.Body, c.watch.Hurry)
}

func streams(res *http.Response) bool {
	return res.StatusCode == http.StatusOK && strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
}
