package policy

import (
	"slices"
	"time"

	"github.com/bmatcuk/doublestar/v4"
)

// Rate limits how often tools may be called.
type Rate struct {
	Match string // glob over names of tools
	Limit int
	Per   time.Duration
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
