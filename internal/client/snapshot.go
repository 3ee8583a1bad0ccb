package client

import (
	"context"
	"crypto/rand"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// Steps are the steps of a task that may have changed files.
func (c *Client) Steps(ctx context.Context, ref string) (api.Steps, error) {
	return withRef(ref, func(path string) (api.Steps, error) {
		return get[api.Steps](ctx, c, path+"/steps", nil)
	})
}

// Rewind takes a task back to one of its steps. Without a key it makes one.
func (c *Client) Rewind(ctx context.Context, ref string, in api.Rewind) (api.Rewound, error) {
	if in.Key == "" {
		in.Key = rand.Text()
	}
	return withRef(ref, func(path string) (api.Rewound, error) {
		return post[api.Rewound](ctx, c, path+"/rewind", in)
	})
}

// Fork adds a task that goes on from a step of another one. Without a key it makes one.
func (c *Client) Fork(ctx context.Context, ref string, in api.Fork) (td.Task, error) {
	if in.Key == "" {
		in.Key = rand.Text()
	}
	return withRef(ref, func(path string) (td.Task, error) {
		return post[td.Task](ctx, c, path+"/fork", in)
	})
}
