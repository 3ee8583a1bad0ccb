package transcript

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/td"
)

// ModelCall is the state of the call for the next answer.
type ModelCall struct {
	Intent   *td.Intent        // in flight, or its newest attempt
	InFlight bool              // sent, no outcome recorded
	Failures []td.ModelFailure // of this call, oldest first
	Failing  time.Time         // since when
	// Outage is the newest rest that the task took because no model answered, and before is how many failures led to it.
	Outage *td.Outage
	before int
}

// Lately are the failures since the task last rested.
func (c *ModelCall) Lately() []td.ModelFailure { return c.Failures[c.before:] }

// moved keeps what a move says about the call.
func (c *ModelCall) moved(b td.Moved) {
	switch {
	case b.Verb == td.VerbReset || b.Verb == td.VerbResume: // a person wants another try, with all its attempts
		c.Failures, c.Failing, c.Outage, c.before = nil, time.Time{}, nil, 0
	case b.Status.Blocked != nil && b.Status.Blocked.Outage != nil:
		c.Outage, c.before = b.Status.Blocked.Outage, len(c.Failures)
	}
}

// moved keeps what a move says about calls. A task rests because of the summary if that failed since it last rested: the call for the
// answer is made only after it.
func (t *Transcript) moved(b td.Moved) {
	rests := b.Status.Blocked != nil && b.Status.Blocked.Outage != nil
	if forSummary := len(t.Summary.Lately()) > 0; !rests || forSummary {
		t.Summary.moved(b)
		if rests {
			return
		}
	}
	t.Model.moved(b)
}

// summed keeps what became of the call for a summary. What may pass is tried again; for the rest the next answer is awaited.
func (t *Transcript) summed(s td.SideResult) {
	last := func(f td.ModelFailure) bool { return f.RetryAt.IsZero() && f.Passes() }
	switch {
	case strings.TrimSpace(s.Text) != "":
		t.Summary = ModelCall{}
	case slices.ContainsFunc(s.Failures, last):
		t.Summary.Failures = append(slices.Clip(t.Summary.Failures), s.Failures...)
	default:
		t.NoSummary = cmp.Or(s.Error, "the answer was empty")
	}
}
