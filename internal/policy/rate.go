package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
)

// Rate limits how often tools may be called.
type Rate struct {
	Match string // glob over names of tools
	Limit int
	Per   time.Duration
}

// Check reports what is wrong with a rate: one with a bad pattern would limit nothing.
func (r Rate) Check() error {
	switch {
	case r.Match == "" || !doublestar.ValidatePattern(r.Match):
		return fmt.Errorf("%q is not a tool or a valid glob of tools", r.Match)
	case strings.ContainsAny(r.Match, "() "):
		return fmt.Errorf("%q: a rate counts calls of tools, whatever they are called with: write the name alone", r.Match)
	case r.Limit < 1 || r.Per <= 0:
		return fmt.Errorf("%d calls in %s is no rate", r.Limit, r.Per)
	}
	return nil
}

// Call is a call that was made.
type Call struct {
	Tool string
	At   time.Time
}

// Exceeded reports the rate that one more call of a tool would break, and how long to wait until it would
// not. Of several rates it is the one with the longest wait.
func Exceeded(rates []Rate, tool string, past []Call, now time.Time) (Rate, time.Duration, bool) {
	var worst Rate
	var longest time.Duration
	broken := false
	for _, r := range rates {
		if r.Per <= 0 || !doublestar.MatchUnvalidated(r.Match, tool) {
			continue
		}
		var within []time.Time
		for _, c := range past {
			if doublestar.MatchUnvalidated(r.Match, c.Tool) && c.At.After(now.Add(-r.Per)) {
				within = append(within, c.At)
			}
		}
		if len(within) < r.Limit {
			continue
		}
		wait := r.Per
		if r.Limit > 0 {
			slices.SortFunc(within, time.Time.Compare)
			wait = within[len(within)-r.Limit].Add(r.Per).Sub(now)
		}
		if !broken || wait > longest {
			worst, longest, broken = r, wait, true
		}
	}
	return worst, longest, broken
}
