package cli

import (
	"context"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// CreatePRD makes a PRD once, even if the daemon dies under the call: its name is the key.
func (s *session) CreatePRD(ctx context.Context, in api.CreatePRD) (api.PRD, error) {
	return again(ctx, s, func() (api.PRD, error) { return s.Client.CreatePRD(ctx, in) })
}

// PRDs lists the PRDs of a project.
func (s *session) PRDs(ctx context.Context, dir string) ([]api.PRD, error) {
	return again(ctx, s, func() ([]api.PRD, error) { return s.Client.PRDs(ctx, dir) })
}

// PRD finds one PRD.
func (s *session) PRD(ctx context.Context, dir, ref string) (api.PRD, error) {
	return again(ctx, s, func() (api.PRD, error) { return s.Client.PRD(ctx, dir, ref) })
}

// WritePRD gives a PRD a document.
func (s *session) WritePRD(ctx context.Context, in api.WritePRD) (api.PRD, error) {
	return again(ctx, s, func() (api.PRD, error) { return s.Client.WritePRD(ctx, in) })
}

// DeletePRD deletes a PRD. One that was deleted by the call that was lost is not found by the next.
func (s *session) DeletePRD(ctx context.Context, dir, ref string) (api.PRD, error) {
	return again(ctx, s, func() (api.PRD, error) { return s.Client.DeletePRD(ctx, dir, ref) })
}

// AuthorPRD starts an author once, even if the daemon dies under the call.
func (s *session) AuthorPRD(ctx context.Context, in api.AuthorPRD) (td.Task, error) {
	return again(ctx, s, func() (td.Task, error) { return s.Client.AuthorPRD(ctx, in) })
}
