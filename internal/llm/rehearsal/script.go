// Package rehearsal plays a scripted agent in place of a model (P-5): with no key and no network the
// whole program can be seen at work, and workflows, policies and recovery can be tested for free.
//
// It never pretends to be a model: every answer carries the model name "rehearsal" or
// "rehearsal:<script>", and costs nothing. It keeps no state between calls. What it plays follows from
// the request alone (how many answers the conversation holds already, and the number of the attempt),
// so a script goes on where it was after any restart. docs/rehearsal.md describes the format.
package rehearsal

import (
	"encoding/json"
	"regexp"
	"time"

	"taskdaemon/internal/td"
)

// Script is a parsed script. It does not change after Parse.
type Script struct {
	name   string
	chunk  chunk
	scenes []scene // the first whose condition matches is played; the script's own turns come last
}

type scene struct {
	when  *regexp.Regexp // nil: always
	turns []turn
}

// turn is one answer, and the faults that come before it.
type turn struct {
	text     string
	thinking string
	tools    []toolCall
	stop     td.StopReason
	usage    *td.Usage
	latency  time.Duration
	chunk    *chunk
	repeat   int // how often it is played; forever: to the end of time
	expect   string
	faults   []Fault
}

const forever = -1

type toolCall struct {
	name  string
	id    string
	input json.RawMessage
}

// chunk is how text is dealt out.
type chunk struct {
	size  int // characters; zero: all at once, or a word or two when there is a latency
	delay time.Duration
}

// Fault is one thing that goes wrong. Exactly one field, besides RetryAfter, is set.
type Fault struct {
	Status     int           // of an HTTP answer that is no stream
	RetryAfter time.Duration // goes with Status
	Message    string        // likewise: what the provider says
	Type       string        // of an error inside the stream
	Cut        *int          // the stream ends after so many characters of text
	Garbage    bool          // the input of the tool calls is not JSON
	Silence    time.Duration // nothing comes for so long, then the call has failed
	Drip       time.Duration // signs of life come at this distance, and never an answer
	TooLong    int64         // a request of more tokens than this is over the window; a smaller one is answered
}

// Name is the script's name for itself, or nothing.
func (s *Script) Name() string { return s.name }

// model is the name answers carry.
func (s *Script) model() string {
	if s.name == "" {
		return "rehearsal"
	}
	return "rehearsal:" + s.name
}

// scene chooses what to play for a task that opens with these words.
func (s *Script) scene(opening string) *scene {
	for i := range s.scenes {
		if w := s.scenes[i].when; w == nil || w.MatchString(opening) {
			return &s.scenes[i]
		}
	}
	return nil
}

// turn is the n-th answer of the scene, counting repetitions; nil after the last.
func (s *scene) turn(n int) *turn {
	for i := range s.turns {
		t := &s.turns[i]
		if t.repeat == forever || n < t.repeat {
			return t
		}
		n -= t.repeat
	}
	return nil
}
