package cli

import (
	"context"

	"taskdaemon/internal/api"
)

// Worktrees lists worktrees.
func (s *session) Worktrees(ctx context.Context, q api.WorktreeQuery) ([]api.Worktree, error) {
	return again(ctx, s, func() ([]api.Worktree, error) { return s.Client.Worktrees(ctx, q) })
}

// PruneWorktrees removes worktrees. What the call that was lost removed, the next does not find any more.
func (s *session) PruneWorktrees(ctx context.Context, in api.PruneWorktrees) ([]api.PrunedWorktree, error) {
	return again(ctx, s, func() ([]api.PrunedWorktree, error) { return s.Client.PruneWorktrees(ctx, in) })
}

// RestoreWorktree brings a worktree back.
func (s *session) RestoreWorktree(ctx context.Context, ref string) (api.Worktree, error) {
	return known(ctx, s, ref, func() (api.Worktree, error) { return s.Client.RestoreWorktree(ctx, ref) })
}

// ResumeTrunk lets go on what a trunk's loss has paused. What the call that was lost resumed, the next does not find any more.
func (s *session) ResumeTrunk(ctx context.Context, in api.ResumeTrunk) (api.ResumedTrunk, error) {
	return again(ctx, s, func() (api.ResumedTrunk, error) { return s.Client.ResumeTrunk(ctx, in) })
}
