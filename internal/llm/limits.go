package llm

import (
	"strconv"
	"strings"
	"time"
)

// Limits is what a provider says, in the headers of an answer, of the rate limits of the key that was used.
type Limits struct {
	Requests Limit
	Tokens   Limit // input and output together, or whichever of them is nearest to its end
	Input    Limit // tokens sent
	Output   Limit // tokens answered
	At       time.Time
}

// Limit is one rate limit at the time Limits.At. The zero value is one of which nothing is known.
type Limit struct {
	Max       int64 // at once
	Remaining int64 // of Max
	Reset     time.Time
}

// Known reports whether the provider said anything of this limit.
func (l Limit) Known() bool { return l.Max > 0 }

const (
	// maxLimit is more than any limit there is: what is over it is a mistake.
	maxLimit = 1e12
	// maxReset is how far away the end of a limit's window can be.
	maxReset = 24 * time.Hour
)

// ParseLimit reads one limit from the values of its headers. A reset is a date by RFC 3339, a duration as
// in "1m30s", or a number of seconds; one that has passed is now. Values that make no sense together, or
// are missing, give the zero Limit: advice that may be wrong is worse than none, since calls would wait
// for it. Only the reset may be missing.
func ParseLimit(limit, remaining, reset string, now time.Time) Limit {
	most, err := strconv.ParseInt(strings.TrimSpace(limit), 10, 64)
	if err != nil || most <= 0 || most > maxLimit {
		return Limit{}
	}
	left, err := strconv.ParseInt(strings.TrimSpace(remaining), 10, 64)
	if err != nil || left < 0 || left > most {
		return Limit{}
	}
	l := Limit{Max: most, Remaining: left}
	if reset = strings.TrimSpace(reset); reset == "" {
		return l
	}
	away, ok := parseReset(reset, now)
	if !ok || away > maxReset {
		return Limit{}
	}
	l.Reset = now.Add(max(away, 0))
	return l
}

// parseReset is how far away a reset is. A date long ago is one of a clock that is wrong.
func parseReset(s string, now time.Time) (time.Duration, bool) {
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		away := at.Sub(now)
		return away, away > -maxReset
	}
	if d, err := time.ParseDuration(s); err == nil {
		return d, d >= 0
	}
	if seconds, err := strconv.ParseFloat(s, 64); err == nil && seconds >= 0 && seconds <= maxReset.Seconds() {
		return time.Duration(seconds * float64(time.Second)), true
	}
	return 0, false
}

// Any is l when at least one limit is known, else nil.
func (l Limits) Any() *Limits {
	if l.Requests.Known() || l.Tokens.Known() || l.Input.Known() || l.Output.Known() {
		return &l
	}
	return nil
}
