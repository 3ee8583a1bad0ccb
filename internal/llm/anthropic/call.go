package anthropic

import (
	"context"
	"net/http"
	"strings"
	"time"

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
	said   []byte         // in an answer that is no stream, at most exchange.MaxErrorBody
}

func (m *Model) newCall(ctx context.Context, req llm.Request) (*call, error) {
	b, err := m.encoder.encode(req, false)
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
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "text/event-stream") {
		c.said = c.model.key.Said(res)
		return &notAStream{status: res.StatusCode, kind: kind}
	}
	return a.read(res.Body, func() { c.watch.Hurry(exchange.DrainTime) })
}
