// Package tool is the contract between the loop and a tool, and the registry of them.
//
// A call goes in two halves, so that what was judged is exactly what runs (L-7): Prepare checks the
// input, resolves every path and says what the call would do; only then is it judged, recorded and
// run. After a crash Resolve finds out from evidence what became of a call that was in flight.
package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

// Tool is one tool a model may call.
type Tool struct {
	Name        string
	Origin      policy.Origin // who brought it
	Description string
	Schema      json.RawMessage
	Timeout     time.Duration // zero: the config's default
	Control     Control       // set: the loop itself carries the call out

	// Prepare checks a call and readies it. Its error is told to the model as the call's result.
	Prepare func(ctx context.Context, env *Env, input json.RawMessage) (Call, error)

	// Resolve finds what became of a keyed or opaque call that was in flight when the daemon died.
	Resolve func(ctx context.Context, env *Env, input json.RawMessage, intent td.Intent) (Resolution, error)
}

// Control marks the tools that speak to the loop instead of the world.
type Control string

// The controls.
const (
	NoControl       Control = ""
	AskControl      Control = "ask"
	CompleteControl Control = "complete"
	FailControl     Control = "fail"
	TaskControl     Control = "task"    // a subtask
	ExploreControl  Control = "explore" // a subtask that only looks
)

// Call is a prepared call.
type Call struct {
	Effect   td.Effect
	Evidence json.RawMessage  // the state before, for Resolve
	Title    string           // one line for people: what will happen
	Diff     func() string    // what will change in a file, bounded and without secrets, for who is asked; may be nil
	Paths    []policy.PathUse // that it touches, absolute and resolved
	Command  string           // the shell command it runs
	Bound    string           // what the tool is, where others may change that; rules made by answers are bound to it
	Hosts    []string         // that it reaches
	Sifts    bool             // of what it goes through it leaves out what Env.Hidden names
	Free     bool             // it changes nothing but what taskdaemon keeps of the task
	Learns   bool             // a free one that writes into the project's knowledge, which lies in the checkout: not in plan mode
	Timeout  time.Duration    // what the call itself keeps to; zero: the Env's
	Kept     bool             // it runs under a shim: its outcome is found again in the spool until it is recorded
	Input    json.RawMessage  // of a control: what it was called with, by the names that its schema has
	Ignored  string           // what of the input counted for nothing, in words for the model; Run says so itself
	// Side is the most that Env.Ask is given and may say; zero when the call does not use it.
	Side Side
	// Run does it. A result the tool itself calls an error is a ToolResult with IsError; an error
	// returned is a failure to run at all, and is told to the model as well.
	Run func(ctx context.Context) (td.ToolResult, error)
}

// Side bounds a question to the small model that is part of a call, so that its price can be set aside.
type Side struct {
	Prompt int      // characters
	Answer int      // tokens
	Why    td.Cause // what it is for; empty: it reads something for the tool
}

// Resolution is what Resolve found.
type Resolution struct {
	State  ResolutionState
	Via    td.Via        // Probed or Adopted, when done
	Result td.ToolResult // when done
	Detail string        // when unsure: what is known, for the person who is asked
	// Changed is what seems to have changed since, by the times of files, for where nothing better is known.
	Changed string
}

// ResolutionState says whether a call in flight took place.
type ResolutionState int

// The states.
const (
	NotDone ResolutionState = iota // it left no trace: run it
	Done                           // it happened, and Result says how it ended
	Unsure                         // nobody can tell: ask
)

