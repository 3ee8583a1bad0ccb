// Package anthropic answers requests through the Claude API.
//
// One call is one HTTP request: nothing is tried again here, so that the loop's tries are the only ones and
// every one of them is journaled (L-6). The body is encoded here, because a growing conversation must cost only its new messages and its beginning must
// stay the same bytes; the stream is read here, because it must be read with suspicion.
//
// What comes back is checked as if it came from an enemy: a stream that does not keep to the protocol,
// that never ends, or falls silent, is an *llm.Error. A stream that ends before message_stop is cut. It
// gives an answer only if no tool call had begun and a whole text block had come; a text block that was
// still open is dropped, because half a sentence reads as if it were meant.
package anthropic

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/exchange"
)

// Options set up the client.
type Options struct {
	APIKey  string
	KeyEnv  string // the variable the key is from, for hints
	BaseURL string // empty: the public API
	// HTTP makes the requests; nil: a client of its own, tuned for a thousand streams at once, that
	// follows no redirects, since those would carry the key to another host.
	HTTP *http.Client
	// HeaderTimeout is how long the answer may take to begin; zero: DefaultHeaderTimeout.
	HeaderTimeout time.Duration
	// ProgressTimeout is how long a stream may bring next to no content, whatever else it brings; zero: exchange.DefaultProgress.
	ProgressTimeout time.Duration
	// CallTimeout is how long a call may take in all; zero: exchange.DefaultTotal.
	CallTimeout time.Duration
	// IdleTimeout is how long a stream may be silent; zero: DefaultIdleTimeout. The API sends a ping
	// now and then while a model thinks.
	IdleTimeout time.Duration
}

// The times an Options left at zero means.
const (
	DefaultHeaderTimeout = 5 * time.Minute
	DefaultIdleTimeout   = 2 * time.Minute
)

const (
	defaultBaseURL = "https://api.anthropic.com"
	version        = "2023-06-01" // of the protocol; the API keeps old ones
)

// Model answers through the Claude API.
type Model struct {
	endpoint exchange.Endpoint
	counter  exchange.Endpoint
	key      exchange.Key
	patience exchange.Patience
	encoder  encoder
}

// New makes a model. The environment is not looked at: what counts is in o.
func New(o Options) *Model {
	key := strings.TrimSpace(o.APIKey)
	header := func(accept string) http.Header {
		return http.Header{"Accept": {accept}, "Anthropic-Version": {version}, "X-Api-Key": {key}}
	}
	client, base := o.HTTP, cmp.Or(o.BaseURL, defaultBaseURL)
	if client == nil {
		client = exchange.NewClient()
	}
	return &Model{
		endpoint: exchange.NewEndpoint(client, base, "v1/messages", header("text/event-stream")),
		counter:  exchange.NewEndpoint(client, base, "v1/messages/count_tokens", header("application/json")),
		key:      exchange.NewKey(key, o.KeyEnv),
		patience: exchange.Patience{
			Header: cmp.Or(o.HeaderTimeout, DefaultHeaderTimeout), Idle: cmp.Or(o.IdleTimeout, DefaultIdleTimeout),
			Progress: cmp.Or(o.ProgressTimeout, exchange.DefaultProgress), Total: cmp.Or(o.CallTimeout, exchange.DefaultTotal),
		},
	}
}

// Provider is "anthropic".
func (m *Model) Provider() string { return "anthropic" }

// Stream makes one call.
func (m *Model) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if emit == nil {
		emit = func(llm.Delta) {}
	}
	c, err := m.newCall(ctx, req)
	if err != nil {
		return llm.Response{}, m.badRequest(err)
	}
	defer c.end()
	a := &answer{emit: emit, came: c.watch.Came, start: time.Now(), model: req.Model}
	err = c.run(a)
	switch {
	case a.done && err == nil && !c.watch.Full():
		r := a.response()
		exchange.Renew(&r, req.Messages, func() string { return "toolu_" + rand.Text() })
		r.Limits = c.limits
		return r, nil
	case ctx.Err() != nil:
		return llm.Response{}, context.Cause(ctx)
	default:
		return m.judge(c, a, err)
	}
}
