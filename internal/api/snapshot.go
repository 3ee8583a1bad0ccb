package api

import (
	"context"
	"time"

	"taskdaemon/internal/td"
)

// Archivist knows what the workspaces of tasks held, step by step (B-1).
type Archivist interface {
	// Steps are the steps of a task that may have changed files, and what its workspace held after each.
	Steps(ctx context.Context, ref string) (Steps, error)
	// Rewind takes a task back to one of its steps, files and conversation, and leaves it paused. The wish is durable
	// when this returns; Done says whether it was carried out by then.
	Rewind(ctx context.Context, ref string, in Rewind) (Rewound, error)
	// Fork adds a task that goes on from a step of another one, in a worktree of its own.
	Fork(ctx context.Context, ref string, in Fork) (td.Task, error)
}

// Steps are those of a task that may have changed files.
type Steps struct {
	Task  td.Task `json:"task"`
	Ref   string  `json:"ref"` // that keeps the trees, in the workspace's repository
	Steps []Step  `json:"steps"`
}

// Step is one of them.
type Step struct {
	Step    td.StepKey `json:"step"`
	Tool    string     `json:"tool,omitempty"`  // none: what the workspace held before an answer was asked for
	Input   string     `json:"input,omitempty"` // the beginning of it
	At      time.Time  `json:"at"`
	Error   bool       `json:"error,omitempty"`   // it failed
	Cut     bool       `json:"cut,omitempty"`     // the conversation was taken back to before it
	Tree    string     `json:"tree,omitempty"`    // what the workspace held then; none: no snapshot was taken
	Commit  string     `json:"commit,omitempty"`  // that holds it
	Changed []string   `json:"changed,omitempty"` // since the snapshot before: A, M or D, and the name
	More    int        `json:"more,omitempty"`    // files that changed besides
}

// Rewind says where to.
type Rewind struct {
	Key string     `json:"key,omitempty"`
	To  td.StepKey `json:"to" doc:"A step of the task."`
	By  string     `json:"by,omitempty"`
}

// Rewound is what came of it.
type Rewound struct {
	Task td.Task    `json:"task"`
	To   td.StepKey `json:"to"`
	Tree string     `json:"tree"`
	Kept string     `json:"kept,omitempty"` // the commit that holds what the workspace held before
	// LeftOut are files that are too large for snapshots: the rewind has not touched them.
	LeftOut []string `json:"left_out,omitempty"`
	Done    bool     `json:"done"` // else it is carried out at the task's next safe point
}

// Fork says where from, and what is different.
type Fork struct {
	Key    string     `json:"key,omitempty" doc:"Idempotency key: the same key again returns the first task."`
	At     td.StepKey `json:"at" doc:"A step of the task that is forked."`
	Prompt string     `json:"prompt,omitempty" doc:"What to do from there on; as the task was when empty."`
	Model  string     `json:"model,omitempty" doc:"Another model or tier."`
	By     string     `json:"by,omitempty"`
}
