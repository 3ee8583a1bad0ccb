package api

import "taskdaemon/internal/td"

// RunNext asks for the next task of a run over a graph. A run is a loop of such calls: each gives the task that is
// at work, or starts the one whose turn it is, or says why there is none.
type RunNext struct {
	Dir    string `json:"dir" doc:"A folder of the project."`
	Target string `json:"target,omitempty" doc:"Ref of the task or container to work on; all of the graph when empty."`
	Run    string `json:"run" doc:"Name of the run: what iterations of one run note belongs together."`
	Key    string `json:"key,omitempty" doc:"Idempotency key: the same key again starts nothing twice."`
	By     string `json:"by,omitempty"`

	Look bool `json:"look,omitempty" doc:"Only count the tasks, and start nothing."`

	Strategy td.ModelStrategy `json:"strategy,omitempty" doc:"Which class of model iterations get: fixed, cost-optimized, escalate or plan-then-execute."`
	Verify   bool             `json:"verify,omitempty" doc:"Another agent must find each task done."`
	Left     int              `json:"left,omitempty" doc:"Iterations that the run may still begin; 0: any number."`

	Model       string            `json:"model,omitempty" doc:"This very model, instead of those of the strategy."`
	Yes         bool              `json:"yes,omitempty" doc:"Grant permissions without asking."`
	Permissions td.PermissionMode `json:"permissions,omitempty"`
	Budget      td.Money          `json:"budget,omitempty" doc:"What each task may cost before a person is asked."`
	Rehearsal   string            `json:"rehearsal,omitempty" doc:"Script that is played instead of calling a model."`
}

// RunOutcome is why a run has no task to work on.
type RunOutcome string

// The outcomes that the graph decides; the others (failure, limit reached, interrupted) are the run's own.
const (
	RunComplete RunOutcome = "complete" // every task has ended
	RunBlocked  RunOutcome = "blocked"  // some have not, and none may run
	RunNoPlan   RunOutcome = "no_plan"  // there are no tasks
)

// RunStep is what a run does next.
type RunStep struct {
	Task    *td.Task   `json:"task,omitempty"`    // to be followed until it rests
	Started bool       `json:"started,omitempty"` // by this call; else it was at work already
	Outcome RunOutcome `json:"outcome,omitempty"` // set when there is no task

	Completed int `json:"completed"` // of the tasks that the run is about, containers apart
	Failed    int `json:"failed"`
	Open      int `json:"open"`
	// InTheWay are the first of the open tasks that cannot run, when that is the outcome.
	InTheWay []Planned `json:"in_the_way,omitempty"`
}
