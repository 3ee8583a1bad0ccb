package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

// Task is a task of the graph: what a person planned, and how it ended.
type Task struct {
	ID        td.TaskID   `json:"id"`
	Handle    string      `json:"handle"`
	Kind      td.TaskKind `json:"kind"`
	Title     string      `json:"title"`
	Text      string      `json:"text,omitempty"`
	Parent    td.TaskID   `json:"parent,omitempty"`
	Blockers  []td.TaskID `json:"blockers,omitempty"`
	Related   []td.TaskID `json:"related,omitempty"` // no effect on order
	Labels    []string    `json:"labels,omitempty"`
	Priority  int         `json:"priority"`
	Validator string      `json:"validator,omitempty"`
	Tier      td.Tier     `json:"tier,omitempty"`
	CreatedAt time.Time   `json:"created_at"`
	CreatedBy string      `json:"created_by,omitempty"`
	UpdatedAt time.Time   `json:"updated_at"`
	Verdict   *Verdict    `json:"verdict,omitempty"`
	// Held is why nobody is to work on it until a person opens it again; empty: somebody may.
	Held string `json:"held,omitempty"`
	// Closed is the last end of it that a run told of. It stays when the task is opened again.
	Closed *Closed `json:"closed,omitempty"`
	// DecidedAt is when somebody last said that it has ended, or that it has not.
	DecidedAt time.Time `json:"-"`
	// Slug names the folder of a PRD's documents.
	Slug string `json:"slug,omitempty"`
	// Direct says of a PRD that it is worked on itself, without tasks.
	Direct bool `json:"direct,omitempty"`
	// Key is what whoever added it knows it by: adding it again under the same key adds nothing.
	Key string `json:"key,omitempty"`
	// Claims are of clones that work on it, the earliest first.
	Claims []Claim `json:"claims,omitempty"`
	// Problems are what is wrong with it in the file.
	Problems []string `json:"problems,omitempty"`
}

