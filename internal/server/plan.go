package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// maxPlan bounds tasks that come in one call: a plan of thousands, each with its text.
const maxPlan = 64 << 20

type planQuery struct {
	Dir    string   `query:"dir" required:"true" doc:"A folder of the project."`
	In     string   `query:"in" doc:"Only what is in this task."`
	States []string `query:"state" doc:"Only tasks in one of these states."`
	Ready  bool     `query:"ready" doc:"Only what may run now."`
	Tree   bool     `query:"tree" doc:"Containers before what they hold."`
	Impact string   `query:"impact" doc:"Only what waits for this task."`
	Path   bool     `query:"path" doc:"Only the longest chain of tasks that wait for each other."`
	Limit  int      `query:"limit" minimum:"0" doc:"At most so many; 0 is all."`
}

func (q *planQuery) query() api.PlanQuery {
	return api.PlanQuery{
		Dir: q.Dir, In: q.In, States: words[td.State](q.States), Ready: q.Ready, Tree: q.Tree, Impact: q.Impact, Path: q.Path, Limit: q.Limit,
	}
}

type planByRef struct {
	Ref string `path:"ref" doc:"An id, a handle, or an unambiguous fragment of either."`
	Dir string `query:"dir" required:"true" doc:"A folder of the project."`
}

// planDir names a project.
type planDir struct {
	Dir string `json:"dir" doc:"A folder of the project."`
}

// registerPlan adds the routes of a project's graph.
func (s *server) registerPlan(a huma.API) {
	huma.Register(a, post("init-plan", "/v1/plan", "Give a project a graph of tasks; one that has one keeps it", maxSmall),
		func(ctx context.Context, in *struct{ Body api.InitPlan }) (*body[api.PlanPlace], error) {
			return answer(s.svc.InitPlan(ctx, in.Body))
		})
	huma.Register(a, post("plan", "/v1/plan/tasks", "Add tasks to a project's graph, all or none", maxPlan),
		func(ctx context.Context, in *struct{ Body api.Plan }) (*body[[]api.Planned], error) {
			return answer(s.svc.Plan(ctx, in.Body))
		})
	huma.Register(a, get("planned", "/v1/plan/tasks", "Tasks of a project's graph, in the order in which they would be taken"),
		func(ctx context.Context, in *planQuery) (*body[[]api.Planned], error) {
			return answer(s.svc.Planned(ctx, in.query()))
		})
	huma.Register(a, get("planned-task", "/v1/plan/tasks/{ref}", "One task of a project's graph"),
		func(ctx context.Context, in *planByRef) (*body[api.Planned], error) {
			return answer(s.svc.PlannedTask(ctx, in.Dir, in.Ref))
		})
	huma.Register(a, get("plan-log", "/v1/plan/tasks/{ref}/log", "What was changed of a task of a project's graph"),
		func(ctx context.Context, in *planByRef) (*body[[]api.PlanChanged], error) {
			return answer(s.svc.PlanLog(ctx, in.Dir, in.Ref))
		})
	huma.Register(a, post("change-plan", "/v1/plan/changes", "Change, close, open again or delete a task of a project's graph", maxCommand),
		func(ctx context.Context, in *struct{ Body api.ChangePlan }) (*body[api.Planned], error) {
			return answer(s.svc.ChangePlan(ctx, in.Body))
		})
	s.registerRuns(a)
	huma.Register(a, post("sync-plan", "/v1/plan/sync", "Exchange changes of a project's graph with those who share its repository", maxSmall),
		func(ctx context.Context, in *struct{ Body planDir }) (*body[api.PlanSynced], error) {
			return answer(s.svc.SyncPlan(ctx, in.Body.Dir))
		})
}
