package client

import (
	"context"

	"taskdaemon/internal/td"
)

// Locks are what tasks have leased, and who waits for it.
func (c *Client) Locks(ctx context.Context) (td.Locks, error) {
	return get[td.Locks](ctx, c, "/v1/locks", nil)
}
