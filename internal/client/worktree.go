package client

import (
	"context"
	"net/url"

	"taskdaemon/internal/api"
)

// Worktrees lists the worktrees that match.
func (c *Client) Worktrees(ctx context.Context, q api.WorktreeQuery) ([]api.Worktree, error) {
	v := url.Values{}
	for name, value := range map[string]string{"ref": q.Ref, "dir": q.Dir} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return get[[]api.Worktree](ctx, c, "/v1/worktrees", v)
}

// PruneWorktrees removes the worktrees of tasks that have ended.
func (c *Client) PruneWorktrees(ctx context.Context, in api.PruneWorktrees) ([]api.PrunedWorktree, error) {
	return post[[]api.PrunedWorktree](ctx, c, "/v1/worktrees/prune", in)
}

// RestoreWorktree brings the worktree of a task back.
func (c *Client) RestoreWorktree(ctx context.Context, ref string) (api.Worktree, error) {
	return post[api.Worktree](ctx, c, "/v1/worktrees/restore", map[string]string{"ref": ref})
}

// ResumeTrunk lets go on what a trunk's loss has paused.
func (c *Client) ResumeTrunk(ctx context.Context, in api.ResumeTrunk) (api.ResumedTrunk, error) {
	return post[api.ResumedTrunk](ctx, c, "/v1/trunks/resume", in)
}
