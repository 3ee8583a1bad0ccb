package daemon

import (
	"context"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// InitPlan gives a project a graph.
func (d *Daemon) InitPlan(ctx context.Context, in api.InitPlan) (api.PlanPlace, error) {
	return api.PlanPlace{}, td.Errorf(td.Unavailable, "x")
}

// SyncPlan exchanges changes.
func (d *Daemon) SyncPlan(ctx context.Context, dir string) (api.PlanSynced, error) {
	return api.PlanSynced{}, td.Errorf(td.Unavailable, "x")
}
