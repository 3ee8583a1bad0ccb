package server

import (
	"net/http"

	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/td"
)

// statuses maps every kind of failure to its HTTP status.
var statuses = map[td.Kind]int{
	td.NotFound:    http.StatusNotFound,
	td.Ambiguous:   http.StatusMultipleChoices,
	td.Invalid:     http.StatusUnprocessableEntity,
	td.Conflict:    http.StatusConflict,
	td.Fenced:      http.StatusConflict,
	td.Unknown:     http.StatusServiceUnavailable,
	td.Locked:      http.StatusLocked,
	td.Busy:        http.StatusConflict,
	td.Storage:     http.StatusInsufficientStorage,
	td.Corrupt:     http.StatusInternalServerError,
	td.Newer:       http.StatusInternalServerError,
	td.Unavailable: http.StatusServiceUnavailable,
	td.Refused:     http.StatusForbidden,
	td.Timeout:     http.StatusGatewayTimeout,
	td.Interrupted: http.StatusServiceUnavailable,
	td.Auth:        http.StatusUnauthorized,
	td.OverBudget:  http.StatusPaymentRequired,
	td.Internal:    http.StatusInternalServerError,
}

// failure is a wire.Error on its way out, with the status that goes with it. It spells the fields out,
// because it is itself an error and cannot embed a type of that name.
type failure struct {
	Kind    td.Kind `json:"kind" doc:"What sort of failure it is."`
	Message string  `json:"message" doc:"What went wrong, for a person."`
	Hint    string  `json:"hint,omitempty" doc:"What to type next."`
	status  int
}

func (f *failure) Error() string { return f.Message }

// GetStatus tells huma the status.
func (f *failure) GetStatus() int { return f.status }

func fail(err error) *failure {
	e := wire.ErrorOf(err)
	status, ok := statuses[e.Kind]
	if !ok {
		status = http.StatusInternalServerError
	}
	return &failure{e.Kind, e.Message, e.Hint, status}
}

// kindOfStatus is for failures that huma itself finds in a request.
func kindOfStatus(status int) td.Kind {
	switch {
	case status == http.StatusNotFound:
		return td.NotFound
	case status == http.StatusRequestTimeout:
		return td.Timeout
	case status < http.StatusInternalServerError:
		return td.Invalid
	default:
		return td.Internal
	}
}
