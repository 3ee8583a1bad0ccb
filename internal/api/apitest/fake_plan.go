package apitest

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

// fakeGraph is the graph of a project, in memory.
type fakeGraph struct {
	root  string
	graph *workgraph.Graph
	tasks map[td.TaskID]*fakeTask
	keys  map[string]td.TaskID
	once  map[string]api.Planned // what came of changes under a key
}

// fakeTask is what is known of a task, with the ids it names, and its history.
type fakeTask struct {
	api.Planned
	key               string
	slug              string // of a PRD
	docs              map[td.DocName]string
	parent            td.TaskID
	blockers, related []td.TaskID
	log               []api.PlanChanged
}

func (t *fakeTask) node() workgraph.Node {
	return workgraph.Node{ID: t.ID, Parent: t.parent, Blockers: t.blockers, Priority: t.Priority, Created: t.CreatedAt, State: t.State, Holds: t.Kind == td.KindPRD}
}

func (t *fakeTask) note(words ...string) {
	t.UpdatedAt = now()
	t.log = append(t.log, api.PlanChanged{At: t.UpdatedAt, Actor: "fake", Words: words})
}

// InitPlan gives a folder a graph.
func (f *Fake) InitPlan(_ context.Context, in api.InitPlan) (api.PlanPlace, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !filepath.IsAbs(in.Dir) {
		return api.PlanPlace{}, td.Errorf(td.Invalid, "the folder %q is not an absolute path", in.Dir).WithHint("--dir /some/where")
	}
	if g, err := f.graphOf(in.Dir); err == nil {
		return api.PlanPlace{Root: g.root}, nil
	}
	f.graphs = append(f.graphs, &fakeGraph{root: in.Dir, graph: workgraph.New(nil), tasks: map[td.TaskID]*fakeTask{}, keys: map[string]td.TaskID{}, once: map[string]api.Planned{}})
	return api.PlanPlace{Root: in.Dir, Created: true}, nil
}

func (f *Fake) graphOf(dir string) (*fakeGraph, error) {
	for _, g := range f.graphs {
		if rel, err := filepath.Rel(g.root, dir); err == nil && filepath.IsLocal(rel) {
			return g, nil
		}
	}
	return nil, td.Errorf(td.NotFound, "%s has no plan", dir).WithHint("taskdaemon init")
}

// Plan adds tasks, all or none.
func (f *Fake) Plan(_ context.Context, in api.Plan) ([]api.Planned, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.graphOf(in.Dir)
	if err != nil {
		return nil, err
	}
	if len(in.Tasks) == 0 {
		return nil, td.Errorf(td.Invalid, "there is nothing to add")
	}
	var fresh, added []td.TaskID
	undo := func() {
		for _, id := range added {
			delete(g.keys, g.tasks[id].key)
			delete(g.tasks, id)
			g.graph.Remove(id)
		}
	}
	for _, t := range in.Tasks {
		if id, known := g.keys[t.Key]; known && t.Key != "" {
			fresh = append(fresh, id)
			continue
		}
		id, err := g.add(t, fresh, in.By)
		if err != nil {
			undo()
			return nil, fmt.Errorf("plan %q: %w", t.Title, err)
		}
		fresh, added = append(fresh, id), append(added, id)
	}
	return g.describe(fresh), nil
}

