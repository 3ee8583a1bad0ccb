package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/exchange"
	"taskdaemon/internal/td"
)

// apiError is what the API says went wrong, in a stream or in the body of an error.
type apiError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func (e *apiError) Error() string {
	if e.Type == "" {
		return e.Message
	}
	return e.Type + ": " + e.Message
}

// notAStream is an answer from something that does not speak the API.
type notAStream struct {
	status int
	kind   string
}

func (e *notAStream) Error() string {
	return fmt.Sprintf("the endpoint answered %d with %q instead of a stream", e.status, e.kind)
}

// judge says what a call comes to that did not end with a complete answer.
func (m *Model) judge(c *call, a *answer, err error) (llm.Response, error) {
	r, err := m.outcome(c, a, err)
	if e, ok := errors.AsType[*llm.Error](err); ok {
		if e.Limits = c.limits; a.began {
			e.Begun = &llm.Begun{Model: a.model, Usage: a.usage, Letters: c.watch.Letters()}
		}
		return llm.Response{}, e
	}
	r.Limits = c.limits
	return r, nil
}

func (m *Model) outcome(c *call, a *answer, err error) (llm.Response, error) {
	silence := c.watch.Silence()
	switch {
	case c.res != nil && c.res.StatusCode >= 400:
		return llm.Response{}, m.statusError(c.res, c.said)
	case silence != nil:
		return llm.Response{}, m.key.Error(silence)
	}
	if e, ok := errors.AsType[*apiError](err); ok {
		return llm.Response{}, m.key.Error(&llm.Error{Class: llm.ClassOfType(e.Type), Hint: hintOfType(e.Type), Err: e})
	}
	if e, ok := errors.AsType[*notAStream](err); ok {
		return llm.Response{}, m.key.Error(&llm.Error{
			Class: td.Network, Status: e.status, Err: e, Hint: "check base_url in the config: it must speak the Claude API",
		})
	}
	if e := exchange.Endless(err); e != nil {
		return llm.Response{}, m.key.Error(e)
	}
	if _, ok := errors.AsType[*exchange.Garbled](err); ok {
		return llm.Response{}, m.key.Error(&llm.Error{Class: td.Network, Err: err})
	}
	if c.res == nil {
		return llm.Response{}, m.key.Error(&llm.Error{
			Class: td.Network, Err: fmt.Errorf("reach the API: %w", err), Hint: "check the network, and base_url in the config",
		})
	}
	if r, ok := a.cut(); ok {
		return r, nil
	}
	if err == nil {
		err = exchange.ErrCut
	} else {
		err = fmt.Errorf("%w: %w", exchange.ErrCut, err)
	}
	return llm.Response{}, m.key.Error(&llm.Error{Class: td.Network, Err: err})
}

// badRequest is a request that cannot even be written down.
func (m *Model) badRequest(err error) error {
	return m.key.Error(&llm.Error{Class: td.BadRequest, Err: err})
}

// statusError is an HTTP error.
func (m *Model) statusError(res *http.Response, body []byte) error {
	said := readError(string(body), &apiError{Message: http.StatusText(res.StatusCode)})
	words := error(said)
	if id := res.Header.Get("Request-Id"); exchange.Word(id) {
		words = fmt.Errorf("%w (request %s)", said, id)
	}
	class, hint := llm.ClassOfStatus(res.StatusCode), hintOfStatus(res.StatusCode)
	if class == td.BadRequest && llm.TooLong(said.Message) {
		class, hint = td.TooLong, hintOfStatus(http.StatusRequestEntityTooLarge)
	}
	return m.key.Error(&llm.Error{
		Class:      class,
		Status:     res.StatusCode,
		RetryAfter: exchange.RetryAfter(res.Header, time.Now()),
		Hint:       hint,
		Err:        words,
	})
}

// readError finds the API's words in the body of an error, or shows the start of whatever it is.
func readError(body string, otherwise *apiError) *apiError {
	var envelope struct {
		Error apiError `json:"error"`
	}
	if json.Unmarshal([]byte(body), &envelope) == nil && envelope.Error.Message != "" {
		return &apiError{Type: exchange.Short(envelope.Error.Type, 100), Message: exchange.Short(envelope.Error.Message, exchange.MaxWords)}
	}
	if body = exchange.Short(body, 200); body != "" {
		return &apiError{Message: otherwise.Message + ": " + body}
	}
	return otherwise
}

func hintOfStatus(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "set " + exchange.KeyEnv + " to a valid key and start the daemon again"
	case http.StatusForbidden:
		return "this key may not use this model: check its permissions, or set models.<tier> in the config to one it may use"
	case http.StatusNotFound:
		return "the API does not know this model: set models.<tier> in the config, or check base_url"
	case http.StatusRequestEntityTooLarge:
		return "the conversation is too large for one request: start a new task with less in it"
	case http.StatusPaymentRequired:
		return "check the plan and the balance of the account the key belongs to"
	}
	return ""
}

func hintOfType(errorType string) string {
	switch errorType {
	case "authentication_error":
		return hintOfStatus(http.StatusUnauthorized)
	case "permission_error":
		return hintOfStatus(http.StatusForbidden)
	case "not_found_error":
		return hintOfStatus(http.StatusNotFound)
	case "request_too_large":
		return hintOfStatus(http.StatusRequestEntityTooLarge)
	case "billing_error":
		return hintOfStatus(http.StatusPaymentRequired)
	}
	return ""
}
