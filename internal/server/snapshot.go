package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// registerSnapshots registers what is about the files that tasks' workspaces held.
func (s *server) registerSnapshots(a huma.API) {
	huma.Register(a, get("steps", "/v1/tasks/{ref}/steps", "The steps of a task that may have changed files, and what its workspace held after each"),
		func(ctx context.Context, in *byRef) (*body[api.Steps], error) {
			return answer(s.svc.Steps(ctx, in.Ref))
		})
	huma.Register(a, post("rewind", "/v1/tasks/{ref}/rewind", "Take a task back to one of its steps, files and conversation, and leave it paused", maxSmall),
		func(ctx context.Context, in *struct {
			Ref  string `path:"ref" doc:"An id, a handle, or an unambiguous fragment of either."`
			Body api.Rewind
		},
		) (*body[api.Rewound], error) {
			return answer(s.svc.Rewind(ctx, in.Ref, in.Body))
		})
	huma.Register(a, post("fork", "/v1/tasks/{ref}/fork", "Add a task that goes on from a step of another one, in a worktree of its own", maxCommand),
		func(ctx context.Context, in *struct {
			Ref  string `path:"ref" doc:"An id, a handle, or an unambiguous fragment of either."`
			Body api.Fork
		},
		) (*body[td.Task], error) {
			return answer(s.svc.Fork(ctx, in.Ref, in.Body))
		})
}