// Env is what a call may touch.
type Env struct {
	Task td.TaskID
	Run  td.RunID
	Step td.StepKey
	// Feature is the slug of the PRD that the task is part of; may be empty.
	Feature string
	Root    *Workspace
	// Home is the folder of the project, which is another than the workspace for a task that has a worktree.
	Home  string
	Spool Spool
	Jobs  []td.Job               // background jobs of the task
	Known func(path string) bool // has the model seen this file's content?
	// Hidden reports whether a file or folder may not be read, by its absolute path: what goes through folders leaves
	// it out, content and name. Nil: nothing is.
	Hidden func(path string) bool
	Emit   func(output []byte) // live output, for viewers; must not block
	// Ask lets a small model answer something beside the conversation, as part of this call.
	Ask     func(ctx context.Context, prompt string, maxTokens int) (td.SideResult, error)
	Now     func() time.Time
	Timeout time.Duration // of this call
	// Secrets takes out what the model is not shown; nil knows shapes alone.
	Secrets *redact.Redactor
	// Sandbox makes what the commands of this call may do, which takes a look at the disk. It is there once the call has been judged: what
	// it may do follows from that.
	Sandbox func() *sandbox.Profile
}

// Profile is what the commands of this call may do; nil: whatever the user may. Only a call that is run can ask for it.
func (e *Env) Profile() (*sandbox.Profile, error) {
	if e.Sandbox == nil {
		return nil, td.Errorf(td.Internal, "nobody has judged yet what this call may do")
	}
	return e.Sandbox(), nil
}

// Hides reports whether a path, relative to the workspace, is not for the model to know.
func (e *Env) Hides(rel string) bool {
	return e.Hidden != nil && e.Hidden(filepath.Join(e.Root.Dir(), rel))
}

// Spool starts and finds the processes of tools. The daemon gives a sandbox.Spool.
type Spool interface {
	// Reserve makes the spool folder of this name. It comes before the record that a command is to run.
	Reserve(name string) error
	// Start runs cmd under a shim that outlives the daemon, in the spool folder of this name. A name
	// that was used before is refused unless its command never started.
	Start(ctx context.Context, name string, cmd sandbox.Command) (sandbox.Process, error)
	// Find looks for what became of the process started under this name.
	Find(name string) (sandbox.Process, sandbox.ProcessState, error)
	// Remove forgets a process that has ended.
	Remove(name string) error
	// Room makes a room for commands that are to find nothing of any task's (sandbox.Command.Room). Who leaves it removes what they put there.
	Room(name string) (leave func() error)
}

// ErrDetach is the cause a daemon that shuts down cancels a call with: what runs under a shim is left
// running, to be adopted by the next daemon, and the call returns this error. Any other cancellation
// of a call ends what it started.
var ErrDetach = errors.New("the daemon is shutting down; the command goes on")

// Registry is the set of tools of a run.
type Registry struct{ tools []Tool }

// NewRegistry makes a registry; a name given twice panics.
func NewRegistry(tools ...Tool) *Registry {
	r := &Registry{}
	for _, t := range tools {
		if _, ok := r.Get(t.Name); ok {
			panic(fmt.Sprintf("tool: %s registered twice", t.Name))
		}
		r.tools = append(r.tools, t)
	}
	return r
}

// Only is the registry with these tools alone; with no names it is the whole.
func (r *Registry) Only(names []string) *Registry {
	if len(names) == 0 {
		return r
	}
	return &Registry{tools: slices.DeleteFunc(slices.Clone(r.tools), func(t Tool) bool { return !slices.Contains(names, t.Name) })}
}

// With is the registry with these tools added; one whose name is taken is left out.
func (r *Registry) With(tools ...Tool) *Registry {
	if len(tools) == 0 {
		return r
	}
	out := &Registry{tools: slices.Clone(r.tools)}
	for _, t := range tools {
		if _, taken := out.Get(t.Name); !taken {
			out.tools = append(out.tools, t)
		}
	}
	return out
}

// Get finds a tool by name.
func (r *Registry) Get(name string) (Tool, bool) {
	i := slices.IndexFunc(r.tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return Tool{}, false
	}
	return r.tools[i], true
}

// Describe is what the model is told, in a fixed order.
func (r *Registry) Describe() []llm.Tool {
	out := make([]llm.Tool, len(r.tools))
	for i, t := range r.tools {
		out[i] = llm.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema}
	}
	return out
}
