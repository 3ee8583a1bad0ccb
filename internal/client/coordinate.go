package client

import (
	"cmp"
	"context"
	"crypto/rand"

	"taskdaemon/internal/api"
)

// Tell hands words to loops. Without a key it makes one.
func (c *Client) Tell(ctx context.Context, in api.Tell) (api.Told, error) {
	in.Key = cmp.Or(in.Key, rand.Text())
	return post[api.Told](ctx, c, "/v1/messages", in)
}

// Query asks about a task. Without a key it makes one.
func (c *Client) Query(ctx context.Context, ref string, in api.Query) (api.Answer, error) {
	in.Key = cmp.Or(in.Key, rand.Text())
	return withRef(ref, func(path string) (api.Answer, error) { return post[api.Answer](ctx, c, path+"/query", in) })
}
