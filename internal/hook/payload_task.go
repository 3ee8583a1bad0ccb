package hook

import "taskdaemon/internal/td"

// Asked is what a person asked for.
type Asked struct {
	Kind      td.TaskKind `json:"kind" doc:"task, spec or prd"`
	Prompt    string      `json:"prompt" doc:"what was asked for"`
	Mode      td.Mode     `json:"mode" doc:"autonomous or interactive"`
	Tier      td.Tier     `json:"tier" doc:"small, worker or expert"`
	Model     string      `json:"model,omitempty" doc:"the model, if one was named"`
	Priority  int         `json:"priority" doc:"0 first, 4 last"`
	Labels    []string    `json:"labels,omitempty" doc:"its labels"`
	Validator string      `json:"validator,omitempty" doc:"the command that must pass at the end"`
}

// AskedOf is what was asked for with a spec.
func AskedOf(s td.Spec) Asked {
	return Asked{
		Kind: s.Kind, Prompt: s.Prompt, Mode: s.Mode, Tier: s.Tier, Model: s.Model,
		Priority: s.Priority, Labels: s.Labels, Validator: s.Validator,
	}
}

// Done is who did something to a task, and why.
type Done struct {
	By    string `json:"by" doc:"who did it: a person's name, or the limit that was reached"`
	Cause string `json:"cause,omitempty" doc:"why, if it was said"`
}

// Spent is what a task has cost so far.
type Spent struct {
	Usage   td.Usage `json:"usage" doc:"tokens: input, output, cache_read, cache_write"`
	CostUSD float64  `json:"cost_usd" doc:"what they cost, in US dollars"`
}

// SpentOf is what a task has cost so far.
func SpentOf(t td.Task) Spent { return Spent{Usage: t.Usage, CostUSD: t.Cost.Dollars()} }

// TaskCreatedPayload is the payload of TaskCreated.
type TaskCreatedPayload struct {
	Head
	Asked
}

// TaskScheduledPayload is the payload of TaskScheduled.
type TaskScheduledPayload struct {
	Head
	Asked
	WaitedMS int64 `json:"waited_ms" doc:"how long it lay in the queue, in milliseconds"`
}

// TaskStartedPayload is the payload of TaskStarted.
type TaskStartedPayload struct {
	Head
	Asked
	Recovered bool `json:"recovered" doc:"whether an earlier run was cut off"`
}

// TaskPausedPayload is the payload of TaskPaused.
type TaskPausedPayload struct {
	Head
	Done
}

// TaskResumedPayload is the payload of TaskResumed.
type TaskResumedPayload struct {
	Head
	Done
}

// TaskCompletedPayload is the payload of TaskCompleted.
type TaskCompletedPayload struct {
	Head
	Summary string `json:"summary" doc:"what was done, in the agent's words"`
	Spent
}

// TaskFailedPayload is the payload of TaskFailed.
type TaskFailedPayload struct {
	Head
	Error       string `json:"error" doc:"what went wrong"`
	Hint        string `json:"hint,omitempty" doc:"what a person can do"`
	Recoverable bool   `json:"recoverable" doc:"whether a resume may help"`
	Spent
}

// TaskCancelledPayload is the payload of TaskCancelled.
type TaskCancelledPayload struct {
	Head
	Done
	Spent
}

// Point is TaskCreated.
func (TaskCreatedPayload) Point() Point { return TaskCreated }

// Point is TaskScheduled.
func (TaskScheduledPayload) Point() Point { return TaskScheduled }

// Point is TaskStarted.
func (TaskStartedPayload) Point() Point { return TaskStarted }

// Point is TaskPaused.
func (TaskPausedPayload) Point() Point { return TaskPaused }

// Point is TaskResumed.
func (TaskResumedPayload) Point() Point { return TaskResumed }

// Point is TaskCompleted.
func (TaskCompletedPayload) Point() Point { return TaskCompleted }

// Point is TaskFailed.
func (TaskFailedPayload) Point() Point { return TaskFailed }

// Point is TaskCancelled.
func (TaskCancelledPayload) Point() Point { return TaskCancelled }
