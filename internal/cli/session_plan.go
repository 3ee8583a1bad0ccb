package cli

import (
	"cmp"
	"context"
	"crypto/rand"

	"taskdaemon/internal/api"
	"taskdaemon/internal/client"
)

// InitPlan gives a project a graph.
func (s *session) InitPlan(ctx context.Context, in api.InitPlan) (api.PlanPlace, error) {
	return again(ctx, s, func() (api.PlanPlace, error) { return s.Client.InitPlan(ctx, in) })
}

// Plan adds tasks to a graph once, even if the daemon dies under the call.
func (s *session) Plan(ctx context.Context, in api.Plan) ([]api.Planned, error) {
	in = client.WithKeys(in)
	return again(ctx, s, func() ([]api.Planned, error) { return s.Client.Plan(ctx, in) })
}

// Planned lists tasks of a graph.
func (s *session) Planned(ctx context.Context, q api.PlanQuery) ([]api.Planned, error) {
	return again(ctx, s, func() ([]api.Planned, error) { return s.Client.Planned(ctx, q) })
}

// PlannedTask finds one task of a graph.
func (s *session) PlannedTask(ctx context.Context, dir, ref string) (api.Planned, error) {
	return again(ctx, s, func() (api.Planned, error) { return s.Client.PlannedTask(ctx, dir, ref) })
}

// ChangePlan changes one task of a graph once, even if the daemon dies under the call.
func (s *session) ChangePlan(ctx context.Context, in api.ChangePlan) (api.Planned, error) {
	in.Key = cmp.Or(in.Key, rand.Text())
	return again(ctx, s, func() (api.Planned, error) { return s.Client.ChangePlan(ctx, in) })
}

// PlanLog is what was changed of a task of a graph.
func (s *session) PlanLog(ctx context.Context, dir, ref string) ([]api.PlanChanged, error) {
	return again(ctx, s, func() ([]api.PlanChanged, error) { return s.Client.PlanLog(ctx, dir, ref) })
}

// RunNext gives a run over a graph its next task, which is started once.
func (s *session) RunNext(ctx context.Context, in api.RunNext) (api.RunStep, error) {
	if in.Key == "" {
		in.Key = rand.Text()
	}
	return again(ctx, s, func() (api.RunStep, error) { return s.Client.RunNext(ctx, in) })
}

// SyncPlan exchanges changes of a graph with others.
func (s *session) SyncPlan(ctx context.Context, dir string) (api.PlanSynced, error) {
	return again(ctx, s, func() (api.PlanSynced, error) { return s.Client.SyncPlan(ctx, dir) })
}
