package apitest

import (
	"context"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// Worktrees is what the test has put there.
func (f *Fake) Worktrees(_ context.Context, q api.WorktreeQuery) ([]api.Worktree, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := []api.Worktree{}
	var only td.TaskID
	if q.Ref != "" {
		t, err := f.resolve(q.Ref)
		if err != nil {
			return nil, err
		}
		only = t.ID
	}
	for _, w := range f.Trees {
		if (only == "" || w.Task == only) && (q.Dir == "" || w.Repo == q.Dir) {
			found = append(found, w)
		}
	}
	if q.Dir != "" && len(found) == 0 {
		return nil, td.Errorf(td.NotFound, "%s: not a git repository", q.Dir).WithHint("taskdaemon worktree list --all")
	}
	return found, nil
}

// PruneWorktrees removes those of tasks that have ended.
func (f *Fake) PruneWorktrees(ctx context.Context, in api.PruneWorktrees) ([]api.PrunedWorktree, error) {
	all, err := f.Worktrees(ctx, api.WorktreeQuery{Dir: in.Dir})
	if err != nil {
		return nil, err
	}
	out := []api.PrunedWorktree{}
	for _, w := range all {
		p := api.PrunedWorktree{Worktree: w}
		switch {
		case w.Condition != "good" || w.State != "" && !w.State.Terminal():
			continue
		case w.State == "" && !in.All:
			p.Left = "no task that is known here has it"
		case !w.Merged:
			p.KeptAs = "refs/taskdaemon/kept/" + w.Handle
		}
		out = append(out, p)
	}
	return out, nil
}

// RestoreWorktree finds the worktree of the task, and says that it is there again.
func (f *Fake) RestoreWorktree(ctx context.Context, ref string) (api.Worktree, error) {
	all, err := f.Worktrees(ctx, api.WorktreeQuery{Ref: ref})
	if err != nil {
		return api.Worktree{}, err
	}
	if len(all) == 0 {
		return api.Worktree{}, td.Errorf(td.Conflict, "%s has no worktree", ref).WithHint("taskdaemon task show %s", ref)
	}
	all[0].Condition = "good"
	return all[0], nil
}

// ResumeTrunk finds nothing that is paused: no trunk of the fake's is ever lost.
func (f *Fake) ResumeTrunk(ctx context.Context, in api.ResumeTrunk) (api.ResumedTrunk, error) {
	if _, err := f.Worktrees(ctx, api.WorktreeQuery{Dir: in.Dir}); err != nil {
		return api.ResumedTrunk{}, err
	}
	return api.ResumedTrunk{Tasks: []td.Task{}}, nil
}
