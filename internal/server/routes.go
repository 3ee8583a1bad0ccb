package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// The largest bodies that are read: a task may bring a long prompt and a rehearsal script.
const (
	maxTask    = 16 << 20
	maxCommand = 4 << 20
	maxSmall   = 64 << 10
)

// body is an answer of one value.
type body[T any] struct{ Body T }

type byRef struct {
	Ref string `path:"ref" doc:"An id, a handle, or an unambiguous fragment of either."`
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	a := humago.New(mux, s.config())
	huma.Register(a, get("status", "/v1/status", "The daemon at a glance"),
		func(ctx context.Context, _ *struct{}) (*body[api.Status], error) {
			return answer(s.svc.Status(ctx))
		})
	huma.Register(a, post("add-task", "/v1/tasks", "Add a task; the same key again returns the first one", maxTask),
		func(ctx context.Context, in *struct{ Body api.AddTask }) (*body[td.Task], error) {
			return answer(s.svc.AddTask(ctx, in.Body))
		})
	huma.Register(a, get("list-tasks", "/v1/tasks", "Tasks, by priority and then age"),
		func(ctx context.Context, in *taskQuery) (*body[[]td.Task], error) {
			return answer(s.svc.Tasks(ctx, in.query()))
		})
	huma.Register(a, get("get-task", "/v1/tasks/{ref}", "One task with everything it carries"),
		func(ctx context.Context, in *byRef) (*body[td.Task], error) {
			return answer(s.svc.Task(ctx, in.Ref))
		})
	huma.Register(a, post("command", "/v1/tasks/{ref}/commands", "Hand a person's wish to a task; durable when this returns", maxCommand),
		func(ctx context.Context, in *struct {
			Ref  string `path:"ref" doc:"An id, a handle, or an unambiguous fragment of either; also of an open request."`
			Body api.Command
		},
		) (*body[td.Task], error) {
			return answer(s.svc.Command(ctx, in.Ref, in.Body))
		})
	huma.Register(a, post("query", "/v1/tasks/{ref}/query", "Ask about a task without disturbing it", maxSmall),
		func(ctx context.Context, in *struct {
			Ref  string `path:"ref" doc:"An id, a handle, or an unambiguous fragment of either."`
			Body api.Query
		},
		) (*body[api.Answer], error) {
			return answer(s.svc.Query(ctx, in.Ref, in.Body))
		})
	huma.Register(a, post("tell", "/v1/messages", "Hand words to loops: to those named, or to all of a project that listen", maxCommand),
		func(ctx context.Context, in *struct{ Body api.Tell }) (*body[api.Told], error) {
			return answer(s.svc.Tell(ctx, in.Body))
		})
	huma.Register(a, get("history", "/v1/tasks/{ref}/history", "The conversation of a task, with its records"),
		func(ctx context.Context, in *byRef) (*body[api.History], error) {
			return answer(s.svc.History(ctx, in.Ref))
		})
	huma.Register(a, get("context", "/v1/tasks/{ref}/context", "What the model is told in the task's next call, part by part"),
		func(ctx context.Context, in *byRef) (*body[api.Context], error) {
			return answer(s.svc.Context(ctx, in.Ref))
		})
	huma.Register(a, post("checkpoint", "/v1/tasks/{ref}/checkpoint", "Bring the mirrors of a task up to date and say where it stands", maxSmall),
		func(ctx context.Context, in *byRef) (*body[api.Checkpoint], error) {
			return answer(s.svc.Checkpoint(ctx, in.Ref))
		})
	huma.Register(a, get("mcp-servers", "/v1/mcp", "What is known of each server of tools; none of them is asked"),
		func(ctx context.Context, _ *struct{}) (*body[[]api.MCPServer], error) {
			return answer(s.svc.MCPServers(ctx))
		})
	huma.Register(a, post("mcp-test", "/v1/mcp/{name}/test", "Start a server of tools if it is not up, and ask for its tools", maxSmall),
		func(ctx context.Context, in *struct {
			Name string `path:"name" doc:"As the config names it."`
		},
		) (*body[api.MCPServer], error) {
			return answer(s.svc.TestMCPServer(ctx, in.Name))
		})
	huma.Register(a, get("cost", "/v1/cost", "What calls of models cost, broken down, and how the budgets stand"),
		func(ctx context.Context, in *struct {
			By    string    `query:"by" enum:"task,model,day,cause" doc:"How it is broken down; by task when not given."`
			Since time.Time `query:"since" doc:"From the day of this time on."`
		},
		) (*body[api.Cost], error) {
			return answer(s.svc.Cost(ctx, api.CostQuery{By: api.CostBy(in.By), Since: in.Since}))
		})
	huma.Register(a, post("raise-budget", "/v1/budgets", "Let more be spent in this day or month; tasks that wait for it go on", maxSmall),
		func(ctx context.Context, in *struct{ Body api.RaiseBudget }) (*body[td.Balance], error) {
			return answer(s.svc.RaiseBudget(ctx, in.Body))
		})
	huma.Register(a, get("stats", "/v1/stats", "What loops did in a time, and how long it took"),
		func(ctx context.Context, in *struct {
			Since time.Time `query:"since" doc:"From this time on; all that the journal has when not given."`
		},
		) (*body[api.Stats], error) {
			return answer(s.svc.Stats(ctx, api.StatsQuery{Since: in.Since}))
		})
	huma.Register(a, get("locks", "/v1/locks", "What tasks have leased, and who waits for it"),
		func(ctx context.Context, _ *struct{}) (*body[td.Locks], error) {
			return answer(s.svc.Locks(ctx))
		})
	huma.Register(a, get("recovery", "/v1/recovery", "What the last start found and did"),
		func(ctx context.Context, _ *struct{}) (*body[td.Report], error) {
			return answer(s.svc.Recovery(ctx))
		})
	huma.Register(a, post("doctor", "/v1/doctor", "Prove that journal, mirrors and processes agree", maxSmall),
		func(ctx context.Context, in *struct{ Body api.DoctorRequest }) (*body[api.Diagnosis], error) {
			return answer(s.svc.Doctor(ctx, in.Body))
		})
	huma.Register(a, post("stop", "/v1/stop", "Ask the daemon to stop in good order", maxSmall),
		func(ctx context.Context, _ *struct{}) (*struct{}, error) {
			if err := s.svc.Stop(ctx); err != nil {
				return nil, fail(err)
			}
			return nil, nil
		})
	s.registerPlan(a)
	s.registerPRDs(a)
	s.registerSnapshots(a)
	s.registerWorktrees(a)
	s.registerEvents(a, get("events", "/v1/events", "Events as a stream (SSE), resumable by id"))
	return mux
}