func (g *fakeGraph) add(in api.PlanTask, fresh []td.TaskID, by string) (td.TaskID, error) {
	id := td.NewTaskID()
	t := &fakeTask{key: in.Key, Planned: api.Planned{
		ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Kind: cmp.Or(in.Kind, td.KindTask), Title: strings.TrimSpace(in.Title),
		Text: in.Text, Labels: in.Labels, Priority: 2, Validator: in.Validator, Tier: in.Tier, CreatedAt: now(), CreatedBy: by, State: td.Queued,
	}}
	if in.Priority != nil {
		t.Priority = *in.Priority
	}
	if in.Done {
		t.State = td.Completed
	}
	if err := t.fits(); err != nil {
		return "", err
	}
	var err error
	if in.Parent != "" {
		if t.parent, err = g.resolve(in.Parent, fresh); err != nil {
			return "", err
		}
		if st, _ := g.graph.Standing(t.parent); !st.Container && st.State.Terminal() {
			return "", td.Errorf(td.Conflict, "%s is %s", t.parent, st.State).WithHint("taskdaemon task reset %s", t.parent)
		}
	}
	if err := g.placed(t); err != nil {
		return "", err
	}
	if t.blockers, err = g.resolveAll(in.Blockers, fresh); err != nil {
		return "", err
	}
	if t.related, err = g.resolveAll(in.Related, fresh); err != nil {
		return "", err
	}
	t.note("title: " + t.Title)
	g.tasks[id] = t
	g.graph.Put(t.node())
	if in.Key != "" {
		g.keys[in.Key] = id
	}
	return id, nil
}

// placed fails unless a spec is in a PRD, and nothing in a spec.
func (g *fakeGraph) placed(t *fakeTask) error {
	if in := g.tasks[t.parent]; in != nil && in.Kind == td.KindSpec {
		return td.Errorf(td.Conflict, "%s is a spec: it holds no other tasks", in.Handle).WithHint("wait for it with --after")
	}
	if t.Kind != td.KindSpec {
		return nil
	}
	for in := g.tasks[t.parent]; in != nil; in = g.tasks[in.parent] {
		if in.Kind == td.KindPRD {
			return nil
		}
	}
	return td.Errorf(td.Invalid, "a spec is a part of a PRD, and this one is in none").WithHint("taskdaemon prd list")
}

func (t *fakeTask) fits() error {
	switch {
	case t.Title == "":
		return td.Errorf(td.Invalid, "a task needs a title")
	case t.Priority < 0 || t.Priority > 4:
		return td.Errorf(td.Invalid, "the priority is %d", t.Priority).WithHint("0 is first, 4 is last")
	case !slices.Contains([]td.TaskKind{td.KindTask, td.KindSpec, td.KindPRD}, t.Kind):
		return td.Errorf(td.Invalid, "the kind %q is not known", string(t.Kind)).WithHint("task, spec or prd")
	}
	return nil
}

func (g *fakeGraph) resolve(ref string, fresh []td.TaskID) (td.TaskID, error) {
	if n, ok := strings.CutPrefix(ref, "@"); ok {
		i, err := strconv.Atoi(n)
		if err != nil || i < 1 || i > len(fresh) {
			return "", td.Errorf(td.Invalid, "%s: there is no such task in this call", ref).WithHint("@1 is the first")
		}
		return fresh[i-1], nil
	}
	var partial []td.TaskID
	for id, t := range g.tasks {
		exact, part := td.MatchesRef(ref, string(id), t.Handle)
		if exact || td.MatchesSlug(ref, t.slug) {
			return id, nil
		}
		if part {
			partial = append(partial, id)
		}
	}
	switch len(partial) {
	case 0:
		return "", td.Errorf(td.NotFound, "nothing matches %q", ref).WithHint("taskdaemon task list --plan")
	case 1:
		return partial[0], nil
	}
	return "", td.Errorf(td.Ambiguous, "%q may mean %d tasks", ref, len(partial)).WithHint("type more of it")
}

