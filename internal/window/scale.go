package window

import (
	"math"

	"taskdaemon/internal/td"
)

// A scale outside these bounds is a count that cannot be true: one without what was read from a cache, or
// of another call. It counts as the nearest bound.
const (
	minScale = 0.4
	maxScale = 4.0
)

// Scale corrects estimates by what a provider counted for a call whose estimate is known. The zero Scale
// corrects nothing. A scale holds for the model it was taken from.
type Scale struct {
	Counted   int `json:"counted"`   // by the provider
	Estimated int `json:"estimated"` // for the same call
	// Rate is how many tokens the model's provider lately counted for an estimated one, in any conversation. What
	// this conversation has no count for is corrected by it. Zero: not known, an estimate counts in full.
	Rate float64 `json:"rate,omitempty"`
}

// Calibrate is the scale that follows from the usage of a call that was estimated at so many tokens. A
// provider that counted nothing gives none.
func Calibrate(u td.Usage, estimated int) Scale {
	counted := max(u.Input, 0) + max(u.CacheRead, 0) + max(u.CacheWrite, 0)
	if counted <= 0 || estimated <= 0 {
		return Scale{}
	}
	low, high := int64(float64(estimated)*minScale)+1, int64(float64(estimated)*maxScale)
	return Scale{Counted: int(min(max(counted, low), high)), Estimated: estimated}
}

// RateOf is what a call teaches of a model: tokens that were counted for an estimated one. It is zero if the call is too small to
// tell, or the count cannot be true.
func RateOf(u td.Usage, estimated int) float64 {
	counted := max(u.Input, 0) + max(u.CacheRead, 0) + max(u.CacheWrite, 0)
	if rate := float64(counted) / float64(max(estimated, 1)); estimated >= leastTelling && rate >= minScale && rate <= maxScale {
		return rate
	}
	return 0
}

// leastTelling is how many estimated tokens a call must have to say something about others: what a provider adds to every call
// weighs too much in smaller ones.
const leastTelling = 2000

// Of corrects an estimate. What was counted is taken at the provider's word, and less than that in proportion. What came on top of it
// counts at the rate of the model; where none is known it is never taken for less than its estimate.
func (s Scale) Of(estimate int) int {
	switch {
	case estimate <= 0:
		return 0
	case s.Counted > 0 && s.Estimated > 0 && estimate <= s.Estimated:
		return ceilDiv(estimate, s.Counted, s.Estimated)
	}
	counted, on := s.base()
	return counted + int(min(math.Ceil(float64(estimate-on)*s.rate()), 1<<53))
}

// back is the largest estimate that is corrected to no more than tokens.
func (s Scale) back(tokens int) int {
	counted, on := s.base()
	switch {
	case tokens <= 0:
		return 0
	case tokens <= counted:
		return floorDiv(tokens, s.Estimated, s.Counted)
	}
	n := on + int(min(float64(tokens-counted)/s.rate(), 1<<53))
	for s.Of(n) > tokens { // what floating point rounds away is one at most
		n--
	}
	for n < 1<<53 && s.Of(n+1) <= tokens {
		n++
	}
	return n
}

// base is the count, and the estimate it belongs to; zero if there is none.
func (s Scale) base() (counted, estimated int) {
	if s.Counted <= 0 || s.Estimated <= 0 {
		return 0, 0
	}
	return s.Counted, s.Estimated
}

// rate is what an estimated token counts that was in no count.
func (s Scale) rate() float64 {
	rate := 1.0
	if s.Rate > 0 {
		rate = min(max(s.Rate, minScale), maxScale)
	}
	if counted, estimated := s.base(); counted > estimated {
		rate = max(rate, float64(counted)/float64(estimated))
	}
	return rate
}

// SurelyFits reports whether a call is within the limit whatever the provider counts.
func SurelyFits(estimate, limit int) bool { return float64(estimate)*maxScale <= float64(limit) }

// Unsure reports whether an estimate does not tell on which side of the limit a call is: by the most it may come to it is over the
// limit, and by the least it is not. Then it is worth asking the provider.
func (s Scale) Unsure(estimate, limit int) bool {
	most := s
	most.Rate = max(s.Rate, 1)
	return estimate != s.Estimated && most.Of(estimate) > limit && s.least(estimate) <= limit
}

// least is what an estimate may come to at least.
func (s Scale) least(estimate int) int {
	s.Rate = minScale
	return s.Of(estimate)
}

// ceilDiv is n*num/den rounded up, floorDiv rounded down. Floating point is exact far beyond any window and,
// unlike whole numbers, does not wrap around on absurd ones.
func ceilDiv(n, num, den int) int {
	f := floorDiv(n, num, den)
	if float64(f)*float64(den) < float64(n)*float64(num) {
		f++
	}
	return f
}

func floorDiv(n, num, den int) int {
	return int(min(float64(n)*float64(num)/float64(den), 1<<53))
}
