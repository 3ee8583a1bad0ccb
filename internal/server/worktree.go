package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"taskdaemon/internal/api"
)

// registerWorktrees adds the routes of worktrees.
func (s *server) registerWorktrees(a huma.API) {
	huma.Register(a, get("list-worktrees", "/v1/worktrees", "The worktrees that tasks work in, their branches, and what was kept of those that were removed"),
		func(ctx context.Context, in *struct {
			Ref string `query:"ref" doc:"Of this task alone: an id, a handle, or an unambiguous fragment of either."`
			Dir string `query:"dir" doc:"A folder of the repository; all repositories that tasks were added in when not given."`
		},
		) (*body[[]api.Worktree], error) {
			return answer(s.svc.Worktrees(ctx, api.WorktreeQuery{Ref: in.Ref, Dir: in.Dir}))
		})
	huma.Register(a, post("prune-worktrees", "/v1/worktrees/prune", "Remove the worktrees of tasks that have ended; what is merged nowhere is kept first", maxSmall),
		func(ctx context.Context, in *struct{ Body api.PruneWorktrees }) (*body[[]api.PrunedWorktree], error) {
			return answer(s.svc.PruneWorktrees(ctx, in.Body))
		})
	huma.Register(a, post("restore-worktree", "/v1/worktrees/restore", "Bring the worktree of a task back that was removed", maxSmall),
		func(ctx context.Context, in *struct {
			Body struct {
				Ref string `json:"ref" doc:"An id, a handle, or an unambiguous fragment of either."`
			}
		},
		) (*body[api.Worktree], error) {
			return answer(s.svc.RestoreWorktree(ctx, in.Body.Ref))
		})
	huma.Register(a, post("resume-trunk", "/v1/trunks/resume", "Let everything go on that was paused because a trunk was deleted or lost history", maxSmall),
		func(ctx context.Context, in *struct{ Body api.ResumeTrunk }) (*body[api.ResumedTrunk], error) {
			return answer(s.svc.ResumeTrunk(ctx, in.Body))
		})
}
