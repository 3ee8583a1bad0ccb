package api

import "taskdaemon/internal/td"

// StartRun is a run over the graph of a project that the daemon is to carry out: it starts what is ready, as many at
// once as are wanted, until there is an outcome, whoever watches.
type StartRun struct {
	Key    string `json:"key,omitempty" doc:"Idempotency key: the same key again starts nothing twice."`
	Dir    string `json:"dir" doc:"A folder of the project."`
	Target string `json:"target,omitempty" doc:"Ref of the task or container to work on; all of the graph when empty."`
	Run    string `json:"run,omitempty" doc:"Name of a run that was stopped, to go on with it; a new one gets its name when this is empty."`
	By     string `json:"by,omitempty"`

	Parallel int              `json:"parallel,omitempty" doc:"Tasks at work at once. When not given as many as limits.loops and limits.loops_per_project allow, or 1 where tasks have no worktrees of their own."`
	Limit    int              `json:"limit,omitempty" doc:"Iterations that may begin from now on; 0: any number."`
	Strategy td.ModelStrategy `json:"strategy,omitempty" doc:"Which class of model iterations get: fixed, cost-optimized, escalate or plan-then-execute."`
	Verify   bool             `json:"verify,omitempty" doc:"Another agent must find each task done."`

	Model       string            `json:"model,omitempty" doc:"This very model, instead of those of the strategy."`
	Yes         bool              `json:"yes,omitempty" doc:"Grant permissions without asking."`
	Permissions td.PermissionMode `json:"permissions,omitempty"`
	Budget      td.Money          `json:"budget,omitempty" doc:"What each task may cost before a person is asked."`
	TokenBudget td.Tokens         `json:"token_budget,omitempty" doc:"How many tokens each task may take before a person is asked."`
	Rehearsal   string            `json:"rehearsal,omitempty" doc:"Script that is played instead of calling a model."`
	InPlace     bool              `json:"in_place,omitempty" doc:"Work in the project's folder itself, and not in worktrees of it."`
	Force       bool              `json:"force,omitempty" doc:"Take also what another clone of the project has claimed."`
}

// Run is a run over a graph, and how it stands.
type Run struct {
	td.GraphRun
	Title string `json:"title,omitempty"` // of the task or container it is about
	// Attached says that the run was under way when it was to be started.
	Attached bool `json:"attached,omitempty"`
	// Cursor is a place in the journal: what the run started before it, and is at work, is in AtWork, and what it starts later
	// its tasks' records after that place tell.
	Cursor uint64 `json:"cursor"`
	// AtWork are tasks that were at work at that place, those of others that the run has to wait for among them.
	AtWork []td.Task `json:"at_work,omitempty"`
	// Later is why tasks that are ready could not be started at the last attempt. The daemon tries again by itself.
	Later []td.Obstacle `json:"later,omitempty" doc:"Why tasks that are ready could not be started at the last attempt. The daemon tries again by itself."`
	// Started are the tasks that it started since, in this call.
	Started []td.Task `json:"started,omitempty"`

	Completed  int `json:"completed"` // of the tasks that the run is about, containers apart
	Failed     int `json:"failed"`
	Cancelled  int `json:"cancelled,omitempty"` // by a person, which is no failure
	Remaining  int `json:"remaining"`           // that have not ended
	Iterations int `json:"iterations"`          // that it began
	// InTheWay are the first of the open tasks that cannot run now.
	InTheWay []Planned `json:"in_the_way,omitempty"`
}

// RunQuery chooses runs over graphs.
type RunQuery struct {
	Dir   string `json:"dir,omitempty"` // a folder of the project; empty: of all
	Run   string `json:"run,omitempty"` // name, or an unambiguous fragment of it
	Open  bool   `json:"open,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

// StopRun ends a run over a graph before it is through: it starts nothing more, and its tasks are let go of after what they
// are doing now.
type StopRun struct {
	Run string `json:"run" doc:"Name of the run, or an unambiguous fragment of it."`
	By  string `json:"by,omitempty"`
}
