package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// prdRef names a PRD.
type prdRef struct {
	Dir string `json:"dir" doc:"A folder of the project."`
	Ref string `json:"ref"`
}

// registerPRDs adds the routes of PRDs.
func (s *server) registerPRDs(a huma.API) {
	huma.Register(a, post("create-prd", "/v1/prds", "Make a PRD, or find the one of that name and give it the documents that it lacks", maxCommand),
		func(ctx context.Context, in *struct{ Body api.CreatePRD }) (*body[api.PRD], error) {
			return answer(s.svc.CreatePRD(ctx, in.Body))
		})
	huma.Register(a, get("list-prds", "/v1/prds", "The PRDs of a project, without the texts of their documents"),
		func(ctx context.Context, in *struct {
			Dir string `query:"dir" required:"true" doc:"A folder of the project."`
		},
		) (*body[[]api.PRD], error) {
			return answer(s.svc.PRDs(ctx, in.Dir))
		})
	huma.Register(a, get("get-prd", "/v1/prds/{ref}", "One PRD, with its documents"),
		func(ctx context.Context, in *planByRef) (*body[api.PRD], error) {
			return answer(s.svc.PRD(ctx, in.Dir, in.Ref))
		})
	huma.Register(a, post("write-prd", "/v1/prds/documents", "Give a PRD a document", maxCommand),
		func(ctx context.Context, in *struct{ Body api.WritePRD }) (*body[api.PRD], error) {
			return answer(s.svc.WritePRD(ctx, in.Body))
		})
	huma.Register(a, post("delete-prd", "/v1/prds/delete", "Delete a PRD, its documents and all in it that has not ended", maxSmall),
		func(ctx context.Context, in *struct{ Body prdRef }) (*body[api.PRD], error) {
			return answer(s.svc.DeletePRD(ctx, in.Body.Dir, in.Body.Ref))
		})
	huma.Register(a, post("author-prd", "/v1/prds/authors", "Start the task that does a phase of a PRD, or find the one that does it already", maxTask),
		func(ctx context.Context, in *struct{ Body api.AuthorPRD }) (*body[td.Task], error) {
			return answer(s.svc.AuthorPRD(ctx, in.Body))
		})
}
