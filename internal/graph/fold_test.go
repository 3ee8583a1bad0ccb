package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

// seen is all that a store says of its log.
type seen struct {
	Tasks    []Task
	Standing map[td.TaskID]workgraph.Standing
	Ready    []td.TaskID
	Children map[td.TaskID][]td.TaskID
	Blocks   map[td.TaskID][]td.TaskID
	Impact   map[td.TaskID][]td.TaskID
	Path     int
	Related  map[td.TaskID][]td.TaskID
	Keys     map[string]td.TaskID
	Deleted  []td.TaskID
	Bad      int
}

func look(t *rapid.T, s *Store, known []td.TaskID) seen {
	v := seen{
		Standing: map[td.TaskID]workgraph.Standing{}, Children: map[td.TaskID][]td.TaskID{}, Blocks: map[td.TaskID][]td.TaskID{},
		Impact: map[td.TaskID][]td.TaskID{}, Related: map[td.TaskID][]td.TaskID{}, Keys: map[string]td.TaskID{},
	}
	ctx := t.Context()
	if err := s.Each(ctx, known, func(task *Task, g *workgraph.Graph) {
		id := task.ID
		v.Tasks = append(v.Tasks, *task)
		st, _ := g.Standing(id)
		if st.Obstacle == workgraph.InCycle {
			st.By = nil // one circle of those it is in
		}
		v.Standing[id] = st
		v.Children[id], v.Blocks[id], v.Related[id] = g.Children(id), g.Dependents(id), s.Related(id)
		impact := g.Impact(id)
		slices.Sort(impact)
		v.Impact[id] = impact
	}); err != nil {
		t.Fatal(err)
	}
	for _, id := range known {
		if _, deleted, err := s.Deleted(ctx, id); err != nil {
			t.Fatal(err)
		} else if deleted {
			v.Deleted = append(v.Deleted, id)
		}
	}
	if err := s.View(ctx, func(g *workgraph.Graph) {
		v.Ready, v.Path, v.Bad = slices.Collect(g.Ready("")), len(g.CriticalPath("")), len(s.bad)
		for key, id := range s.keys {
			v.Keys[key] = id
		}
	}); err != nil {
		t.Fatal(err)
	}
	return v
}

// hands change a graph at random, as people, runs and other clones do.
type hands struct {
	*rapid.T
	folder string
	stores []*Store
	live   []map[td.TaskID]td.State
	known  []td.TaskID
	now    time.Time
	opened int
}

func (h *hands) clock() time.Time { return h.now }

func (h *hands) open(root string) *Store {
	h.opened++
	s, err := Open(h.Context(), Options{Root: root, Index: filepath.Join(h.folder, fmt.Sprint(h.opened, ".db")), Now: h.clock})
	if err != nil {
		h.Fatal(err)
	}
	return s
}

func (h *hands) some(what string, most int) []td.TaskID {
	return rapid.SliceOfN(rapid.SampledFrom(h.known), 0, most).Draw(h.T, what)
}

// plan gives both clones tasks that wait for each other.
func (h *hands) plan() {
	var tasks []Task
	for i, id := range h.known[:5] {
		t := Task{ID: id, Title: "planned", Parent: h.parent(id)}
		if i > 0 {
			t.Blockers = rapid.SliceOfN(rapid.SampledFrom(h.known[:i]), 0, 2).Draw(h.T, "blockers")
			t.Blockers = slices.DeleteFunc(t.Blockers, func(b td.TaskID) bool { return b == t.Parent })
		}
		tasks = append(tasks, t)
	}
	for _, t := range tasks {
		_, _ = h.stores[0].Add(h.Context(), t)
	}
	h.sync()
}

// parent is what a task is put into: one before it, because what state containers have that are in each other is nobody's
// business.
func (h *hands) parent(of td.TaskID) td.TaskID {
	before := slices.DeleteFunc(slices.Clone(h.known), func(id td.TaskID) bool { return id >= of })
	return rapid.SampledFrom(append(before, "")).Draw(h.T, "parent")
}

