package cli

import (
	"cmp"
	"context"
	"crypto/rand"

	"taskdaemon/internal/api"
)

// Tell hands words over once, even if the daemon dies under the call.
func (s *session) Tell(ctx context.Context, in api.Tell) (api.Told, error) {
	in.Key = cmp.Or(in.Key, rand.Text())
	return again(ctx, s, func() (api.Told, error) { return s.Client.Tell(ctx, in) })
}

// Query asks about a task, and again with the same key if the daemon dies under the call.
func (s *session) Query(ctx context.Context, ref string, in api.Query) (api.Answer, error) {
	in.Key = cmp.Or(in.Key, rand.Text())
	return known(ctx, s, ref, func() (api.Answer, error) { return s.Client.Query(ctx, ref, in) })
}
