// Package exchange is what the clients of models over HTTP have in common: the body of a request in parts,
// the watch over its answer, and the words for what can go wrong on the way. What differs between
// protocols, the encoding of a conversation and the reading of a stream, is theirs.
package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
)

// Limits of what is read of an answer.
const (
	MaxAnswer    = 64 << 20 // of a stream, before it counts as endless
	MaxEvent     = 8 << 20  // of one event
	MaxContent   = 4 << 20  // of text, thoughts and tool input in all: more than any model answers with
	MaxErrorBody = 64 << 10 // of an error's body
	MaxWords     = 1000     // of a provider's message that is shown
)

// DrainTime is how long to wait, after the answer is complete, for the end of the HTTP message: with it
// the connection can be used again.
const DrainTime = 250 * time.Millisecond

var (
	// ErrTooLong is an answer of more than MaxAnswer bytes.
	ErrTooLong = fmt.Errorf("the answer is longer than %d MiB", MaxAnswer>>20)
	// ErrEvent is an event of more than MaxEvent bytes.
	ErrEvent = fmt.Errorf("an event is longer than %d MiB", MaxEvent>>20)
	// ErrCut is a stream that ended before its answer did.
	ErrCut = errors.New("the stream broke off")
)

// Endless is the error of an answer beyond one of the bounds, or nil. It is no outage: the same model would mostly do it again.
func Endless(err error) *llm.Error {
	if !errors.Is(err, ErrTooLong) && !errors.Is(err, ErrEvent) && !errors.Is(err, errEndless) {
		return nil
	}
	return &llm.Error{Class: td.Endless, Err: err, Hint: "choose another model (/model), or ask for less at once; if base_url names a server of yours, look at what it sends"}
}

// Garbled is a stream that does not keep to its protocol.
type Garbled struct{ err error }

func (g *Garbled) Error() string { return "the stream is garbled: " + g.err.Error() }

// Garble makes a Garbled.
func Garble(format string, args ...any) error { return &Garbled{fmt.Errorf(format, args...)} }

// NewClient makes a client tuned for a thousand streams at once. It follows no redirects, since those
// would carry the key to another host.
func NewClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 1024,
			IdleConnTimeout:     90 * time.Second,
			TLSHandshakeTimeout: 15 * time.Second,
			DisableCompression:  true, // a compressed stream would be held back by the decoder
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// KeyEnv stands in hints for the name of the variable that holds the key.
const KeyEnv = "$KEY"

// Key is the key of a client as far as errors speak of it.
type Key struct {
	env      string
	redactor *redact.Redactor
}

// NewKey describes a key and the variable it is from, if that is known.
func NewKey(key, env string) Key {
	if env == "" {
		env = "the variable that api_key_env or key_envs names"
	}
	return Key{env: env, redactor: redact.New(key)}
}

// Error names the key's variable in the hint of e, and keeps the key itself out of e, whoever put it there.
func (k Key) Error(e *llm.Error) error {
	llm.Explain(e)
	e.Hint = k.redactor.String(strings.Replace(e.Hint, KeyEnv, k.env, 1))
	if said := e.Err.Error(); k.redactor.String(said) != said {
		e.Err = errors.New(k.redactor.String(said))
	}
	return e
}

// maxRetryAfter bounds what a server can ask for: nobody waits longer than a day.
const maxRetryAfter = 24 * time.Hour

// RetryAfter is how long the server wants us to wait: milliseconds, seconds, a date or, where it only says
// what of our share is used up, until there is some again.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	var wait float64 // seconds
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		wait = ms / 1000
	} else if s, err := strconv.ParseFloat(h.Get("Retry-After"), 64); err == nil {
		wait = s
	} else if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		wait = at.Sub(now).Seconds()
	} else {
		for _, share := range []string{"Requests", "Tokens"} {
			reset, err := time.ParseDuration(h.Get("X-Ratelimit-Reset-" + share))
			if err == nil && h.Get("X-Ratelimit-Remaining-"+share) == "0" {
				wait = max(wait, reset.Seconds())
			}
		}
	}
	if math.IsNaN(wait) || wait <= 0 {
		return 0
	}
	return time.Duration(min(wait, maxRetryAfter.Seconds()) * float64(time.Second))
}

// Said is what a server says instead of an answer, without the key: whoever shows it cuts it.
func (k Key) Said(res *http.Response) []byte {
	said := Said(res)
	if json.Valid(said) {
		return k.redactor.JSON(said)
	}
	return []byte(k.redactor.Piece(string(said), false, len(said) == MaxErrorBody))
}

// Short is the beginning of a stranger's words, on one line.
func Short(s string, limit int) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s[:min(len(s), 4*limit)], "\ufffd")), " ")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

// Word reports whether s can be a name or an id: printable, without spaces, and not too long.
func Word(s string) bool {
	if s == "" || len(s) > 256 {
		return false
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// Blank reports whether a text says nothing, which servers refuse.
func Blank(s string) bool { return strings.TrimSpace(s) == "" }
