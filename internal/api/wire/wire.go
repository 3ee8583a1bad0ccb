// Package wire is what client and server must agree on beside the types of api: the names of headers
// and of stream events, the form of an error, and how to address a socket whose path is too long for
// the kernel.
package wire

import (
	"errors"

	"taskdaemon/internal/td"
)

// Headers on every answer: what kind of daemon gave it.
const (
	HeaderProvider = "Taskdaemon-Provider" // of the model: "anthropic", "rehearsal"
	HeaderVersion  = "Taskdaemon-Version"
	HeaderPid      = "Taskdaemon-Pid"
)

// The events of the stream at /v1/events.
const (
	StreamEvent = "event" // journaled; its id is the cursor to go on from
	StreamLive  = "live"  // on its way, without an id
	StreamError = "error" // the last one: an Error
	StreamEnd   = "end"   // the last one: there is no more
)

// Error is a failure on the wire.
type Error struct {
	Kind    td.Kind `json:"kind" doc:"What sort of failure it is."`
	Message string  `json:"message" doc:"What went wrong, for a person."`
	Hint    string  `json:"hint,omitempty" doc:"What to type next."`
}

// ErrorOf puts err on the wire.
func ErrorOf(err error) Error {
	return Error{Kind: td.KindOf(err), Message: err.Error(), Hint: td.HintOf(err)}
}

// Err takes the failure off the wire.
func (e Error) Err() error {
	if e.Kind == "" {
		e.Kind = td.Internal
	}
	return &td.Error{Kind: e.Kind, Hint: e.Hint, Err: errors.New(e.Message)}
}
