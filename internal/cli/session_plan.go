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

// StartRun starts a run over a graph once, even if the daemon dies under the call.
func (s *session) StartRun(ctx context.Context, in api.StartRun) (api.Run, error) {
	in.Key = cmp.Or(in.Key, rand.Text())
	return again(ctx, s, func() (api.Run, error) { return s.Client.StartRun(ctx, in) })
}

// Runs lists runs over graphs.
func (s *session) Runs(ctx context.Context, q api.RunQuery) ([]api.Run, error) {
	return again(ctx, s, func() ([]api.Run, error) { return s.Client.Runs(ctx, q) })
}

// StopRun ends a run over a graph before it is through.
func (s *session) StopRun(ctx context.Context, in api.StopRun) (api.Run, error) {
	return again(ctx, s, func() (api.Run, error) { return s.Client.StopRun(ctx, in) })
}

// SyncPlan exchanges changes of a graph with others.
func (s *session) SyncPlan(ctx context.Context, dir string) (api.PlanSynced, error) {
	return again(ctx, s, func() (api.PlanSynced, error) { return s.Client.SyncPlan(ctx, dir) })
}
