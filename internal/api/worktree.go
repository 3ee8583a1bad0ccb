package api

import (
	"context"

	"taskdaemon/internal/td"
)

// Forester is what can be asked about the worktrees that tasks work in. Dir is any folder of a repository.
type Forester interface {
	// Worktrees are those that match, with their branches and what was kept of those that were removed.
	Worktrees(ctx context.Context, q WorktreeQuery) ([]Worktree, error)
	// PruneWorktrees removes those of tasks that have ended. Nothing is lost: what is merged nowhere is kept first.
	PruneWorktrees(ctx context.Context, in PruneWorktrees) ([]PrunedWorktree, error)
	// RestoreWorktree brings the worktree of a task back that was removed.
	RestoreWorktree(ctx context.Context, ref string) (Worktree, error)
	// ResumeTrunk brings merged work that a trunk never had onto the trunk as it is now, and lets everything go on that was paused because it was deleted or lost history.
	ResumeTrunk(ctx context.Context, in ResumeTrunk) (ResumedTrunk, error)
}

// ResumeTrunk names a trunk whose tasks and runs are to go on.
type ResumeTrunk struct {
	Dir   string `json:"dir" doc:"A folder of the repository."`
	Trunk string `json:"trunk" doc:"Name of the branch."`
	By    string `json:"by,omitempty"`
}

// ResumedTrunk is what goes on.
type ResumedTrunk struct {
	Tasks []td.Task `json:"tasks"`
	Runs  []string  `json:"runs,omitempty"`
	// Work was merged before the trunk was rewritten, and has been brought onto it.
	Work []td.Unlanded `json:"work,omitempty" doc:"Merged work that was brought onto the branch after it was rewritten; reason says why the branch was not updated with it."`
}

// WorktreeQuery chooses worktrees: that of a task, those of a repository, or those of all that tasks were added in.
type WorktreeQuery struct {
	Ref string `json:"ref,omitempty"` // of a task
	Dir string `json:"dir,omitempty"`
}

// Worktree is what there is of the worktree of a task.
type Worktree struct {
	Repo      string    `json:"repo" doc:"The top folder of the project's own checkout."`
	Path      string    `json:"path,omitempty"`
	Condition string    `json:"condition" doc:"good; missing: nothing is there; foreign: something else is there."`
	Branch    string    `json:"branch,omitempty"`
	Head      string    `json:"head,omitempty" doc:"Where its branch is; none: there is no branch any more."`
	Into      string    `json:"into,omitempty" doc:"The integration branch that its work goes to."`
	Merged    bool      `json:"merged,omitempty" doc:"All that is on its branch is on one that stays, too."`
	Empty     bool      `json:"empty,omitempty" doc:"Nothing on its branch is the task's own."`
	Ahead     int       `json:"ahead,omitempty" doc:"Commits that the integration branch lacks."`
	Behind    int       `json:"behind,omitempty" doc:"Commits of the integration branch that it lacks."`
	Changed   int       `json:"changed,omitempty" doc:"Files that are not committed."`
	Size      int64     `json:"size,omitempty" doc:"What it takes on the disk, in bytes."`
	Locked    bool      `json:"locked,omitempty" doc:"Somebody does not want it to be removed."`
	Kept      []string  `json:"kept,omitempty" doc:"Refs that have what it held when it was removed."`
	Task      td.TaskID `json:"task,omitempty" doc:"None: no task is known that it is of."`
	Handle    string    `json:"handle,omitempty"`
	Title     string    `json:"title,omitempty"`
	State     td.State  `json:"state,omitempty"`
	Problem   string    `json:"problem,omitempty" doc:"Why it cannot be looked at."`
}

// PruneWorktrees says which worktrees are to be removed.
type PruneWorktrees struct {
	Dir    string `json:"dir" doc:"A folder of the repository."`
	All    bool   `json:"all,omitempty" doc:"Those of tasks that the daemon does not know as well, even if something in them is merged nowhere."`
	DryRun bool   `json:"dry_run,omitempty" doc:"Only say what would be done."`
}

// PrunedWorktree is what became of a worktree, or would.
type PrunedWorktree struct {
	Worktree
	KeptAs string `json:"kept_as,omitempty" doc:"The ref that has what was merged nowhere."`
	Left   string `json:"left,omitempty" doc:"Why it stays; none: it is gone."`
}
