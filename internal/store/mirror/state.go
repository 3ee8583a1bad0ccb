package mirror

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

const (
	version   = 1
	stateFile = "state.json"
	// BranchPrefix stands before the handle of a task in the name of its branch.
	BranchPrefix = "refs/heads/"
	// promptShown is how much of the prompt task.md repeats; spec.json has all of it.
	promptShown = 4 << 10
)

// state is what rendering the next event of a task needs to know. It is a fold of the events before it
// and is written into each commit.
type state struct {
	Version int       `json:"version"`
	Task    td.TaskID `json:"task"`
	Seq     uint64    `json:"seq"`  // newest event that is in here
	Next    int       `json:"next"` // number of the next message
	Spec    td.Spec   `json:"spec"` // without what is large
	Live    td.Live   `json:"live"`
	Calls   []toolUse `json:"calls,omitempty"` // of the last answer, not ended yet
	Since   []string  `json:"since,omitempty"` // files written since the last answer, with it
	Lost    uint64    `json:"lost,omitempty"`  // records that retention had let go before they came here

	kept     []string  // records since the last commit, in parts
	keptFrom uint64    // the number of the first
	turn     *turn     // what of a turn is not in a commit yet
	at       time.Time // of the newest event

	tip string // the branch's newest commit; empty: there is no branch
	in  *batch // the batch that last wrote to it
}

// toolUse is a tool call that waits for its result.
type toolUse struct {
	Index int    `json:"index"` // place among the answer's calls
	Name  string `json:"name"`
	Brief string `json:"brief,omitempty"`
}

// brief is the part of a spec that is worth repeating in every commit.
func brief(s td.Spec) td.Spec {
	s.Rehearsal = ""
	if len(s.Prompt) > promptShown {
		s.Prompt = strings.ToValidUTF8(s.Prompt[:promptShown], "") + "\n\n[cut here; the whole prompt is in spec.json]"
	}
	return s
}

// parseState reads the state of a branch's tip and refuses that of another task or version.
func parseState(raw []byte, task td.TaskID) (*state, error) {
	var s state
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	if s.Version != version || s.Task != task || s.Next < 1 {
		return nil, fmt.Errorf("read state: version %d of task %s", s.Version, s.Task)
	}
	return &s, nil
}

// branch is the task's branch: its handle, or its id when there is no handle fit to be a name.
func (s *state) branch() string {
	for _, name := range []string{s.Spec.Handle, td.Handle(td.TaskHandle, string(s.Task), td.MaxHandleLength)} {
		if fitName(name) {
			return BranchPrefix + name
		}
	}
	return BranchPrefix + "t-" + safeName(string(s.Task))
}

// take folds an event in and returns the commits it makes. There are none when it is no checkpoint, or of a turn that goes
// on; there are two when it cuts a turn short.
func (s *state) take(ev td.Record) (out []git.Commit, err error) {
	ev.At = ev.At.UTC()                            // the clock's zone must not show in a commit
	next, calls, since := s.Next, s.Calls, s.Since // all that render changes
	d := s.render(ev.Event)
	if d != nil && !d.result && s.turn != nil {
		was := *s
		was.Next, was.Calls, was.Since = next, calls, since
		c, err := was.cut()
		if err != nil {
			return nil, err
		}
		out = append(out, c)
		s.turn, s.kept = nil, nil
	}
	if err := s.keep(ev); err != nil {
		return nil, err
	}
	if ev.Seq > s.Seq+1 {
		s.Lost += ev.Seq - s.Seq - 1
	}
	if _, bare := ev.Body.(td.Trimmed); bare {
		s.Lost++
	}
	s.apply(ev.Event)
	s.Seq, s.at = ev.Seq, ev.At
	switch {
	case d == nil:
		return out, nil
	case d.answer || d.result:
		if s.turn == nil {
			s.turn = &turn{}
		}
		s.turn.add(d)
		if len(s.Calls) > 0 && !s.Live.Status.State.Terminal() { // of a task that has ended nothing more may come
			return out, nil
		}
		d = s.turn.draft(s.Live.Turns)
		s.turn = nil
	}
	c, err := s.commit(d)
	return append(out, c), err
}

// cut makes a commit of what there is of a turn.
func (s *state) cut() (git.Commit, error) {
	d := s.turn.draft(s.Live.Turns)
	s.turn = nil
	return s.commit(d)
}

// commit is the commit of a draft and of all records since the last.
func (s *state) commit(d *draft) (git.Commit, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return git.Commit{}, fmt.Errorf("write state: %w", err)
	}
	message := subject(d.subject) + "\n\n"
	if d.body != "" {
		message += d.body + "\n"
	}
	return git.Commit{
		Ref:     s.branch(),
		When:    s.at,
		Message: message + fmt.Sprintf("Taskdaemon-Seq: %d\nTaskdaemon-Task: %s\n", s.Seq, oneLine(string(s.Task), 64)),
		Removed: d.removed,
		Files: append(d.files, s.records(),
			git.File{Path: "task.md", Parts: []string{s.page()}},
			git.File{Path: stateFile, Parts: []string{string(raw), "\n"}}),
	}, nil
}

// apply folds the event into the task. Records before it may be gone, and one that does not fit is still
// part of the conversation, so only the fold of what fits is kept.
func (s *state) apply(ev td.Event) {
	t := td.Task{Spec: s.Spec, Live: s.Live}
	t.Head = ev.Seq - 1
	next, err := t.Apply(ev)
	if err != nil {
		next = t
		next.Head, next.UpdatedAt = ev.Seq, ev.At
	}
	if created, ok := ev.Body.(td.Created); ok {
		s.Spec = brief(created.Spec)
	}
	s.Live = next.Live
}