// one does one thing in one clone. What is refused changes nothing, which is looked at like the rest.
func (h *hands) one(at int) {
	ctx, s := h.Context(), h.stores[at]
	id := rapid.SampledFrom(h.known).Draw(h.T, "task")
	what := rapid.SampledFrom([]string{"add", "add", "edit", "edit", "end", "reopen", "delete", "delete", "undelete", "claim", "live", "sync", "sync", "compact", "reopen the store", "stranger"}).Draw(h.T, "what")
	switch what {
	case "add":
		_, _ = s.Add(ctx, Task{
			ID: id, Title: "a task", Blockers: h.some("blockers", 2), Related: h.some("related", 1), Priority: rapid.IntRange(0, 2).Draw(h.T, "priority"),
			Key: rapid.SampledFrom([]string{"", "", "one", "two"}).Draw(h.T, "key"), Parent: h.parent(id),
		}, Task{Title: "refused with it", Blockers: h.some("blockers of the second", 1), Key: "three"})
	case "edit":
		e := Edit{AddBlockers: h.some("more blockers", 1), RemoveBlockers: h.some("fewer blockers", 1), AddRelated: h.some("more related", 1), RemoveRelated: h.some("fewer related", 1)}
		if rapid.Bool().Draw(h.T, "moves") {
			parent := h.parent(id)
			e.Parent = &parent
		}
		_, _ = s.Edit(ctx, id, e)
	case "end":
		_ = s.End(ctx, id, Verdict{State: rapid.SampledFrom([]td.State{td.Completed, td.Completed, td.Failed, td.Cancelled}).Draw(h.T, "end"), At: h.now})
	case "reopen":
		_ = s.Reopen(ctx, id)
	case "delete":
		_ = s.Delete(ctx, id)
	case "undelete":
		h.stranger(at, id, jsonl.FieldDeleted, "false")
	case "claim":
		_ = s.Claim(ctx, id, "ann", "host", rapid.Bool().Draw(h.T, "takes"))
	case "live":
		state := rapid.SampledFrom([]td.State{"", td.Queued, td.Running, td.Waiting}).Draw(h.T, "state")
		s.SetState(id, state)
		h.live[at][id] = state
	case "sync":
		h.sync()
	case "compact":
		if _, _, err := s.Compact(ctx, h.now.Add(-time.Minute)); err != nil {
			h.Fatal(err)
		}
	case "reopen the store":
		index := filepath.Join(h.folder, fmt.Sprint("clone", at, ".db"))
		s.Close()
		next, err := Open(ctx, Options{Root: s.root, Index: index, Now: h.clock})
		if err != nil {
			h.Fatal(err)
		}
		h.stores[at] = next
		for id, state := range h.live[at] {
			next.SetState(id, state)
		}
	case "stranger":
		field := rapid.SampledFrom([]string{fieldKey, fieldParent, "not known"}).Draw(h.T, "field")
		h.stranger(at, id, field, fmt.Sprintf("%q", h.parent(id)))
	}
}

// stranger appends a line that no store wrote, with or without an end.
func (h *hands) stranger(at int, id td.TaskID, field, raw string) {
	op := jsonl.Stamp{Wall: h.now.UnixMilli(), Actor: "stranger"}
	line, err := jsonl.Append(nil, jsonl.Change{Op: op, Task: id, Set: map[string]json.RawMessage{field: json.RawMessage(raw)}})
	if err != nil {
		h.Fatal(err)
	}
	if rapid.IntRange(0, 3).Draw(h.T, "torn") == 0 {
		line = line[:len(line)-rapid.IntRange(1, 20).Draw(h.T, "lacks")]
	}
	f, err := os.OpenFile(h.stores[at].path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		h.Fatal(err)
	}
	if _, err := f.Write(line); err != nil {
		h.Fatal(err)
	}
	if err := f.Close(); err != nil {
		h.Fatal(err)
	}
}

func (h *hands) sync() {
	var logs [2][]byte
	for i, s := range h.stores {
		raw, err := os.ReadFile(s.path)
		if err != nil {
			h.Fatal(err)
		}
		logs[i] = raw
	}
	both := jsonl.Merge(nil, logs[0], logs[1])
	for _, s := range h.stores {
		if err := os.WriteFile(s.path, both, 0o644); err != nil {
			h.Fatal(err)
		}
	}
}

// TestIndexIsTheFold changes the graphs of two clones at random, and after each change compares what their stores say
// with what a store says that has read the same log from nothing.
func TestIndexIsTheFold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		folder, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(folder)
		h := &hands{T: rt, folder: folder, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		for i := range 7 {
			h.known = append(h.known, td.TaskID(fmt.Sprintf("01900000-0000-7000-8000-00000000000%d", i)))
		}
		for at := range 2 {
			root := filepath.Join(folder, fmt.Sprint("clone", at))
			if err := Make(root); err != nil {
				rt.Fatal(err)
			}
			s, err := Open(context.Background(), Options{Root: root, Index: filepath.Join(folder, fmt.Sprint("clone", at, ".db")), Now: h.clock})
			if err != nil {
				rt.Fatal(err)
			}
			h.stores, h.live = append(h.stores, s), append(h.live, map[td.TaskID]td.State{})
		}
		defer func() {
			for _, s := range h.stores {
				s.Close()
			}
		}()
		h.plan()
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			h.now = h.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(rt, "seconds")) * time.Second)
			at := rapid.IntRange(0, 1).Draw(rt, "clone")
			h.one(at)
			h.compare(h.stores[at], h.live[at])
		}
	})
}

func (h *hands) compare(s *Store, live map[td.TaskID]td.State) {
	got := look(h.T, s, h.known)
	anew := h.open(s.root)
	defer anew.Close()
	for id, state := range live {
		anew.SetState(id, state)
	}
	want := look(h.T, anew, h.known)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Claim{}), cmp.Comparer(func(a, b jsonl.Stamp) bool { return a == b })); diff != "" {
		raw, _ := os.ReadFile(s.path)
		h.Fatalf("the store differs from a fold of its log (-fold +store):\n%s\nthe log:\n%s", diff, bytes.TrimSpace(raw))
	}
}
