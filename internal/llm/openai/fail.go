package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/exchange"
	"taskdaemon/internal/td"
)

var errNotAStream = errors.New("the answer is no stream")

// apiError is what a server says went wrong, in a stream or in the body of an error.
type apiError struct {
	kind    string // by OpenAI's words, "invalid_request_error"
	code    string // "insufficient_quota", or with other servers an HTTP status
	message string
}

func (e *apiError) Error() string {
	switch {
	case e.kind != "":
		return e.kind + ": " + e.message
	case e.code != "":
		return e.code + ": " + e.message
	default:
		return e.message
	}
}

// readError reads an error in one of the forms servers give it: an object with a message, or the message.
func readError(raw []byte) *apiError {
	var (
		e     apiError
		text  string
		parts struct {
			Message words           `json:"message"`
			Type    words           `json:"type"`
			Code    json.RawMessage `json:"code"`
		}
	)
	switch {
	case json.Unmarshal(raw, &text) == nil:
		e.message = text
	case json.Unmarshal(raw, &parts) == nil && (parts.Message != "" || parts.Type != ""):
		e.message, e.kind = string(parts.Message), string(parts.Type)
		if json.Unmarshal(parts.Code, &e.code) != nil && len(parts.Code) < 10 {
			e.code = string(parts.Code) // a number
		}
	default:
		e.message = string(raw)
	}
	e.message = exchange.Short(e.message, exchange.MaxWords)
	e.kind, e.code = exchange.Short(e.kind, 100), exchange.Short(e.code, 100)
	if e.message == "" {
		e.message = "the server does not say what"
	}
	return &e
}

// judge says what a call comes to that did not end with a complete answer.
func (c *call) judge(err error) *llm.Error {
	said, isSaid := errors.AsType[*apiError](err)
	silence := c.watch.Silence()
	_, isGarbled := errors.AsType[*exchange.Garbled](err)
	switch {
	case c.res != nil && c.res.StatusCode >= 400:
		return statusError(c.res, c.said)
	case silence != nil:
		return silence
	case isSaid:
		return said.failure()
	case errors.Is(err, errNotAStream):
		return notAStream(c.res, c.said)
	case exchange.Endless(err) != nil:
		return exchange.Endless(err)
	case isGarbled:
		return &llm.Error{Class: td.Network, Err: err}
	case c.res == nil:
		return &llm.Error{
			Class: td.Network, Err: fmt.Errorf("reach the API: %w", err), Hint: "check the network, and base_url in the config",
		}
	case err == nil:
		return &llm.Error{Class: td.Network, Err: exchange.ErrCut}
	default:
		return &llm.Error{Class: td.Network, Err: fmt.Errorf("%w: %w", exchange.ErrCut, err)}
	}
}

// badRequest is a request that cannot even be written down.
func badRequest(err error) *llm.Error { return &llm.Error{Class: td.BadRequest, Err: err} }

// statusError is an HTTP error.
func statusError(res *http.Response, body []byte) *llm.Error {
	said, ok := envelope(body)
	if !ok {
		said = &apiError{message: http.StatusText(res.StatusCode)}
		if text := exchange.Short(string(body), 200); text != "" {
			said.message += ": " + text
		}
	}
	e := &llm.Error{
		Class:      said.class(llm.ClassOfStatus(res.StatusCode)),
		Status:     res.StatusCode,
		RetryAfter: exchange.RetryAfter(res.Header, time.Now()),
		Hint:       said.hint(res.StatusCode),
		Err:        said,
	}
	if id := res.Header.Get("X-Request-Id"); exchange.Word(id) {
		e.Err = fmt.Errorf("%w (request %s)", said, id)
	}
	return e
}

// envelope finds a server's words in the body of an error: under "error", or bare as vLLM once wrote them.
func envelope(body []byte) (*apiError, bool) {
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Object  words           `json:"object"`
		Message words           `json:"message"`
	}
	switch {
	case json.Unmarshal(body, &outer) != nil:
		return nil, false
	case len(outer.Error) > 0 && !bytes.Equal(outer.Error, []byte("null")):
		return readError(outer.Error), true
	case outer.Message != "" || outer.Object == "error":
		return readError(body), true
	}
	return nil, false
}

// notAStream is an answer of something that does not speak the protocol, or of a server that puts an error
// into an answer that claims success.
func notAStream(res *http.Response, body []byte) *llm.Error {
	if said, ok := envelope(body); ok {
		return said.failure()
	}
	return &llm.Error{
		Class: td.Network, Status: res.StatusCode,
		Err:  fmt.Errorf("the endpoint answered %d with %.100q instead of a stream", res.StatusCode, res.Header.Get("Content-Type")),
		Hint: "check base_url in the config: it must speak the Chat Completions API and mostly ends in /v1",
	}
}

// failure is an error that came without an HTTP status of its own.
func (e *apiError) failure() *llm.Error {
	status := e.status()
	class := llm.ClassOfType(e.kind)
	if status != 0 {
		class = llm.ClassOfStatus(status)
	}
	return &llm.Error{Class: e.class(class), Hint: e.hint(status), Err: e}
}

// status is the HTTP status that a server gave as a code, or zero.
func (e *apiError) status() int {
	if n, err := strconv.Atoi(e.code); err == nil && n >= 400 && n < 600 {
		return n
	}
	return 0
}

// class corrects what status and type say by what is said more precisely.
func (e *apiError) class(otherwise td.FailureClass) td.FailureClass {
	switch {
	case e.is("insufficient_quota", "billing_hard_limit_reached"):
		return td.AuthFailed // waiting pays no bill
	case otherwise == td.BadRequest && e.tooLong():
		return td.TooLong
	case otherwise != td.Network:
		return otherwise
	case e.is("rate_limit_exceeded"):
		return td.RateLimited
	case e.is("invalid_api_key"):
		return td.AuthFailed
	case e.tooLong():
		return td.TooLong
	case e.is("model_not_found"):
		return td.BadRequest
	case strings.Contains(strings.ToLower(e.message), "overloaded"): // there is no status for it
		return td.Overloaded
	}
	return otherwise
}

func (e *apiError) tooLong() bool {
	return llm.TooLong(e.code) || llm.TooLong(e.kind) || llm.TooLong(e.message)
}

func (e *apiError) is(names ...string) bool {
	for _, n := range names {
		if e.code == n || e.kind == n {
			return true
		}
	}
	return false
}

func (e *apiError) hint(status int) string {
	switch {
	case status == http.StatusPaymentRequired, e.is("insufficient_quota", "billing_hard_limit_reached", "billing_error"):
		return "check the plan and the balance of the account the key belongs to"
	case status == http.StatusUnauthorized, e.is("invalid_api_key", "authentication_error"):
		return "set " + exchange.KeyEnv + " to a key that is valid for this base_url and start the daemon again"
	case status == http.StatusForbidden, e.is("permission_error"):
		return "this key may not use this model: check its permissions, or set models.<tier> in the config to one it may use"
	case status == http.StatusNotFound, e.is("model_not_found", "not_found_error"):
		return "the API does not know this model: set models.<tier> in the config, or check base_url"
	case status == http.StatusRequestEntityTooLarge, e.is("request_too_large"), e.tooLong():
		return "the conversation is too large for one request: start a new task with less in it"
	}
	return ""
}
