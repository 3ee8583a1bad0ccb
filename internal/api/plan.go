package api

import (
	"context"
	"time"

	"taskdaemon/internal/td"
)

// Planner is what can be asked about the work graph of a project. Dir is any folder of the project.
type Planner interface {
	// InitPlan gives a project a graph. One that has one keeps it.
	InitPlan(ctx context.Context, in InitPlan) (PlanPlace, error)
	// Plan adds tasks to the graph, all or none. They run when they are started.
	Plan(ctx context.Context, in Plan) ([]Planned, error)
	// Planned are the tasks of the graph that match, in the order in which they would be taken.
	Planned(ctx context.Context, q PlanQuery) ([]Planned, error)
	PlannedTask(ctx context.Context, dir, ref string) (Planned, error)
	// ChangePlan changes one task of the graph and returns it; of a deleted one, how it was.
	ChangePlan(ctx context.Context, in ChangePlan) (Planned, error)
	// PlanLog is what was changed of one task, the oldest first.
	PlanLog(ctx context.Context, dir, ref string) ([]PlanChanged, error)
	// StartRun has the daemon work through the graph. If a run over the same tasks is under way, that is given.
	StartRun(ctx context.Context, in StartRun) (Run, error)
	// Runs are the runs over graphs that match, the newest first.
	Runs(ctx context.Context, q RunQuery) ([]Run, error)
	// StopRun ends a run over a graph before it is through.
	StopRun(ctx context.Context, in StopRun) (Run, error)
	// SyncPlan exchanges changes of the graph with those who share the project's repository.
	SyncPlan(ctx context.Context, dir string) (PlanSynced, error)
}

// InitPlan says which project gets a graph.
type InitPlan struct {
	Dir  string `json:"dir" doc:"A folder of the project."`
	Self string `json:"self,omitempty" doc:"The program that merges graphs for git."`
}

// PlanPlace is where a graph is.
type PlanPlace struct {
	Root    string `json:"root"`             // of the project
	Branch  string `json:"branch,omitempty"` // that it is shared by; empty: a plain folder
	Created bool   `json:"created"`
	// Conflicts are files of a folder that was there, which lie beside those of the branch.
	Conflicts []string `json:"conflicts,omitempty"`
}

// Plan is tasks to add.
type Plan struct {
	Dir   string     `json:"dir" doc:"A folder of the project."`
	Tasks []PlanTask `json:"tasks"`
	By    string     `json:"by,omitempty"`
}

// PlanTask is one of them. Refs are ids, handles, unambiguous fragments, or @n for the n-th task of the same call.
type PlanTask struct {
	Key       string      `json:"key,omitempty" doc:"Idempotency key: the same key again returns the first task."`
	Title     string      `json:"title" doc:"One line."`
	Text      string      `json:"text,omitempty" doc:"What to do; the title when empty."`
	Kind      td.TaskKind `json:"kind,omitempty" doc:"task, spec or prd."`
	Parent    string      `json:"parent,omitempty" doc:"Ref of the task it is part of."`
	Blockers  []string    `json:"blockers,omitempty" doc:"Refs of tasks that must be completed first."`
	Related   []string    `json:"related,omitempty" doc:"Refs of tasks that have to do with it."`
	Labels    []string    `json:"labels,omitempty"`
	Priority  *int        `json:"priority,omitempty" doc:"0 (first) to 4; 2 when not given."`
	Validator string      `json:"validator,omitempty" doc:"Command that must exit 0 before it counts as completed."`
	Tier      td.Tier     `json:"tier,omitempty"`
	Done      bool        `json:"done,omitempty" doc:"It is completed already."`
	Held      string      `json:"held,omitempty" doc:"Why it is paused until a person resets it; empty: it is not."`
	Source    string      `json:"source,omitempty" doc:"What names it wherever it comes from: the same source is the same task in every clone."`
	Local     bool        `json:"local,omitempty" doc:"The source names it among those of one project: the same one of another project is another task."`
}

