package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/url"
	"strconv"

	"taskdaemon/internal/api"
)

// StartRun has the daemon work through a graph. A call without a key gets one.
func (c *Client) StartRun(ctx context.Context, in api.StartRun) (api.Run, error) {
	in.Key = cmp.Or(in.Key, rand.Text())
	return post[api.Run](ctx, c, "/v1/runs", in)
}

// Runs lists runs over graphs.
func (c *Client) Runs(ctx context.Context, q api.RunQuery) ([]api.Run, error) {
	v := url.Values{}
	for name, word := range map[string]string{"dir": q.Dir, "run": q.Run} {
		if word != "" {
			v.Set(name, word)
		}
	}
	if q.Open {
		v.Set("open", "true")
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return get[[]api.Run](ctx, c, "/v1/runs", v)
}

// StopRun ends a run over a graph before it is through.
func (c *Client) StopRun(ctx context.Context, in api.StopRun) (api.Run, error) {
	return post[api.Run](ctx, c, "/v1/runs/stop", in)
}
