// Package api is the contract between the daemon and whoever talks to it. The daemon implements
// Service on the journal, the client implements it over the socket, and one suite (apitest) runs on
// both. The types here are the wire's: change them only by adding.
package api

import (
	"context"
	"iter"
	"time"

	"taskdaemon/internal/td"
)

// Service is everything a person or a program can ask of a daemon. A ref is an id, a handle or an
// unambiguous fragment of either.
type Service interface {
	Planner
	Librarian
	Coordinator
	Archivist
	Forester
	Status(ctx context.Context) (Status, error)
	AddTask(ctx context.Context, in AddTask) (td.Task, error)
	Tasks(ctx context.Context, q TaskQuery) ([]td.Task, error)
	Task(ctx context.Context, ref string) (td.Task, error)
	// Command hands a person's wish to a task. It is durable when this returns, and acted on soon
	// after; a wish that makes no sense in the task's present state is refused here.
	Command(ctx context.Context, ref string, cmd Command) (td.Task, error)
	History(ctx context.Context, ref string) (History, error)
	// Events yields journaled events after a cursor and, when asked, what is not journaled: the
	// pieces of a model's answer and of a command's output on their way.
	Events(ctx context.Context, q EventQuery) iter.Seq2[Item, error]
	Recovery(ctx context.Context) (td.Report, error)
	Checkpoint(ctx context.Context, ref string) (Checkpoint, error)
	// Context is what the model is told in the task's next call, part by part.
	Context(ctx context.Context, ref string) (Context, error)
	// MCPServers is what is known of each server of tools in the config. It asks none of them.
	MCPServers(ctx context.Context) ([]MCPServer, error)
	// TestMCPServer starts the server if it is not up, asks for its tools, and says what came of it.
	TestMCPServer(ctx context.Context, name string) (MCPServer, error)
	// Cost is what calls of models cost, broken down, and how the budgets stand.
	Cost(ctx context.Context, q CostQuery) (Cost, error)
	// RaiseBudget lets more be spent in this day or month; tasks that wait for it go on.
	RaiseBudget(ctx context.Context, in RaiseBudget) (td.Balance, error)
	// Stats are what loops did in a time.
	Stats(ctx context.Context, q StatsQuery) (Stats, error)
	// Locks are what tasks have leased, and who waits for it.
	Locks(ctx context.Context) (td.Locks, error)
	Doctor(ctx context.Context, in DoctorRequest) (Diagnosis, error)
	Stop(ctx context.Context) error
}

// AddTask is a new piece of work.
type AddTask struct {
	Key       string   `json:"key,omitempty" doc:"Idempotency key: the same key again returns the first task."`
	Title     string   `json:"title,omitempty" doc:"One line; made from the prompt when empty."`
	Prompt    string   `json:"prompt" doc:"What to do."`
	Dir       string   `json:"dir" doc:"Absolute path of the workspace."`
	Mode      td.Mode  `json:"mode,omitempty"`
	Tier      td.Tier  `json:"tier,omitempty"`
	Model     string   `json:"model,omitempty"`
	Validator string   `json:"validator,omitempty" doc:"Command that must exit 0 before the task counts as completed."`
	Yes       bool     `json:"yes,omitempty" doc:"Grant permissions without asking."`
	Priority  *int     `json:"priority,omitempty" doc:"0 (first) to 4; 2 when not given."`
	Labels    []string `json:"labels,omitempty"`
	MaxTurns  int      `json:"max_turns,omitempty"`
	Budget    td.Money `json:"budget_micro_usd,omitempty" doc:"What it may cost with its subtasks, in millionths of a dollar, before a person is asked."`
	// TokenBudget bounds tokens as Budget bounds dollars.
	TokenBudget td.Tokens `json:"token_budget,omitempty" doc:"How many tokens it may take with its subtasks before a person is asked."`
	Rehearsal   string    `json:"rehearsal,omitempty" doc:"Script for the rehearsal model, as YAML."`
	InPlace     bool      `json:"in_place,omitempty" doc:"Work in the folder itself, and not in a worktree of it."`
	// Permissions is what it may do without asking.
	Permissions td.PermissionMode `json:"permissions,omitempty" doc:"What it may do without asking: ask, accept-edits, auto or plan; the config's when not given."`
	Permission  time.Duration     `json:"permission_limit,omitempty" doc:"How long a permission request stays open, in nanoseconds."`
	By          string            `json:"by,omitempty"`
}

