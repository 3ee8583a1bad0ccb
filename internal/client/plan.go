package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/url"
	"slices"
	"strconv"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// InitPlan gives a project a graph.
func (c *Client) InitPlan(ctx context.Context, in api.InitPlan) (api.PlanPlace, error) {
	return post[api.PlanPlace](ctx, c, "/v1/plan", in)
}

// Plan adds tasks to a graph. Those without a key get one.
func (c *Client) Plan(ctx context.Context, in api.Plan) ([]api.Planned, error) {
	return post[[]api.Planned](ctx, c, "/v1/plan/tasks", WithKeys(in))
}

// WithKeys is the plan with a key for each task that has none, so that to add it again adds nothing.
func WithKeys(in api.Plan) api.Plan {
	in.Tasks = slices.Clone(in.Tasks)
	for i := range in.Tasks {
		if in.Tasks[i].Key == "" {
			in.Tasks[i].Key = rand.Text()
		}
	}
	return in
}

// Planned lists tasks of a graph.
func (c *Client) Planned(ctx context.Context, q api.PlanQuery) ([]api.Planned, error) {
	v := url.Values{}
	for name, word := range map[string]string{"dir": q.Dir, "in": q.In, "impact": q.Impact} {
		if word != "" {
			v.Set(name, word)
		}
	}
	for name, on := range map[string]bool{"ready": q.Ready, "tree": q.Tree, "path": q.Path} {
		if on {
			v.Set(name, "true")
		}
	}
	addList(v, "state", q.States)
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return get[[]api.Planned](ctx, c, "/v1/plan/tasks", v)
}

// PlannedTask finds one task of a graph.
func (c *Client) PlannedTask(ctx context.Context, dir, ref string) (api.Planned, error) {
	return withPlanned(ref, func(path string) (api.Planned, error) {
		return get[api.Planned](ctx, c, path, url.Values{"dir": {dir}})
	})
}

// ChangePlan changes one task of a graph. A change without a key gets one.
func (c *Client) ChangePlan(ctx context.Context, in api.ChangePlan) (api.Planned, error) {
	in.Key = cmp.Or(in.Key, rand.Text())
	return post[api.Planned](ctx, c, "/v1/plan/changes", in)
}

// PlanLog is what was changed of a task of a graph.
func (c *Client) PlanLog(ctx context.Context, dir, ref string) ([]api.PlanChanged, error) {
	return withPlanned(ref, func(path string) ([]api.PlanChanged, error) {
		return get[[]api.PlanChanged](ctx, c, path+"/log", url.Values{"dir": {dir}})
	})
}

// SyncPlan exchanges changes of a graph with others.
func (c *Client) SyncPlan(ctx context.Context, dir string) (api.PlanSynced, error) {
	return post[api.PlanSynced](ctx, c, "/v1/plan/sync", map[string]string{"dir": dir})
}

func withPlanned[T any](ref string, call func(path string) (T, error)) (T, error) {
	if ref == "" || ref == "." || ref == ".." {
		var zero T
		return zero, td.Errorf(td.NotFound, "no task is named %q", ref).WithHint("taskdaemon task list --plan")
	}
	return call("/v1/plan/tasks/" + url.PathEscape(ref))
}
