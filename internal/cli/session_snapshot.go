package cli

import (
	"context"
	"crypto/rand"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// Steps are the steps of a task that may have changed files.
func (s *session) Steps(ctx context.Context, ref string) (api.Steps, error) {
	return known(ctx, s, ref, func() (api.Steps, error) { return s.Client.Steps(ctx, ref) })
}

// Rewind takes a task back once, even if the daemon dies under the call.
func (s *session) Rewind(ctx context.Context, ref string, in api.Rewind) (api.Rewound, error) {
	if in.Key == "" {
		in.Key = rand.Text()
	}
	return known(ctx, s, ref, func() (api.Rewound, error) { return s.Client.Rewind(ctx, ref, in) })
}

// Fork adds a task once, even if the daemon dies under the call.
func (s *session) Fork(ctx context.Context, ref string, in api.Fork) (td.Task, error) {
	if in.Key == "" {
		in.Key = rand.Text()
	}
	return known(ctx, s, ref, func() (td.Task, error) { return s.Client.Fork(ctx, ref, in) })
}
