// Package strategy says which class of model an iteration of a task gets. It is pure, and it goes by recorded
// outcomes alone, never by words in notes or answers: the same records choose the same class in any life of the daemon.
package strategy

import (
	"fmt"
	"slices"

	"taskdaemon/internal/td"
)

// Signals are the recorded facts that a choice is made by.
type Signals struct {
	Iteration int      // the one to begin, of this task, from 1
	Own       td.Tier  // the task's own class
	Tries     []td.Try // the task's iterations that came to nothing, oldest first
	Last      td.Tier  // what the iteration before got; empty: there is none
	Hint      td.Tier  // what the agent asked for at the end of it
	// Siblings are how tasks ended that the same run or plan worked on lately, newest first.
	Siblings []Outcome
}

// Outcome is how a task ended.
type Outcome struct {
	Clean  bool // completed, in its first iteration
	Failed bool // for good
}

// recent is how many siblings count: one that failed among them calls for the strongest model, and when all of them
// were clean the smallest will do.
const recent = 3

// ladder are the classes, weakest first.
var ladder = []td.Tier{td.Small, td.Worker, td.Expert}

// Choose says which class of model the iteration gets, and why, in a sentence. What the agent asked for overrides any
// strategy, for one iteration; a strategy that is not known is the usual one.
func Choose(s td.ModelStrategy, in Signals) (td.Tier, string) {
	if slices.Contains(ladder, in.Hint) {
		return in.Hint, fmt.Sprintf("The iteration before asked for %s.", in.Hint)
	}
	if n := len(in.Tries); n > 0 && in.Tries[n-1].Ending == td.EndedInterrupted && slices.Contains(ladder, in.Last) {
		return in.Last, "A person interrupted the iteration before, which says nothing of its model."
	}
	switch s {
	case td.Fixed:
		if slices.Contains(ladder, in.Own) {
			return in.Own, fmt.Sprintf("The task is for %s.", in.Own)
		}
		return td.Worker, "The task names no class of model."
	case td.Escalate:
		return escalate(in)
	case td.PlanThenExecute:
		if in.Iteration <= 1 {
			return td.Expert, "The first iteration makes the plan."
		}
		return td.Worker, "The plan is made."
	default:
		return costOptimized(in)
	}
}

// costOptimized takes the usual class. It takes the strongest when something went wrong lately, here or beside, and the
// smallest when nothing did.
func costOptimized(in Signals) (td.Tier, string) {
	near := in.Siblings[:min(recent, len(in.Siblings))]
	switch {
	case len(in.Tries) > 0:
		return td.Expert, "The iteration before came to nothing: " + inWords(in.Tries[len(in.Tries)-1].Ending) + "."
	case slices.ContainsFunc(near, func(o Outcome) bool { return o.Failed }):
		return td.Expert, "A task beside this one failed lately."
	case len(near) == recent && !slices.ContainsFunc(near, func(o Outcome) bool { return !o.Clean }):
		return td.Small, fmt.Sprintf("The last %d tasks were done at the first try.", recent)
	default:
		return td.Worker, "Nothing speaks for another class than the usual one."
	}
}

// escalate begins with the smallest and goes up as iterations come to nothing: one level each, and to the top where the
// agent gave up or the verifier refused a second time. Each iteration goes on from what the one before got, so that
// only a hint leads down.
func escalate(in Signals) (td.Tier, string) {
	if len(in.Tries) == 0 {
		return td.Small, "The task begins with the smallest."
	}
	end := in.Tries[len(in.Tries)-1].Ending
	why := "The iteration before came to nothing: " + inWords(end)
	level, top := max(0, slices.Index(ladder, in.Last)), len(ladder)-1
	switch {
	case level == top:
		return ladder[top], why + ", and there is no stronger one."
	case severe(end, in.Tries):
		return ladder[top], why + "."
	default:
		return ladder[level+1], why + "."
	}
}

// severe reports whether an ending, the newest of the tries, calls for the strongest model at once.
func severe(end td.Ending, tries []td.Try) bool {
	unverified := 0
	for _, t := range tries {
		if t.Ending == td.EndedUnverified {
			unverified++
		}
	}
	return end == td.EndedFailed || end == td.EndedGivenUp || end == td.EndedUnverified && unverified >= 2
}

// inWords says what an ending means.
func inWords(end td.Ending) string {
	switch end {
	case td.EndedFailed:
		return "the agent could not do it"
	case td.EndedGivenUp:
		return "the agent gave up"
	case td.EndedUnverified:
		return "the verifier did not let it pass"
	case td.EndedMistaken:
		return "the agent spoke of another task"
	default:
		return "the agent did not say whether it is done"
	}
}