// get is an operation that changes nothing.
func get(id, path, summary string) huma.Operation {
	return huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Errors: documented}
}

// post is an operation that may, with a body of at most limit bytes.
func post(id, path, summary string, limit int64) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: http.MethodPost, Path: path, Summary: summary,
		MaxBodyBytes: limit, BodyReadTimeout: -1, Errors: documented, // the body was read before: see screen
	}
}

func answer[T any](v T, err error) (*body[T], error) {
	if err != nil {
		return nil, fail(err)
	}
	return &body[T]{v}, nil
}

type taskQuery struct {
	States []string `query:"state" doc:"Only tasks in one of these states."`
	Dir    string   `query:"dir" doc:"Only tasks of this workspace."`
	Limit  int      `query:"limit" minimum:"0" doc:"At most so many; 0 is all."`
}

func (q *taskQuery) query() api.TaskQuery {
	return api.TaskQuery{States: words[td.State](q.States), Dir: q.Dir, Limit: q.Limit}
}

func words[T ~string](in []string) []T {
	var out []T
	for _, w := range in {
		out = append(out, T(w))
	}
	return out
}

// documented are the statuses every operation may answer with.
var documented = []int{300, 403, 404, 409, 422, 423, 500, 503, 504, 507}

// ownErrors makes failures that huma finds look like all others. It is a variable of huma's package,
// so it is set once.
var ownErrors = sync.OnceFunc(func() {
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		if len(errs) > 0 {
			parts := make([]string, 0, len(errs))
			for _, err := range errs {
				if err != nil {
					parts = append(parts, err.Error())
				}
			}
			msg += ": " + strings.Join(parts, "; ")
		}
		return &failure{Kind: kindOfStatus(status), Message: msg, status: status}
	}
})

func (s *server) config() huma.Config {
	ownErrors()
	c := huma.DefaultConfig("taskdaemon", "1")
	c.Info.Description = "The daemon's API, over a unix socket that only its owner can open."
	c.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	c.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[td.Event](), reflect.TypeFor[Event]())
	c.CreateHooks = nil // no $schema in answers: there is no web server to link to
	c.DocsPath, c.SchemasPath = "", ""
	format := huma.DefaultJSONFormat
	format.Marshal = func(w io.Writer, v any) error {
		var b bytes.Buffer
		if err := huma.DefaultJSONFormat.Marshal(&b, v); err != nil {
			return err
		}
		_, err := w.Write(s.opts.Clean(b.Bytes()))
		return err
	}
	c.Formats = map[string]huma.Format{"application/json": format, "json": format}
	return c
}

// schemaName tells types of the same name apart.
func schemaName(t reflect.Type, hint string) string {
	switch t {
	case reflect.TypeFor[td.Status]():
		return "TaskStatus"
	case reflect.TypeFor[td.Worktree](), reflect.TypeFor[*td.Worktree]():
		return "TaskWorktree"
	}
	return huma.DefaultSchemaNamer(t, hint)
}

// Event documents the form of td.Event, which encodes itself.
type Event struct {
	Cursor uint64       `json:"cursor,omitempty" doc:"Place in the whole journal; go on from here."`
	Seq    uint64       `json:"seq" doc:"Place in its task's stream, from 1 without gaps."`
	Task   td.TaskID    `json:"task"`
	At     time.Time    `json:"at"`
	Type   td.EventType `json:"type"`
	Takes  string       `json:"takes,omitempty" doc:"Key of the command this event consumed."`
	Body   any          `json:"body" doc:"What the event says; null when retention removed it."`
}
