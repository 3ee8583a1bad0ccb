package client

import (
	"context"
	"net/url"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// CreatePRD makes a PRD, or finds it.
func (c *Client) CreatePRD(ctx context.Context, in api.CreatePRD) (api.PRD, error) {
	return post[api.PRD](ctx, c, "/v1/prds", in)
}

// PRDs lists the PRDs of a project.
func (c *Client) PRDs(ctx context.Context, dir string) ([]api.PRD, error) {
	return get[[]api.PRD](ctx, c, "/v1/prds", url.Values{"dir": {dir}})
}

// PRD finds one PRD.
func (c *Client) PRD(ctx context.Context, dir, ref string) (api.PRD, error) {
	if ref == "" || ref == "." || ref == ".." {
		return api.PRD{}, td.Errorf(td.NotFound, "no PRD is named %q", ref).WithHint("taskdaemon prd list")
	}
	return get[api.PRD](ctx, c, "/v1/prds/"+url.PathEscape(ref), url.Values{"dir": {dir}})
}

// WritePRD gives a PRD a document.
func (c *Client) WritePRD(ctx context.Context, in api.WritePRD) (api.PRD, error) {
	return post[api.PRD](ctx, c, "/v1/prds/documents", in)
}

// DeletePRD deletes a PRD.
func (c *Client) DeletePRD(ctx context.Context, dir, ref string) (api.PRD, error) {
	return post[api.PRD](ctx, c, "/v1/prds/delete", map[string]string{"dir": dir, "ref": ref})
}

// AuthorPRD starts the task that does a phase of a PRD, or finds it.
func (c *Client) AuthorPRD(ctx context.Context, in api.AuthorPRD) (td.Task, error) {
	return post[td.Task](ctx, c, "/v1/prds/authors", in)
}
