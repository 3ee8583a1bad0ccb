// Package openai answers requests through the Chat Completions API: OpenAI
// itself and everything that speaks the same protocol, such as Ollama, llama.cpp, vLLM and OpenRouter.
//
// One call is one HTTP request: nothing is tried again here, so that the loop's tries are the only ones and
// every one of them is journaled (L-6). The body is encoded here, because a growing conversation must cost only its new messages and its beginning must stay the same bytes; the
// stream and the errors are read here, because servers differ in both and must be read with suspicion.
//
// What comes back is checked as if it came from an enemy: a stream that does not keep to the protocol,
// that never ends, or falls silent, is an *llm.Error. A stream that ends before its finish reason is cut
// and gives no answer at all: the protocol does not say where a text ends, and half a sentence reads as
// if it were meant. A finish reason is a server's word that nothing is missing but the count of tokens.
//
// Servers that fall short of the protocol are helped where the meaning is clear: calls without an id or
// an index, all with the same index, or with arguments that are not in a string; no usage; no [DONE].
// What a model thinks aloud is shown and kept, and never sent back. A request's budget for thinking is
// not sent: the protocol has no word for it that all servers take, and models that reason do so unasked.
package openai

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/exchange"
)

// Options set up the client.
type Options struct {
	APIKey  string // empty: none is sent, which servers on one's own machine are content with
	KeyEnv  string // the variable the key is from, for hints
	BaseURL string // with its version, as in "http://localhost:11434/v1"; empty: the API of OpenAI
	// HTTP makes the requests; nil: a client of its own, tuned for a thousand streams at once, that
	// follows no redirects, since those would carry the key to another host.
	HTTP *http.Client
	// HeaderTimeout is how long the answer may take to begin; zero: DefaultHeaderTimeout.
	HeaderTimeout time.Duration
	// ProgressTimeout is how long a stream may bring next to no content, whatever else it brings; zero: exchange.DefaultProgress.
	ProgressTimeout time.Duration
	// CallTimeout is how long a call may take in all; zero: exchange.DefaultTotal.
	CallTimeout time.Duration
	// IdleTimeout is how long a stream may be silent; zero: DefaultIdleTimeout.
	IdleTimeout time.Duration
}

// limit names the field of a request that bounds the answer.
type limit string

// The names there are. OpenAI's newer models refuse the older one, most other servers know no other.
const (
	tokens           limit = "max_tokens"
	completionTokens limit = "max_completion_tokens"
)

// The times an Options left at zero means. A server may say nothing while it reads a long prompt, or
// while a model thinks in secret.
const (
	DefaultHeaderTimeout = 5 * time.Minute
	DefaultIdleTimeout   = 5 * time.Minute
)

const defaultBaseURL = "https://api.openai.com/v1"

// Model answers through the Chat Completions API.
type Model struct {
	endpoint exchange.Endpoint
	encoder  encoder
	key      exchange.Key
	patience exchange.Patience
}

// New makes a model. The environment is not looked at: what counts is in o.
func New(o Options) *Model {
	key := strings.TrimSpace(o.APIKey)
	if o.BaseURL == "" {
		o.BaseURL = defaultBaseURL
	}
	header := http.Header{"Accept": {"text/event-stream"}}
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	return &Model{
		endpoint: exchange.NewEndpoint(o.HTTP, o.BaseURL, "chat/completions", header),
		encoder:  encoder{limit: limitOf(o.BaseURL)},
		key:      exchange.NewKey(key, o.KeyEnv),
		patience: exchange.Patience{
			Header: cmp.Or(o.HeaderTimeout, DefaultHeaderTimeout), Idle: cmp.Or(o.IdleTimeout, DefaultIdleTimeout),
			Progress: cmp.Or(o.ProgressTimeout, exchange.DefaultProgress), Total: cmp.Or(o.CallTimeout, exchange.DefaultTotal),
		},
	}
}

// limitOf guesses by the host which name a server knows.
func limitOf(baseURL string) limit {
	u, err := url.Parse(baseURL)
	if err != nil {
		return tokens
	}
	host := "." + strings.ToLower(u.Hostname())
	if strings.HasSuffix(host, ".openai.com") || strings.HasSuffix(host, ".openai.azure.com") {
		return completionTokens
	}
	return tokens
}

// Provider is "openai".
func (m *Model) Provider() string { return "openai" }

// Stream makes one call.
func (m *Model) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if emit == nil {
		emit = func(llm.Delta) {}
	}
	c, err := m.newCall(ctx, req)
	if err != nil {
		return llm.Response{}, m.key.Error(badRequest(err))
	}
	defer c.end()
	a := &answer{emit: emit, came: c.watch.Came, start: time.Now(), model: req.Model}
	err = c.run(a)
	switch {
	case a.done && err == nil && !c.watch.Full():
		r := a.response(req.Messages)
		r.Limits = c.limits
		return r, nil
	case ctx.Err() != nil:
		return llm.Response{}, context.Cause(ctx)
	default:
		e := c.judge(err)
		if e.Limits = c.limits; a.began {
			e.Begun = &llm.Begun{Model: a.model, Usage: a.usage, Letters: c.watch.Letters()}
		}
		return llm.Response{}, m.key.Error(e)
	}
}
