// Package llm is the contract between the loop and a model: one streamed call, its answer, and its
// failures sorted by what may be done about them (L-4 to L-6).
//
// A Model makes exactly one attempt. Retrying, waiting and recording are the loop's business, so that
// they are journaled. Implementations are safe for concurrent use.
package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"taskdaemon/internal/td"
)

// Model answers requests.
type Model interface {
	// Stream makes one call. Deltas reach emit, in order, as they arrive; emit must not block. The
	// error, if any, is an *Error, except that a cancelled ctx gives its cause.
	Stream(ctx context.Context, req Request, emit func(Delta)) (Response, error)

	// Provider names the implementation: "anthropic", "rehearsal".
	Provider() string
}

// Counter is a Model whose provider can say beforehand how many tokens a call has. Asking costs nothing and changes nothing.
type Counter interface {
	// Count is the number of tokens of the call's input. Any error means that it is not known: whoever asks does without.
	Count(ctx context.Context, req Request) (int, error)
}

// ErrNoCounter is the error of a Counter whose provider has none.
var ErrNoCounter = errors.New("the provider does not count tokens")

// Rehearsal is the provider, and in place of a model the name, of calls that reach no model.
const Rehearsal = "rehearsal"

// Request is one call.
type Request struct {
	Model     string
	System    string
	Tools     []Tool
	Messages  []td.Message
	MaxTokens int
	Thinking  int // budget in tokens; zero: off
	// Temperature is from 0 to 2; empty: the provider's own.
	Temperature json.Number

	// Attempt counts calls for the same answer, from 0. Only the rehearsal model looks at it.
	Attempt int
	// Answers is how many answers the conversation had before, also those it no longer holds; zero: count
	// the messages. Only the rehearsal model looks at it.
	Answers int
	// Script is the task's own rehearsal script. Only the rehearsal model looks at it.
	Script string
	// Wire keeps the encoded history between calls of one run; nil is allowed.
	Wire *Wire

	// What follows orders calls that wait for the API, and is sent to nobody.

	// Priority is the task's: 0 first, 4 last.
	Priority int
	// Since is how old the task is; of equals the older one goes first. Zero: since now.
	Since time.Time
	// Tokens estimates what the call takes of a minute's budget of tokens: the input that will not be
	// read from the provider's cache. Zero: nothing is set aside before the answer says what it was.
	Tokens int
}

// Tool is what a model is told of a tool.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

// DeltaKind says what a delta adds to.
type DeltaKind string

// The kinds of delta.
const (
	TextDelta     DeltaKind = "text"
	ThinkingDelta DeltaKind = "thinking"
	ToolDelta     DeltaKind = "tool" // a tool call has begun; Text is its name
)

// Delta is a piece of an answer on its way.
type Delta struct {
	Kind DeltaKind
	Text string
}

// Response is a complete answer, or what is left of a cut one.
type Response struct {
	Message    td.Message
	StopReason td.StopReason
	Model      string
	Usage      td.Usage
	FirstToken time.Duration
	// Cut: the stream broke off after whole text had come. The message holds that text and no tool
	// call; the loop keeps it and asks to go on.
	Cut bool
	// Replayed: the answer came from a cassette, and nobody is paid for it.
	Replayed bool
	// Limits is what the provider said of the rate limits; nil: nothing.
	Limits *Limits
}

// Error is a call that gave no answer.
type Error struct {
	Class      td.FailureClass
	Status     int
	RetryAfter time.Duration // what the provider asked for, or zero
	Hint       string        // what a person can do
	Limits     *Limits       // what the provider said of the rate limits; nil: nothing
	Begun      *Begun        // the answer that had begun, which is paid for; nil: none had
	Err        error
}

// Begun is what came of an answer before the call failed.
type Begun struct {
	Model   string
	Usage   td.Usage // as far as the provider had said
	Letters int      // bytes of content
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("model: %d: %v", e.Status, e.Err)
	}
	return fmt.Sprintf("model: %v", e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// ClassOfStatus sorts an HTTP status into its class.
func ClassOfStatus(status int) td.FailureClass {
	switch {
	case status == 429:
		return td.RateLimited
	case status == 529:
		return td.Overloaded
	case status == 401 || status == 402 || status == 403: // waiting pays no bill either
		return td.AuthFailed
	case status == 408 || status >= 500:
		return td.Network
	default:
		return td.BadRequest
	}
}

// TooLong reports whether a provider's words say that the conversation is over the model's window. There is no
// status for that, and only some have a code.
func TooLong(words string) bool {
	words = strings.ToLower(words)
	for _, sign := range []string{
		"prompt is too long", "exceed context limit", // Anthropic
		"maximum context length", "context_length_exceeded", "exceeds the context window", // OpenAI, vLLM, OpenRouter
		"exceed_context_size_error", "available context size", // llama.cpp
	} {
		if strings.Contains(words, sign) {
			return true
		}
	}
	return false
}

// ClassOfType sorts the type of an error that came inside a stream into its class. A type nobody knows
// counts as trouble on the way: it is tried again, a bounded number of times.
func ClassOfType(errorType string) td.FailureClass {
	switch errorType {
	case "overloaded_error":
		return td.Overloaded
	case "rate_limit_error":
		return td.RateLimited
	case "authentication_error", "permission_error", "billing_error":
		return td.AuthFailed
	case "invalid_request_error", "not_found_error", "request_too_large":
		return td.BadRequest
	default:
		return td.Network
	}
}