func (g *fakeGraph) resolveAll(refs []string, fresh []td.TaskID) (out []td.TaskID, err error) {
	for _, ref := range refs {
		id, err := g.resolve(ref, fresh)
		if err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, nil
}

func (g *fakeGraph) describe(ids []td.TaskID) []api.Planned {
	out := []api.Planned{}
	for _, id := range ids {
		t := g.tasks[id]
		p := t.Planned
		st, _ := g.graph.Standing(id)
		p.State, p.Container, p.Ready, p.Obstacle, p.By = st.State, st.Container, st.Ready, string(st.Obstacle), g.refs(st.By)
		p.Blockers, p.Blocks, p.Related, p.Depth = g.refs(t.blockers), g.refs(g.graph.Dependents(id)), g.refs(g.related(t)), g.graph.Depth(id)
		if t.parent != "" {
			p.Parent = &g.refs([]td.TaskID{t.parent})[0]
		}
		out = append(out, p)
	}
	return out
}

// related are the tasks that have to do with one, whichever of them says so.
func (g *fakeGraph) related(t *fakeTask) []td.TaskID {
	out := slices.Clone(t.related)
	for id, other := range g.tasks {
		if slices.Contains(other.related, t.ID) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

func (g *fakeGraph) refs(ids []td.TaskID) (out []api.PlanRef) {
	for _, id := range ids {
		r := api.PlanRef{ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength)}
		if t := g.tasks[id]; t != nil {
			st, _ := g.graph.Standing(id)
			r.Title, r.State = t.Title, st.State
		}
		out = append(out, r)
	}
	return out
}

// Planned lists tasks of a graph.
func (f *Fake) Planned(_ context.Context, q api.PlanQuery) ([]api.Planned, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.graphOf(q.Dir)
	if err != nil {
		return nil, err
	}
	var in, of td.TaskID
	if q.In != "" {
		if in, err = g.resolve(q.In, nil); err != nil {
			return nil, err
		}
	}
	if q.Impact != "" {
		if of, err = g.resolve(q.Impact, nil); err != nil {
			return nil, err
		}
	}
	var ids []td.TaskID
	switch {
	case q.Ready:
		ids = slices.Collect(g.graph.Ready(in))
	case of != "":
		ids = g.graph.Impact(of)
	case q.Path:
		ids = g.graph.CriticalPath(in)
	case q.Tree:
		ids = g.tree(in)
	default:
		ids = g.graph.InOrder(in)
	}
	all := g.describe(ids)
	if len(q.States) > 0 {
		all = slices.DeleteFunc(all, func(p api.Planned) bool { return !slices.Contains(q.States, p.State) })
	}
	if q.Limit > 0 && len(all) > q.Limit {
		all = all[:q.Limit]
	}
	return all, nil
}

func (g *fakeGraph) tree(root td.TaskID) (out []td.TaskID) {
	if root != "" {
		out = append(out, root)
	}
	for _, c := range g.graph.Children(root) {
		out = append(out, g.tree(c)...)
	}
	return out
}

// PlannedTask finds one task of a graph.
func (f *Fake) PlannedTask(_ context.Context, dir, ref string) (api.Planned, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, t, err := f.planned(dir, ref)
	if err != nil {
		return api.Planned{}, err
	}
	return g.describe([]td.TaskID{t.ID})[0], nil
}

func (f *Fake) planned(dir, ref string) (*fakeGraph, *fakeTask, error) {
	g, err := f.graphOf(dir)
	if err != nil {
		return nil, nil, err
	}
	id, err := g.resolve(ref, nil)
	if err != nil {
		return nil, nil, err
	}
	return g, g.tasks[id], nil
}

// PlanLog is what was changed of a task.
func (f *Fake) PlanLog(_ context.Context, dir, ref string) ([]api.PlanChanged, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, t, err := f.planned(dir, ref)
	if err != nil {
		return nil, err
	}
	return slices.Clone(t.log), nil
}

// SyncPlan gives Synced.
func (f *Fake) SyncPlan(_ context.Context, dir string) (api.PlanSynced, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.graphOf(dir)
	return f.Synced, err
}

// Plant adds a task to a graph as a merge would: what it waits for is not checked.
func (f *Fake) Plant(dir, title string, parent td.TaskID, blockers ...td.TaskID) td.TaskID {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.graphOf(dir)
	if err != nil {
		panic("apitest: " + err.Error())
	}
	id := td.NewTaskID()
	t := &fakeTask{parent: parent, blockers: blockers, Planned: api.Planned{
		ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Kind: td.KindTask, Title: title, Priority: 2,
		CreatedAt: time.Now(), State: td.Queued,
	}}
	g.tasks[id] = t
	g.graph.Put(t.node())
	return id
}
