package daemon

import (
	"context"

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
// repository and none can be made the task is refused: it would work among the person's own files (L-1).
func (d *Daemon) trunkFor(ctx context.Context, dir string, inPlace bool) (*git.Trunk, error) {
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
	if err := d.trunks.catchUp(ctx, trunk{t.Root, t.Branch}); err != nil && ctx.Err() == nil {
		d.o.Log.Warn("look at the trunk", "repo", t.Root, "branch", t.Branch, "err", err) // it is looked at again, with the task
	}
	return &t, nil
}

// apart gives the task a worktree, if there is a trunk that it is to begin from.
func (d *Daemon) apart(s td.Spec, t *git.Trunk, feature string) (td.Spec, error) {
	if t == nil {
		return s, nil
	}
	return worktree.For(*t, s, feature)
}
