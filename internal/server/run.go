package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"taskdaemon/internal/api"
)

type runQuery struct {
	Dir   string `query:"dir" doc:"A folder of the project; of all projects when empty."`
	Run   string `query:"run" doc:"Name of a run, or an unambiguous fragment of it."`
	Open  bool   `query:"open" doc:"Only runs that have not ended."`
	Limit int    `query:"limit" minimum:"0" doc:"At most so many."`
}

// registerRuns registers what has to do with runs over graphs.
func (s *server) registerRuns(a huma.API) {
	huma.Register(a, post("start-run", "/v1/runs", "Have the daemon work through a project's graph; a run over the same tasks that is under way is given", maxTask),
		func(ctx context.Context, in *struct{ Body api.StartRun }) (*body[api.Run], error) {
			return answer(s.svc.StartRun(ctx, in.Body))
		})
	huma.Register(a, get("list-runs", "/v1/runs", "Runs over graphs, the newest first"),
		func(ctx context.Context, in *runQuery) (*body[[]api.Run], error) {
			return answer(s.svc.Runs(ctx, api.RunQuery(*in)))
		})
	huma.Register(a, post("stop-run", "/v1/runs/stop", "End a run over a graph before it is through; its tasks are let go of", maxSmall),
		func(ctx context.Context, in *struct{ Body api.StopRun }) (*body[api.Run], error) {
			return answer(s.svc.StopRun(ctx, in.Body))
		})
}
