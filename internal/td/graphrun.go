package td

import "time"

// GraphRun is a run over the graph of a project: an order that the daemon carries out, task after task, until there is an
// outcome. It is the fold of the records of the daemon's own stream that name it.
type GraphRun struct {
	GraphOrder
	From      uint64    `json:"from"` // cursor of the record that first ordered it: what it did comes after
	StartedAt time.Time `json:"started_at"`
	// Held is set while it starts nothing: a trunk that it works for was deleted or lost history.
	Held *GraphHold `json:"held,omitempty"`
	// Stop is set when it is to end before it is through: it starts nothing more, and lets go of its tasks.
	Stop *GraphStop `json:"stop,omitempty"`
	// End is set when it has ended.
	End *GraphEnd `json:"end,omitempty"`
}

// GraphOrder is what a person wants of a run over the graph.
type GraphOrder struct {
	Run     string `json:"run"` // its name: what iterations of one run note belongs together
	Key     string `json:"key,omitempty"`
	Project string `json:"project"`          // the folder whose graph it works through
	Target  TaskID `json:"target,omitempty"` // the task or container it is about; empty: all of the graph
	By      string `json:"by,omitempty"`

	Parallel int           `json:"parallel"`        // tasks at work at once
	Limit    int           `json:"limit,omitempty"` // iterations it may begin in all; 0: any number
	Strategy ModelStrategy `json:"strategy,omitempty"`
	Verify   bool          `json:"verify,omitempty"`

	Model       string         `json:"model,omitempty"`
	Yes         bool           `json:"yes,omitempty"`
	Permissions PermissionMode `json:"permissions,omitempty"`
	Budget      Money          `json:"budget,omitempty"`       // of each task
	TokenBudget Tokens         `json:"token_budget,omitempty"` // of each task
	Rehearsal   string         `json:"rehearsal,omitempty"`
	InPlace     bool           `json:"in_place,omitempty"` // work in the project's folder itself
	// Force takes also what another clone of the project has claimed.
	Force bool `json:"force,omitempty"`
}

// GraphStop is why a run over the graph is to end before it is through.
type GraphStop struct {
	Outcome RunOutcome `json:"outcome"`
	By      string     `json:"by,omitempty"`
	At      uint64     `json:"at,omitempty"` // cursor of its record: one stop is told to each task once
}

// GraphHold is why a run over the graph starts nothing until a person says so.
type GraphHold struct {
	Repo  string `json:"repo"`
	Trunk string `json:"trunk"`
	Why   string `json:"why"`
}

// GraphEnd is how a run over the graph ended.
type GraphEnd struct {
	Outcome    RunOutcome `json:"outcome"`
	At         time.Time  `json:"at,omitzero"`
	Completed  int        `json:"completed"` // of the tasks that it is about, containers apart
	Failed     int        `json:"failed"`
	Cancelled  int        `json:"cancelled,omitempty"`
	Open       int        `json:"open"`
	Iterations int        `json:"iterations"` // that it began
	Unlanded   []Unlanded `json:"unlanded,omitempty"`
}

// RunOutcome is how a run over the graph ended. Values are on disk.
type RunOutcome string

// The outcomes.
const (
	RunComplete    RunOutcome = "complete"      // every task has ended, and its work is where the config wants it
	RunUnlanded    RunOutcome = "unlanded"      // every task has ended, and a trunk lacks work of some
	RunBlocked     RunOutcome = "blocked"       // some have not, and none may run
	RunNoPlan      RunOutcome = "no_plan"       // there are no tasks
	RunFailure     RunOutcome = "failure"       // an agent sees no use in going on
	RunLimit       RunOutcome = "limit_reached" // it may begin no more iterations
	RunInterrupted RunOutcome = "interrupted"   // a person stopped it
)

// The records of runs over graphs, in the daemon's own stream.
type (
	// GraphRunOrdered begins a run over the graph, goes on with one that was stopped, or changes what is wanted of it.
	GraphRunOrdered struct {
		Order GraphOrder `json:"order"`
	}
	// GraphRunStopped says that a run is to end before it is through.
	GraphRunStopped struct {
		Run  string    `json:"run"`
		Stop GraphStop `json:"stop"`
	}
	// GraphRunHeld says that a run is to start nothing for now.
	GraphRunHeld struct {
		Run  string    `json:"run"`
		Hold GraphHold `json:"hold"`
	}
	// GraphRunReleased says that a run which was held goes on.
	GraphRunReleased struct {
		Run string `json:"run"`
		By  string `json:"by,omitempty"`
	}
	// GraphRunEnded says how a run ended.
	GraphRunEnded struct {
		Run string   `json:"run"`
		End GraphEnd `json:"end"`
	}
)

// Type is the record's name on disk.
func (GraphRunOrdered) Type() EventType { return "graph_run_ordered" }

// Type is the record's name on disk.
func (GraphRunStopped) Type() EventType { return "graph_run_stopped" }

// Type is the record's name on disk.
func (GraphRunHeld) Type() EventType { return "graph_run_held" }

// Type is the record's name on disk.
func (GraphRunReleased) Type() EventType { return "graph_run_released" }

// Type is the record's name on disk.
func (GraphRunEnded) Type() EventType { return "graph_run_ended" }

func init() {
	register[GraphRunOrdered]()
	register[GraphRunStopped]()
	register[GraphRunHeld]()
	register[GraphRunReleased]()
	register[GraphRunEnded]()
}

// NewGraphRunName makes a fresh name for a run over a graph.
func NewGraphRunName() string { return Handle(RunHandle, newUUID(), MaxHandleLength) }

// GraphRunOf is the name of the run over a graph that a record tells of.
func GraphRunOf(b Body) (name string, ok bool) {
	switch b := b.(type) {
	case GraphRunOrdered:
		return b.Order.Run, true
	case GraphRunStopped:
		return b.Run, true
	case GraphRunHeld:
		return b.Run, true
	case GraphRunReleased:
		return b.Run, true
	case GraphRunEnded:
		return b.Run, true
	}
	return "", false
}

// Apply folds one record of the daemon's stream into the run. It never fails: its one writer decides under a lock.
func (g GraphRun) Apply(ev Event) GraphRun {
	switch b := ev.Body.(type) {
	case GraphRunOrdered:
		if g.From == 0 {
			g.From, g.StartedAt = ev.Cursor, ev.At
		}
		g.GraphOrder, g.Stop, g.End = b.Order, nil, nil // a new limit does not let one go on that is held
	case GraphRunStopped:
		stop := b.Stop
		stop.At = ev.Cursor
		g.Run, g.Stop = b.Run, &stop
	case GraphRunHeld:
		hold := b.Hold
		g.Run, g.Held = b.Run, &hold
	case GraphRunReleased:
		g.Run, g.Held = b.Run, nil
	case GraphRunEnded:
		end := b.End
		end.At = ev.At
		g.Run, g.Held, g.Stop, g.End = b.Run, nil, nil, &end
	}
	return g
}

// Open reports whether the run has not ended.
func (g GraphRun) Open() bool { return g.End == nil }
