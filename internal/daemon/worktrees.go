package daemon

import (
	"context"
	"maps"
	"slices"

	"taskdaemon/internal/config"
	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
	"taskdaemon/internal/worktree"
)

// worktrees is how tasks of a folder work.
func (d *Daemon) worktrees(dir string) config.Worktree { return d.o.Config.In(dir).Worktree }

// loopsIn is how many tasks of a project run at once; 0: any number.
func (d *Daemon) loopsIn(project string) int { return d.o.Config.In(project).Limits.LoopsPerProject }

// trunkFor is the trunk of the repository that a task is added in, if it is to have a worktree of its own. Where there is a
// repository and none can be made the task is refused: it would work among the person's own files (L-1). feature is the slug of the PRD that it is part of, or empty.
func (d *Daemon) trunkFor(ctx context.Context, dir string, inPlace bool, feature string) (*git.Trunk, error) {
	if inPlace || d.worktrees(dir).Use == config.WorktreeOff {
		return nil, nil //nolint:nilnil // it works in place
	}
	t, err := d.trees.Git.TrunkOf(ctx, dir)
	switch {
	case td.IsKind(err, td.NotFound):
		return nil, nil //nolint:nilnil // there is no repository
	case err != nil && td.HintOf(err) == "":
		return nil, td.Errorf(td.KindOf(err), "%w", err).WithHint("with --in-place it works in the folder itself")
	case err != nil:
		return nil, err
	}
	if t, err = d.trunkOfFeature(ctx, t, feature); err != nil {
		return nil, err
	}
	if feature != "" { // that of no feature is looked at with the trunk
		if err := d.trees.Git.Free(ctx, t.Root, git.IntoBranch(t.Branch, feature)); err != nil {
			return nil, err
		}
	}
	if err := d.trunks.catchUp(ctx, trunk{t.Root, t.Branch}); err != nil && ctx.Err() == nil {
		d.o.Log.Warn("look at the trunk", "repo", t.Root, "branch", t.Branch, "err", err) // it is looked at again, with the task
	}
	return &t, nil
}

// trunkOfFeature is the trunk that the next task of a feature works for: the one that its tasks began with, though the person is on another branch by now, unless that has all
// that they did. A task would not see the work of those that it waited for, and no branch would ever have both.
func (d *Daemon) trunkOfFeature(ctx context.Context, on git.Trunk, feature string) (git.Trunk, error) {
	if feature == "" {
		return on, nil
	}
	of, err := d.trees.Git.TrunksOf(ctx, on.Root, feature)
	if err != nil || of[on.Branch] != "" {
		return on, err
	}
	for _, branch := range slices.Sorted(maps.Keys(of)) {
		at, err := d.trees.Git.RefAt(ctx, on.Root, "refs/heads/"+branch)
		if err != nil {
			return on, err
		}
		if at == "" {
			continue // that trunk is gone
		}
		if in, err := d.trees.Git.IsAncestor(ctx, on.Root, of[branch], on.Commit); err != nil {
			return on, err
		} else if !in {
			d.o.Log.Info("a feature goes on for the branch that it began with", "feature", feature, "branch", branch, "checked_out", on.Branch)
			return git.Trunk{Root: on.Root, Branch: branch, Commit: at}, nil
		}
	}
	return on, nil
}

// apart gives the task a worktree, if there is a trunk that it is to begin from.
func (d *Daemon) apart(s td.Spec, t *git.Trunk, feature string) (td.Spec, error) {
	if t == nil {
		return s, nil
	}
	return worktree.For(*t, s, feature)
}