// TaskQuery chooses tasks.
type TaskQuery struct {
	States []td.State `json:"states,omitempty"`
	Dir    string     `json:"dir,omitempty"`
	Limit  int        `json:"limit,omitempty"`
}

// Command is a person's wish. For an answer, Answer is the choice and Text the words that go with it;
// Request may be empty when the task has one open request.
type Command struct {
	Key     string         `json:"key,omitempty"`
	Type    td.CommandType `json:"type"`
	Text    string         `json:"text,omitempty"`
	Request string         `json:"request,omitempty"`
	Answer  string         `json:"answer,omitempty"`
	ByTask  bool           `json:"by_task,omitempty" doc:"The person named the task, and not the request: refused if another request of it ended since their last answer."`
	By      string         `json:"by,omitempty"`
	Rules   []string       `json:"rules,omitempty" doc:"With always and never: which of the offered rules to keep; none: the first offer."`
	Scope   td.RuleScope   `json:"scope,omitempty" doc:"Where they are kept: task, project or user; project when not given."`
}

// Status is the daemon at a glance.
type Status struct {
	Version   string             `json:"version"`
	Pid       int                `json:"pid"`
	StartedAt time.Time          `json:"started_at"`
	State     string             `json:"state_dir"`
	Provider  string             `json:"provider"`
	Rehearsal bool               `json:"rehearsal"`
	Models    map[td.Tier]string `json:"models"`
	Tasks     map[td.State]int   `json:"tasks"`
	Running   []td.Task          `json:"running,omitempty"`
	Waiting   []td.Task          `json:"waiting,omitempty"`
	Resting   []td.Task          `json:"resting,omitempty"` // blocked because no model answers: they go on by themselves
	Stuck     []td.Task          `json:"stuck,omitempty"`   // blocked, or paused by taskdaemon: they need a person, and ask nothing
	Stopping  bool               `json:"stopping,omitempty"`
	Calls     Calls              `json:"calls"`
	Degraded  string             `json:"degraded,omitempty"` // why nothing can be recorded, if so
	Clashes   []Clash            `json:"clashes,omitempty"`
	Unlanded  []td.Unlanded      `json:"unlanded,omitempty"` // merged work that trunks lack
	Listen    string             `json:"listen,omitempty"`   // host and port of the API over TCP, if there is one
	Crowded   []string           `json:"crowded,omitempty"`  // disks that fill up, of the state folder and of live tasks with worktrees, in words
	Damaged   []string           `json:"damaged,omitempty"`  // plans whose file lost something, and conversations that are lost, in words, with what to type
}

// Clash is a conflict that is to come: the work of two tasks, or of a task and what is merged, changes the same lines.
type Clash struct {
	Repo  string   `json:"repo"`
	A     string   `json:"a"` // the handle of a task, or the integration branch
	B     string   `json:"b"`
	Files []string `json:"files"`
}

// History is a task's conversation with its records.
type History struct {
	Task     td.Task      `json:"task"`
	Messages []td.Message `json:"messages"`
	Events   []td.Event   `json:"events"`
	// Ended: the conversation is that of an iteration that has ended, and the next one has not begun.
	Ended bool `json:"ended,omitempty" doc:"The conversation is that of an iteration that has ended; the next one has not begun."`
	// Gone counts records that retention has let go and that the git mirror does not have.
	Gone int `json:"gone,omitempty" doc:"Records that retention has let go, and that could not be read from the git mirror."`
}

