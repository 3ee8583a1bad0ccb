package td

import "time"

// State is where a task stands. Values are on disk: never rename, never reuse.
type State string

// The states of T-1.
const (
	Queued    State = "queued"    // may be picked up; a crash leaves it here
	Running   State = "running"   // one claim holds it; a crash leaves it to the rescuer
	Waiting   State = "waiting"   // a person must answer; holds no claim
	Blocked   State = "blocked"   // on a lease, a conflict, a workspace or a failed dependency
	Paused    State = "paused"    // a person or a limit stopped it; only a person resumes it
	Completed State = "completed" // the work is in
	Failed    State = "failed"
	Cancelled State = "cancelled"
	Abandoned State = "abandoned" // too old to recover
)

// States lists every state, in the order of a task's life.
var States = []State{Queued, Running, Waiting, Blocked, Paused, Completed, Failed, Cancelled, Abandoned}

// Terminal reports whether a task in this state has ended.
func (s State) Terminal() bool {
	return s == Completed || s == Failed || s == Cancelled || s == Abandoned
}

// Phase is what a running task is doing. Values are on disk.
type Phase string

// The phases of the native loop, then those of the assistant pipeline.
const (
	Initializing      Phase = "initializing"
	AssemblingContext Phase = "assembling_context"
	LLMRequest        Phase = "llm_request"
	ToolExecution     Phase = "tool_execution"
	Processing        Phase = "processing"
	Verifying         Phase = "verifying"
	Rebasing          Phase = "rebasing"
	Merging           Phase = "merging"

	Extract    Phase = "extract"
	Plan       Phase = "plan"
	Execute    Phase = "execute"
	Synthesize Phase = "synthesize"
	Egress     Phase = "egress"
)

// Status is a task's state with all that the state carries. The pointer of the state it is in is set,
// the others are nil; Queued carries nothing more.
type Status struct {
	State  State     `json:"state"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"` // why it is here, for people

	Running   *RunningData   `json:"running,omitempty"`
	Waiting   *WaitingData   `json:"waiting,omitempty"`
	Blocked   *BlockedData   `json:"blocked,omitempty"`
	Paused    *PausedData    `json:"paused,omitempty"`
	Completed *CompletedData `json:"completed,omitempty"`
	Failed    *FailedData    `json:"failed,omitempty"`
}

// RunningData is what a running task carries.
type RunningData struct {
	Run       RunID     `json:"run"`
	Phase     Phase     `json:"phase"`
	Step      string    `json:"step,omitempty"` // the model or tool at work
	StartedAt time.Time `json:"started_at"`
	Iteration int       `json:"iteration"`
}

// WaitingData is what a waiting task carries.
type WaitingData struct {
	Kind    RequestKind `json:"kind"`
	Request RequestID   `json:"request"`
	Prompt  string      `json:"prompt"`
	Options []string    `json:"options,omitempty"`
}

// BlockedData is what a blocked task carries.
type BlockedData struct {
	Cause    string `json:"cause"`
	Resource string `json:"resource,omitempty"`
	Holder   string `json:"holder,omitempty"`
	Child    TaskID `json:"child,omitempty"` // the subtask it waits for
	// Until is when it has waited for the subtask as long as it may; zero: there is no limit.
	Until time.Time `json:"until,omitzero"`
	// Budget is set when it waits for room in a budget.
	Budget *Shortage `json:"budget,omitempty"`
	// Wants is what it waits for when that is leases, and Step what wants them.
	Wants []Want  `json:"wants,omitempty"`
	Step  StepKey `json:"step,omitempty"`
	// Outage is set when no model answers.
	Outage *Outage `json:"outage,omitempty"`
}

// Outage is what a task rests for whose models do not answer (L-6), and when they are asked again.
type Outage struct {
	Since   time.Time     `json:"since"`          // of the first call that failed
	RetryAt time.Time     `json:"retry_at"`       // of the next call
	Wait    time.Duration `json:"wait"`           // from the beginning of this rest until then
	Rests   int           `json:"rests"`          // so far, with this one
	Rested  time.Duration `json:"rested"`         // in all of them
	Left    time.Duration `json:"left,omitempty"` // how much longer it may rest after this; none: the next failure ends the task
	Hint    string        `json:"hint,omitempty"` // what a person can do about it
}

// Due reports whether the models may be asked again. A clock that was set back to before the rest began does not prolong it.
func (o *Outage) Due(now time.Time) bool {
	return !now.Before(o.RetryAt) || now.Before(o.RetryAt.Add(-o.Wait))
}

// Passes reports whether the task goes on by itself when what it waits for comes: no person is needed.
func (b *BlockedData) Passes() bool {
	return b != nil && (b.Child != "" || len(b.Wants) > 0 || b.Outage != nil || b.Budget != nil && b.Budget.Passes())
}

// PausedData is what a paused task carries.
type PausedData struct {
	By          string `json:"by,omitempty"`
	ResumePoint State  `json:"resume_point"` // queued, or waiting when a request is still open
}

// Unasked reports whether nobody wanted the pause: a person has to hear of it.
func (p *PausedData) Unasked() bool { return p.By == ByTaskdaemon || p.By == ByTrunk }

// CompletedData is what a completed task carries.
type CompletedData struct {
	Summary    string    `json:"summary"`
	Iterations int       `json:"iterations"`
	Cost       Money     `json:"cost"`
	Evidence   *Evidence `json:"evidence,omitempty"`
}

// FailedData is what a failed task carries.
type FailedData struct {
	Error       string `json:"error"`
	Hint        string `json:"hint,omitempty"`
	Recoverable bool   `json:"recoverable"` // `task resume` may try again
	Retries     int    `json:"retries"`
}
