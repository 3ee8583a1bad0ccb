package td

import (
	"slices"
	"time"
)

// The bodies that tie a conversation to what its workspace held (B-1).
type (
	// Snapshotted says what the workspace held after a step, before anything else ran there.
	Snapshotted struct {
		Step   StepKey `json:"step"`
		Tree   string  `json:"tree"`           // hash of the content
		Commit string  `json:"commit"`         // that holds it, under a private ref
		Base   string  `json:"base,omitempty"` // the checkout's HEAD at that time
		// LeftOut are files that were there and are too large for a snapshot.
		LeftOut []string `json:"left_out,omitempty"`
	}
	// Rewound ends the conversation at an earlier place: what was recorded since is cut from what the model sees. The
	// workspace holds the tree of that place.
	Rewound struct {
		Rewind
		By string `json:"by,omitempty"`
	}
	// Forked begins a conversation with that of another task, up to one of its steps.
	Forked struct {
		From     TaskID    `json:"from"`
		Step     StepKey   `json:"step"`
		Messages []Message `json:"messages"`
		Answers  int       `json:"answers"` // of the model among them
	}
)

func (Snapshotted) Type() EventType { return "snapshotted" }
func (Rewound) Type() EventType     { return "rewound" }
func (Forked) Type() EventType      { return "forked" }

// Rewind is a place that a task is taken back to.
type Rewind struct {
	To   StepKey `json:"to"`
	Seq  uint64  `json:"seq"`            // of the last record of the task that counts
	Tree string  `json:"tree"`           // what the workspace held there
	Kept string  `json:"kept,omitempty"` // the commit that holds what the workspace held before
	// LeftOut are files that are too large for snapshots, there or before: they are as they were before.
	LeftOut []string `json:"left_out,omitempty"`
}

// ForkPoint is the step of another task that a task goes on from.
type ForkPoint struct {
	Task TaskID  `json:"task"`
	Step StepKey `json:"step"`
	Seq  uint64  `json:"seq"` // of the last record of that task that counts
}

// Cut is a stretch of a task's records that was rewound: those after the first, up to the second.
type Cut struct {
	After uint64 `json:"after"`
	Until uint64 `json:"until"` // the record that says so, which is not cut
}

// Cuts are the stretches of a task's records that its conversation goes on without.
type Cuts []Cut

// Has reports whether a record is cut.
func (c Cuts) Has(seq uint64) bool {
	return slices.ContainsFunc(c, func(c Cut) bool { return seq > c.After && seq < c.Until })
}

// Rewind is the cuts after the record at until took the conversation back to the one at after. What had been cut
// behind that place comes back with it.
func (c Cuts) Rewind(after, until uint64) Cuts {
	kept := slices.DeleteFunc(slices.Clone(c), func(c Cut) bool { return c.Until > after })
	return append(kept, Cut{After: after, Until: until})
}

// rewind takes a task back, and leaves it paused: a person lets it go on.
func rewind(t Task, c Command, at time.Time) (Move, error) {
	if c.Rewind == nil || c.Rewind.Seq == 0 || c.Rewind.Seq > t.Head {
		return Move{}, Errorf(Invalid, "no step named")
	}
	back := Event{Task: t.ID, At: at, Body: Rewound{Rewind: *c.Rewind, By: c.By}}
	reason := "rewound to " + string(c.Rewind.To)
	m := Move{Task: t.ID, From: t.Status.State, To: Paused, Events: []Event{back}}
	if t.Status.State.Terminal() {
		reset, err := Reset(t, reason, at)
		if err != nil {
			return Move{}, err
		}
		m.Events = append(m.Events, reset.Events...)
		t.Status = Status{State: Queued}
	}
	if t.Status.State != Paused {
		pause, err := Pause(t, c.By, reason, at)
		if err != nil {
			return Move{}, err
		}
		m.Events = append(m.Events, pause.Events...)
	}
	return m, nil
}