// Verdict is how a task ended.
type Verdict struct {
	State   td.State  `json:"state"` // a terminal one
	Summary string    `json:"summary,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Run     td.RunID  `json:"run,omitempty"`
	At      time.Time `json:"at"`
	By      string    `json:"by,omitempty"`
}

// Closed is an end that a run told of. The time names it: a run that was given back and is cancelled before it goes on
// ends a second time.
type Closed struct {
	Run td.RunID  `json:"run"`
	At  time.Time `json:"at"`
}

// Knows reports whether the log was told of this end before, whatever became of it.
func (t *Task) Knows(v Verdict) bool { return t.Closed != nil && t.Closed.At.Equal(v.At) }

// State is what the file alone says of it.
func (t *Task) State() td.State {
	if t.Verdict != nil {
		return t.Verdict.State
	}
	if t.Held != "" {
		return td.Paused
	}
	return td.Queued
}

func (t *Task) node(state td.State) workgraph.Node {
	return workgraph.Node{ID: t.ID, Parent: t.Parent, Blockers: t.Blockers, Priority: t.Priority, Created: t.CreatedAt, State: state, Holds: t.Kind == td.KindPRD && !t.Direct}
}

// The names of fields and sets in the log.
const (
	fieldTitle     = "title"
	fieldText      = "text"
	fieldKind      = "kind"
	fieldParent    = "parent"
	fieldPriority  = "priority"
	fieldValidator = "validator"
	fieldTier      = "tier"
	fieldVerdict   = "verdict"
	fieldHeld      = "held"
	fieldCreatedBy = "created_by"
	fieldKey       = "key"
	fieldSlug      = "slug"
	fieldDirect    = "direct"

	setBlockers = "blockers"
	setRelated  = "related"
	setLabels   = "labels"
)

// taskOf is what a record says. A field of the wrong type counts as not there, and is a problem.
func taskOf(r *jsonl.Record) *Task {
	t := &Task{ID: r.ID, Handle: td.Handle(td.TaskHandle, string(r.ID), td.HandleLength), CreatedAt: r.First.Time(), UpdatedAt: r.Last.Time()}
	read := func(name string, into any) {
		raw, ok := r.Field(name)
		if !ok {
			return
		}
		if text, ok := into.(*string); ok && plain(raw) {
			*text = string(raw[1 : len(raw)-1])
			return
		}
		if err := json.Unmarshal(raw, into); err != nil {
			t.problem("its %s cannot be read: %s", name, brief(raw))
		}
	}
	read(fieldTitle, &t.Title)
	read(fieldText, &t.Text)
	read(fieldKind, (*string)(&t.Kind))
	read(fieldParent, (*string)(&t.Parent))
	t.Priority = defaultPriority
	read(fieldPriority, &t.Priority)
	read(fieldValidator, &t.Validator)
	read(fieldTier, (*string)(&t.Tier))
	read(fieldCreatedBy, &t.CreatedBy)
	read(fieldKey, &t.Key)
	read(fieldSlug, &t.Slug)
	read(fieldDirect, &t.Direct)
	read(fieldVerdict, &t.Verdict)
	read(fieldHeld, &t.Held)
	read(FieldClosed, &t.Closed)
	if v, ok := r.Fields[fieldVerdict]; ok {
		t.DecidedAt = v.Op.Time()
	}
	t.Blockers, t.Related, t.Labels = ids(r.Members(setBlockers)), ids(r.Members(setRelated)), r.Members(setLabels)
	t.Claims = claimsOf(r)
	t.mend()
	return t
}

// plain reports whether a value is a string that stands for itself, as nearly all are.
func plain(raw []byte) bool {
	return len(raw) >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0
}

const defaultPriority = 2

// mend makes the task one that the rest of the program can work with.
func (t *Task) mend() {
	if t.Title == "" {
		t.Title = t.Handle
		t.problem("it has no title")
	}
	switch t.Kind {
	case td.KindTask, td.KindSpec, td.KindPRD:
	case "":
		t.Kind = td.KindTask
	default:
		t.problem("its kind %q is not known", string(t.Kind))
		t.Kind = td.KindTask
	}
	if t.Priority < 0 || t.Priority > 4 {
		t.problem("its priority is %d, not 0 to 4", t.Priority)
		t.Priority = min(max(t.Priority, 0), 4)
	}
	if v := t.Verdict; v != nil && !v.State.Terminal() {
		t.problem("it ended %q, which is no end", string(v.State))
		t.Verdict = nil
	}
	if t.Parent == t.ID {
		t.problem("it is in itself")
	}
	t.Direct = t.Direct && t.Kind == td.KindPRD
	t.mendSlug()
}

// mendSlug gives a PRD a folder that lies where it should, whatever the file says, and the rest none.
func (t *Task) mendSlug() {
	switch {
	case t.Kind != td.KindPRD:
		t.Slug = ""
		return
	case td.IsSlug(t.Slug):
		return
	case t.Slug != "":
		t.problem("its slug %q is no name of a folder", t.Slug)
	}
	var err error
	if t.Slug, err = td.Slug(t.Title); err != nil {
		t.Slug = t.Handle
	}
}

func (t *Task) problem(format string, args ...any) {
	t.Problems = append(t.Problems, fmt.Sprintf(format, args...))
}

func ids(names []string) []td.TaskID {
	var out []td.TaskID
	for _, n := range names {
		out = append(out, td.TaskID(n))
	}
	return out
}

// brief is the beginning of a value, for people.
func brief(raw []byte) string {
	const most = 40
	if len(raw) <= most {
		return string(raw)
	}
	return string([]rune(string(raw[:most]))) + "…"
}

// change is a change under construction.
type change struct{ jsonl.Change }

func (c *change) set(field string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return td.Errorf(td.Invalid, "set %s: %w", field, err)
	}
	if c.Set == nil {
		c.Set = map[string]json.RawMessage{}
	}
	c.Set[field] = raw
	return nil
}

func (c *change) add(set string, members ...string) { c.Add = grown(c.Add, set, members) }

func (c *change) remove(set string, members ...string) { c.Remove = grown(c.Remove, set, members) }

func grown(sets map[string][]string, set string, members []string) map[string][]string {
	if len(members) == 0 {
		return sets
	}
	if sets == nil {
		sets = map[string][]string{}
	}
	sets[set] = append(sets[set], members...)
	slices.Sort(sets[set])
	sets[set] = slices.Compact(sets[set])
	return sets
}

func names(ids []td.TaskID) []string {
	var out []string
	for _, id := range ids {
		out = append(out, string(id))
	}
	return out
}

// empty reports whether nothing would change.
func (c *change) empty() bool { return len(c.Set) == 0 && len(c.Add) == 0 && len(c.Remove) == 0 }