// Planned is a task of a graph, and where it stands.
type Planned struct {
	ID        td.TaskID   `json:"id"`
	Handle    string      `json:"handle"`
	Kind      td.TaskKind `json:"kind"`
	Title     string      `json:"title"`
	Text      string      `json:"text,omitempty"`
	Parent    *PlanRef    `json:"parent,omitempty"`
	Blockers  []PlanRef   `json:"blockers,omitempty"`
	Blocks    []PlanRef   `json:"blocks,omitempty"`
	Related   []PlanRef   `json:"related,omitempty"`
	Labels    []string    `json:"labels,omitempty"`
	Priority  int         `json:"priority"`
	Validator string      `json:"validator,omitempty"`
	Claimed   string      `json:"claimed,omitempty"` // who works on it in another clone
	Tier      td.Tier     `json:"tier,omitempty"`
	CreatedAt time.Time   `json:"created_at"`
	CreatedBy string      `json:"created_by,omitempty"`
	UpdatedAt time.Time   `json:"updated_at"`

	State     td.State  `json:"state"`
	Container bool      `json:"container,omitempty"` // it holds others, and ends when they do
	Ready     bool      `json:"ready,omitempty"`     // it may run now
	Obstacle  string    `json:"obstacle,omitempty"`  // waits, failed, unknown or cycle
	By        []PlanRef `json:"by,omitempty"`        // who is in the way
	Depth     int       `json:"depth"`               // how many containers it is in

	Summary  string   `json:"summary,omitempty"` // how it ended
	Reason   string   `json:"reason,omitempty"`
	Ran      bool     `json:"ran,omitempty"` // there are records of its runs here
	Problems []string `json:"problems,omitempty"`
}

// PlanRef names a task.
type PlanRef struct {
	ID     td.TaskID `json:"id"`
	Handle string    `json:"handle"`
	Title  string    `json:"title,omitempty"`
	State  td.State  `json:"state,omitempty"`
	// Deleted: nobody waits for it.
	Deleted bool `json:"deleted,omitempty" doc:"It was deleted; nobody waits for it."`
}

// PlanQuery chooses tasks of a graph.
type PlanQuery struct {
	Dir    string     `json:"dir"`
	In     string     `json:"in,omitempty"`     // ref of a container: only what is in it
	States []td.State `json:"states,omitempty"` // none: all
	Ready  bool       `json:"ready,omitempty"`  // only what may run now
	Tree   bool       `json:"tree,omitempty"`   // containers before what they hold
	Impact string     `json:"impact,omitempty"` // ref: only what waits for it
	Path   bool       `json:"path,omitempty"`   // only the longest chain of tasks that wait for each other
	Limit  int        `json:"limit,omitempty"`
}

// PlanVerb is what is done to a task of a graph.
type PlanVerb string

// The verbs.
const (
	PlanUpdate PlanVerb = "update"
	PlanDone   PlanVerb = "done"
	PlanFail   PlanVerb = "fail"
	PlanReset  PlanVerb = "reset"
	PlanDelete PlanVerb = "delete"
)

// ChangePlan changes one task. What is nil stays as it is.
type ChangePlan struct {
	Dir  string   `json:"dir"`
	Ref  string   `json:"ref"`
	Verb PlanVerb `json:"verb"`
	By   string   `json:"by,omitempty"`
	Key  string   `json:"key,omitempty" doc:"Idempotency key: what was changed under it is not changed again."`

	Title          *string  `json:"title,omitempty"`
	Text           *string  `json:"text,omitempty"`
	Validator      *string  `json:"validator,omitempty"`
	Priority       *int     `json:"priority,omitempty"`
	Parent         *string  `json:"parent,omitempty" doc:"Ref of the task it is part of; empty: none."`
	AddBlockers    []string `json:"add_blockers,omitempty"`
	RemoveBlockers []string `json:"remove_blockers,omitempty"`
	AddRelated     []string `json:"add_related,omitempty"`
	RemoveRelated  []string `json:"remove_related,omitempty"`
	AddLabels      []string `json:"add_labels,omitempty"`
	RemoveLabels   []string `json:"remove_labels,omitempty"`

	Words string `json:"words,omitempty" doc:"With done a summary, with fail the reason."`
}

// PlanChanged is one change of a task.
type PlanChanged struct {
	At    time.Time `json:"at"`
	Actor string    `json:"actor"` // the clone it was made in
	Words []string  `json:"words"` // what was changed
}

// PlanSynced is what an exchange did.
type PlanSynced struct {
	Pulled    int      `json:"pulled"` // commits of others
	Pushed    int      `json:"pushed"`
	Conflicts []string `json:"conflicts,omitempty"` // files of which both versions were kept
	Problems  []string `json:"problems,omitempty"`
	// Stopped says which tasks were at work here that others closed or deleted.
	Stopped []string `json:"stopped,omitempty"`
}
