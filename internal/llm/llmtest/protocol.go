package llmtest

import (
	"encoding/json"
	"net/http"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/td"
)

// API is a protocol a server can speak.
type API int

// The protocols: that of the Claude API, which is the zero value, and Chat Completions.
const (
	Claude API = iota
	Chat
)

var protocols = map[API]protocol{Claude: claude{}, Chat: chat{}}

// protocol is what differs between APIs.
type protocol interface {
	// refuse judges a request by its path and headers; nil: it may go on.
	refuse(r *http.Request) *failure
	// count answers a request for a count of tokens, and reports false for any other.
	count(w http.ResponseWriter, r *http.Request, raw []byte) bool
	// read reads a request as strictly as the API does, so that a client that passes here has a chance there.
	read(raw []byte) (llm.Request, error)
	frames(p rehearsal.Play) []Frame
	fail(w http.ResponseWriter, f failure)
	// label names an answer.
	label(h http.Header, id string)
}

// failure is an HTTP error. Its type is one of the Claude API's.
type failure struct {
	status        int
	kind, message string
}

func answerJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

var statusTypes = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
	404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}

func typeOf(status int) string {
	if name, ok := statusTypes[status]; ok {
		return name
	}
	return "api_error"
}

// claude is the protocol of the Claude API.
type claude struct{}

func (claude) refuse(r *http.Request) *failure {
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/v1/messages" && r.URL.Path != countPath:
		return &failure{http.StatusNotFound, "not_found_error", "no such path: " + r.URL.Path}
	case r.Header.Get("X-Api-Key") == "":
		return &failure{http.StatusUnauthorized, "authentication_error", "x-api-key header is required"}
	case r.Header.Get("Anthropic-Version") == "":
		return &failure{http.StatusBadRequest, "invalid_request_error", "anthropic-version: header is required"}
	}
	return nil
}

const countPath = "/v1/messages/count_tokens"

func (c claude) count(w http.ResponseWriter, r *http.Request, raw []byte) bool {
	if r.URL.Path != countPath {
		return false
	}
	req, err := readCount(raw)
	if err != nil {
		c.fail(w, failure{http.StatusBadRequest, "invalid_request_error", err.Error()})
		return true
	}
	answerJSON(w, http.StatusOK, object{"input_tokens": rehearsal.Tokens(req)})
	return true
}

func (claude) read(raw []byte) (llm.Request, error) {
	r, messages, err := readRequest(raw)
	if err != nil {
		return llm.Request{}, err
	}
	return r.request(messages), nil
}

// request is what was read, as package llm has it.
func (r *apiRequest) request(messages []td.Message) llm.Request {
	req := llm.Request{Model: r.Model, Messages: messages}
	for _, b := range r.System {
		req.System += b.Text
	}
	for _, t := range r.Tools {
		req.Tools = append(req.Tools, llm.Tool{Name: t.Name, Description: t.Description, Schema: t.InputSchema})
	}
	return req
}

func (claude) frames(p rehearsal.Play) []Frame { return Frames(p) }

func (claude) fail(w http.ResponseWriter, f failure) {
	answerJSON(w, f.status, object{"type": "error", "error": object{"type": f.kind, "message": f.message}})
}

func (claude) label(h http.Header, id string) { h.Set("Request-Id", id) }