// EventQuery chooses what Events yields.
type EventQuery struct {
	Refs   []string       `json:"refs,omitempty"`
	Types  []td.EventType `json:"types,omitempty"`
	After  uint64         `json:"after,omitempty"` // only events with a greater cursor
	Tail   bool           `json:"tail,omitempty"`  // start at the present end instead of After
	Live   bool           `json:"live,omitempty"`
	Follow bool           `json:"follow,omitempty"`
	Since  time.Time      `json:"since,omitzero"`
	// Pauses also yields empty Items: the first when all that is asked for is known to be there, and one whenever what was at hand has
	// been told. Nobody can ask for them from another process.
	Pauses bool `json:"-"`
}

// Item is one thing Events yields, an event or a live piece, or neither: a pause.
type Item struct {
	Event *td.Event `json:"event,omitempty"`
	Raw   []byte    `json:"-"` // Event's body as it is encoded, where that is at hand
	Live  *Live     `json:"live,omitempty"`
}

// LiveKind says what a live piece is.
type LiveKind string

// The kinds of live piece.
const (
	LiveText     LiveKind = "text"
	LiveThinking LiveKind = "thinking"
	LiveTool     LiveKind = "tool"   // the model begins a tool call; Text is its name
	LiveOutput   LiveKind = "output" // of a running command
	LiveGap      LiveKind = "gap"    // pieces were left out because the reader was slow
)

// Live is a piece of something on its way. It is not journaled: the record that follows has it whole.
type Live struct {
	Task td.TaskID  `json:"task"`
	Step td.StepKey `json:"step,omitempty"`
	Kind LiveKind   `json:"kind"`
	Text string     `json:"text"`
}

// Context is what the model is told in a task's next call, part by part. Tokens are estimated, a little
// too high, and corrected by what the provider counted last.
type Context struct {
	Task      string        `json:"task"`
	Model     string        `json:"model,omitempty"` // that answered last
	Window    int           `json:"window"`          // of the model, in tokens
	Limit     int           `json:"limit"`           // above this the conversation is compacted
	Tokens    int           `json:"tokens"`          // of the next call
	Parts     []ContextPart `json:"parts"`
	Messages  int           `json:"messages"`
	Turns     int           `json:"turns"`
	Compacted int           `json:"compacted,omitempty"` // times
	Last      td.Usage      `json:"last_call"`
	Prefix    *td.Prefix    `json:"prefix,omitempty"` // of the last call
	Total     td.Usage      `json:"total"`
	Cost      td.Money      `json:"cost_micro_usd"`
	TreeCost  td.Money      `json:"tree_cost_micro_usd"` // with subtasks
	Unpriced  int           `json:"unpriced,omitempty"`  // calls that cost nobody knows what
}

// ContextPart is one part of it.
type ContextPart struct {
	Name   string `json:"name"`
	Source string `json:"source,omitempty"`
	Tokens int    `json:"tokens"`
}

// Checkpoint is where a task stands, everywhere.
type Checkpoint struct {
	Task     td.Task `json:"task"`
	Seq      uint64  `json:"seq"`                // its newest journaled event
	Cursor   uint64  `json:"cursor"`             // the journal's end
	Branch   string  `json:"branch"`             // in the conversations' repository
	Commit   string  `json:"commit"`             // its tip, brought up to date
	Snapshot string  `json:"snapshot,omitempty"` // commit that holds the workspace, if it is under git
	Repo     string  `json:"repo"`
}

// DoctorRequest says what doctor should do.
type DoctorRequest struct {
	Fix bool `json:"fix,omitempty"`
}

// Diagnosis is what doctor found.
type Diagnosis struct {
	Checks   []Check `json:"checks"`
	Problems int     `json:"problems"`
}

// Check is one thing doctor looked at.
type Check struct {
	Name     string   `json:"name"`
	OK       bool     `json:"ok"`
	Detail   string   `json:"detail,omitempty"`
	Findings []string `json:"findings,omitempty"`
	Open     []string `json:"open,omitempty" doc:"What waits for a person, though nothing is damaged."`
	Fix      string   `json:"fix,omitempty"`
	Fixed    bool     `json:"fixed,omitempty"`
}
