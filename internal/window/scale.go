package window

import "taskdaemon/internal/td"

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

// Of corrects an estimate. What was counted is taken at the provider's word; what came on top of it
// is of a kind nobody has counted yet and is never taken for less than its estimate; less than what
// was counted is taken in proportion.
func (s Scale) Of(estimate int) int {
	switch {
	case s.Counted <= 0 || s.Estimated <= 0 || estimate <= 0:
		return max(estimate, 0)
	case estimate <= s.Estimated:
		return ceilDiv(estimate, s.Counted, s.Estimated)
	case s.Counted > s.Estimated:
		return ceilDiv(estimate, s.Counted, s.Estimated)
	default:
		return s.Counted + estimate - s.Estimated
	}
}

// back is the largest estimate that is corrected to no more than tokens.
func (s Scale) back(tokens int) int {
	switch {
	case s.Counted <= 0 || s.Estimated <= 0 || tokens <= 0:
		return max(tokens, 0)
	case tokens <= s.Counted || s.Counted > s.Estimated:
		return floorDiv(tokens, s.Estimated, s.Counted)
	default:
		return s.Estimated + tokens - s.Counted
	}
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
