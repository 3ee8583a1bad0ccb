package td

import "slices"

// LearningKind says what a learning is. Values are on disk: never rename, never reuse.
type LearningKind string

// The kinds.
const (
	KindLearning LearningKind = "learning" // something that was found out; it may be wrong
	KindDecision LearningKind = "decision" // something that was settled: later work keeps to it
)

// LearningKinds are all kinds, the usual one first.
var LearningKinds = []LearningKind{KindLearning, KindDecision}

// LearningKindOf reads a kind; none is the usual one.
func LearningKindOf(s string) (LearningKind, error) {
	k := LearningKind(s)
	if s == "" {
		return KindLearning, nil
	}
	if !slices.Contains(LearningKinds, k) {
		return "", Errorf(Invalid, "a learning is a learning or a decision, not %q", s)
	}
	return k, nil
}
