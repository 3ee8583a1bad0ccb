package td

import (
	"slices"
	"time"
)

// ModelStrategy says which class of model each iteration of a task gets. Values are on disk.
type ModelStrategy string

// The strategies.
const (
	Fixed           ModelStrategy = "fixed"             // the task's own
	CostOptimized   ModelStrategy = "cost-optimized"    // the cheapest that recent outcomes speak for
	Escalate        ModelStrategy = "escalate"          // from the smallest up, as iterations come to nothing
	PlanThenExecute ModelStrategy = "plan-then-execute" // the strongest first, then the usual one
)

// ModelStrategies lists them, the usual one first.
var ModelStrategies = []ModelStrategy{CostOptimized, Fixed, Escalate, PlanThenExecute}

// Order is what a run over the graph wants of a task that it started.
type Order struct {
	Run      string        `json:"run"` // its name: what iterations of one run note belongs together
	Strategy ModelStrategy `json:"strategy,omitempty"`
	Verify   bool          `json:"verify,omitempty"` // another agent must find the work done
	// Until is the number of the last iteration that may begin; 0: as many as the config allows.
	Until int `json:"until,omitempty"`
	// Since is since when a task rested, or had ended, that is given to the run. If anything moved it meanwhile, that stands.
	Since time.Time `json:"since,omitzero"`
	// Asks is what is asked for otherwise than when the task was created.
	Asks *Asks `json:"asks,omitempty"`
	// Onto is what was merged since the task rested: its branch is brought onto that first.
	Onto string `json:"onto,omitempty"`
}

// Asks is what has changed of what a task is asked for, by hand or by other flags, before a run takes it up again. What is
// nil is as it was.
type Asks struct {
	Title       *string         `json:"title,omitempty"`
	Prompt      *string         `json:"prompt,omitempty"`
	Validator   *string         `json:"validator,omitempty"`
	Tier        *Tier           `json:"tier,omitempty"`
	Model       *string         `json:"model,omitempty"`
	Yes         *bool           `json:"yes,omitempty"`
	Permissions *PermissionMode `json:"permissions,omitempty"`
	Budget      *Money          `json:"budget,omitempty"`
	Rehearsal   *string         `json:"rehearsal,omitempty"`
}

// AskedAnew is how what is asked for now differs from what the task was created with; nil: not at all.
func (t Task) AskedAnew(now Spec) *Asks {
	var a Asks
	if t.Ordered != nil && t.Ordered.Asks != nil {
		a = *t.Ordered.Asks // what the task says by now is by these
	}
	note(&a.Title, t.Title, now.Title)
	note(&a.Prompt, t.Prompt, now.Prompt)
	note(&a.Validator, t.Validator, now.Validator)
	note(&a.Tier, t.Tier, now.Tier)
	note(&a.Model, t.Spec.Model, now.Model)
	note(&a.Yes, t.Yes, now.Yes)
	note(&a.Permissions, t.Permissions, now.Permissions)
	note(&a.Budget, t.Budget, now.Budget)
	note(&a.Rehearsal, t.Rehearsal, now.Rehearsal)
	if a == (Asks{}) {
		return nil
	}
	return &a
}

func note[T comparable](in **T, was, is T) {
	if was != is {
		*in = &is
	}
}

// Renewed is the task with what its newest order asks for in the place of what it was created with. Whoever puts a task together
// from what is stored of it calls this.
func (t Task) Renewed() Task {
	if t.Ordered == nil || t.Ordered.Asks == nil {
		return t
	}
	a := t.Ordered.Asks
	renew(&t.Title, a.Title)
	renew(&t.Prompt, a.Prompt)
	renew(&t.Validator, a.Validator)
	renew(&t.Tier, a.Tier)
	renew(&t.Spec.Model, a.Model)
	renew(&t.Yes, a.Yes)
	renew(&t.Permissions, a.Permissions)
	renew(&t.Budget, a.Budget)
	renew(&t.Rehearsal, a.Rehearsal)
	return t
}

func renew[T any](field *T, by *T) {
	if by != nil {
		*field = *by
	}
}

// ByRun is who pauses a task on behalf of a run over the graph: the next run takes it up again.
const ByRun = "run"

// ByForecast is who pauses a task that would conflict with another, and lets it go on when that has ended.
const ByForecast = "forecast"

// ByTrunk is who pauses a task whose trunk was deleted or lost history.
const ByTrunk = "trunk"

// Ending is what an iteration came to. Values are on disk.
type Ending string

// The endings.
const (
	EndedCompleted  Ending = "completed"
	EndedFailed     Ending = "failed"     // the agent says that it cannot be done
	EndedUnverified Ending = "unverified" // the agent says it is done, the verifier does not
	EndedUnclear    Ending = "unclear"    // the agent ended its turn and did not say which
	EndedMistaken   Ending = "mistaken"   // the agent spoke of another task
	EndedGivenUp    Ending = "given_up"   // the agent says that there is no use in going on with any task
	// EndedInterrupted is one that a person stopped with words for the next: it speaks neither for nor against the agent.
	EndedInterrupted Ending = "interrupted"
)

// Try is what is kept of an iteration that came to nothing.
type Try struct {
	Iteration int    `json:"iteration"`
	Ending    Ending `json:"ending"`
	Reason    string `json:"reason,omitempty"`
	Tier      Tier   `json:"tier,omitempty"`
}

// maxTries is how many are kept, the newest: strategies look no further back.
const maxTries = 10

// maxReason bounds the reason that is kept of each, in characters.
const maxReason = 2000

func (t *Task) iterationEnded(b IterationEnded) {
	t.Hint = b.Hint
	if b.Ending == EndedUnverified {
		t.Unverified++
	}
	if b.Ending == EndedCompleted {
		return
	}
	if b.Ending == EndedInterrupted { // the conversation that asked and called is over
		t.Requests, t.InFlight, t.Retrying = nil, nil, nil
	}
	reason := b.Reason
	if r := []rune(reason); len(r) > maxReason {
		reason = string(r[:maxReason]) + "…"
	}
	tries := append(slices.Clone(t.Tries), Try{b.Iteration, b.Ending, reason, b.Tier})
	t.Tries = tries[max(0, len(tries)-maxTries):]
}

// GivenUp reports whether the newest iteration ended because the agent saw no use in going on.
func (t Task) GivenUp() bool {
	n := len(t.Tries)
	return n > 0 && t.Tries[n-1].Ending == EndedGivenUp && t.Tries[n-1].Iteration == max(t.Iteration, 1)
}

// StartOver ends an iteration that came to nothing and queues the task for the next one, which begins with a fresh
// context. A retry never goes through failed (T-5).
func StartOver(t Task, end IterationEnded, at time.Time) (Move, error) {
	m, err := move(t, VerbRetry, Status{State: Queued}, end.Reason, at)
	if err != nil {
		return Move{}, err
	}
	m.Events = append([]Event{{Task: t.ID, At: at, Body: end}}, m.Events...)
	return m, nil
}
