package transcript

import (
	"fmt"
	"strings"

	"taskdaemon/internal/td"
)

// Learning is what is known of one step by which the loop learns from its conversation, or says what was done in it.
type Learning struct {
	Intent  *td.Intent // the newest attempt's
	Outcome *td.Outcome
}

// learning is the part of the fold that learning needs: what was done of it after the newest answer, so
// that it is not done again when the end of the task is come to once more.
type learning map[td.StepKey]Learning

// LearnKey is the step that looks for learnings after the newest answer; those that keep one begin with it.
func (t *Transcript) LearnKey() td.StepKey {
	return td.StepKey(fmt.Sprintf("t%d%s", t.Turn, learnSuffix))
}

// EndKey is the step that asks what was done, when the newest answer ends the task and does not say.
func (t *Transcript) EndKey() td.StepKey {
	return td.StepKey(fmt.Sprintf("t%d%s", t.Turn, endSuffix))
}

const (
	learnSuffix = ".learn"
	endSuffix   = ".end"
)

// afterAnswer reports whether a step that asks the small model is one of those that follow the newest answer.
func afterAnswer(key td.StepKey) bool {
	return strings.HasSuffix(string(key), learnSuffix) || strings.HasSuffix(string(key), endSuffix)
}

// Learning is what is known of the step with this key.
func (t *Transcript) Learning(key td.StepKey) Learning { return t.learning[key] }

// apply folds what is about learning alone. The map is copied: an older copy of the fold keeps its own.
func (l *learning) apply(body td.Body) {
	switch b := body.(type) {
	case td.StepIntended:
		if b.Kind == td.LearnStep || b.Kind == td.SideStep && afterAnswer(b.Key) {
			in := b.Intent
			*l = with(*l, b.Key, Learning{Intent: &in})
		}
	case td.StepEnded:
		if known, is := (*l)[b.Key]; is {
			out := b.Outcome
			*l = with(*l, b.Key, Learning{known.Intent, &out})
		} else if b.Model != nil {
			*l = nil // a new turn, with keys of its own
		}
	}
}

// lines are those of a text that is a list.
func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}
