package td

import (
	"errors"
	"fmt"
)

// Kind says what sort of failure an error is. It is decided once, where the failure is first known.
type Kind string

// The kinds. The API maps each to a status and the command line to an exit code, in one file each.
const (
	NotFound    Kind = "not_found"
	Ambiguous   Kind = "ambiguous"
	Invalid     Kind = "invalid"     // the caller's input is wrong
	Conflict    Kind = "conflict"    // the thing is not in a state that allows this
	Fenced      Kind = "fenced"      // the claim was lost: stop, record nothing more
	Unknown     Kind = "unknown"     // the write's outcome is not known; calling again is safe
	Locked      Kind = "locked"      // another process holds it
	Busy        Kind = "busy"        // another task has what a step wants
	Storage     Kind = "storage"     // disk full, read-only, I/O error: nothing was written
	Corrupt     Kind = "corrupt"     // what is on disk cannot be trusted
	Newer       Kind = "newer"       // written by a newer version
	Unavailable Kind = "unavailable" // not there now, may be later
	Refused     Kind = "refused"     // not allowed
	Timeout     Kind = "timeout"
	Interrupted Kind = "interrupted" // the caller or a shutdown stopped it
	Auth        Kind = "auth"        // a key is missing or not accepted
	OverBudget  Kind = "over_budget" // it might cost more than a budget leaves; a Shortage says which
	Internal    Kind = "internal"
)

// Error is a failure with its kind and, for a person, what to type next.
type Error struct {
	Kind Kind
	Hint string
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error of kind without a hint.
func Errorf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, args...)}
}

// WithHint sets what a person should type next: see Typed.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = Typed(format, args...)
	return e
}

// KindOf is the kind decided at the bottom of err's chain, or Internal when nobody decided one.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// HintOf is the hint in err's chain, if any.
func HintOf(err error) string {
	for err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}

// IsKind reports whether err is of kind.
func IsKind(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }
