package daemon

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/git"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

// maxPlan bounds how many tasks one call may add.
const maxPlan = 10_000

// Plan adds tasks to the graph of a project.
func (d *Daemon) Plan(ctx context.Context, in api.Plan) ([]api.Planned, error) {
	if err := d.accepting(); err != nil {
		return nil, err
	}
	s, err := d.projects.of(ctx, in.Dir)
	if err != nil {
		return nil, err
	}
	return d.planIn(ctx, s, in)
}

// planIn adds tasks to a graph.
func (d *Daemon) planIn(ctx context.Context, s *graph.Store, in api.Plan) (_ []api.Planned, err error) {
	if len(in.Tasks) == 0 || len(in.Tasks) > maxPlan {
		return nil, td.Errorf(td.Invalid, "%d tasks: a call adds between one and %d", len(in.Tasks), maxPlan)
	}
	refs := &refs{s: s}
	project := ""
	for _, t := range in.Tasks {
		id := td.NewTaskID()
		if t.Source != "" {
			if t.Local && project == "" {
				project = sharedName(ctx, s.Root())
			}
			if t.Local {
				t.Source = project + "\n" + t.Parent + "\n" + t.Source // below another task it is another
			}
			id = td.PlannedIDFor(t.Source)
		}
		refs.fresh = append(refs.fresh, id)
	}
	tasks := make([]graph.Task, len(in.Tasks))
	for i, t := range in.Tasks {
		if tasks[i], err = refs.task(ctx, i, t, in.By); err != nil {
			return nil, fmt.Errorf("plan %q: %w", oneLine(t.Title, 60), err)
		}
		if err := d.validates(s.Root(), t.Validator); err != nil {
			return nil, fmt.Errorf("plan %q: %w", oneLine(t.Title, 60), err)
		}
	}
	added, err := s.Add(ctx, tasks...)
	if err != nil {
		return nil, err
	}
	d.projects.touch(s.Root())
	ids, validators := make([]td.TaskID, len(added)), make([]string, len(in.Tasks))
	for i, t := range added {
		ids[i] = t.ID
	}
	for i, t := range in.Tasks {
		validators[i] = t.Validator
	}
	d.vouch(ctx, s.Root(), in.By, validators...)
	return d.planned(ctx, s, ids)
}

// sharedName names a project the same in all clones of its repository: by the commit that it began with. One that has none is
// named by its folder.
func sharedName(ctx context.Context, root string) string {
	if first, err := git.FirstCommit(ctx, root); err == nil && first != "" {
		return first
	}
	return root
}

// refs finds out which tasks people mean, those that are being added among them.
type refs struct {
	s     *graph.Store
	fresh []td.TaskID
}

func (r *refs) one(ctx context.Context, ref string) (td.TaskID, error) {
	if n, ok := strings.CutPrefix(ref, "@"); ok {
		i, err := strconv.Atoi(n)
		if err != nil || i < 1 || i > len(r.fresh) {
			return "", td.Errorf(td.Invalid, "%s: there is no such task in this call", ref).WithHint("@1 is the first")
		}
		return r.fresh[i-1], nil
	}
	found, err := r.s.Match(ctx, ref)
	if err != nil {
		return "", err
	}
	meant := rule.Meant(ref)
	for _, f := range found {
		meant.Add(rule.Candidate{Task: f.ID, ID: string(f.ID), Handle: f.Handle, Title: f.Title, Slug: f.Slug})
	}
	return meant.One()
}

func (r *refs) all(ctx context.Context, names []string) (out []td.TaskID, err error) {
	for _, name := range names {
		id, err := r.one(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, nil
}

func (r *refs) task(ctx context.Context, i int, in api.PlanTask, by string) (t graph.Task, err error) {
	t = graph.Task{
		ID: r.fresh[i], Key: in.Key, Title: in.Title, Text: in.Text, Kind: in.Kind, Labels: in.Labels, Priority: 2,
		Validator: in.Validator, Tier: in.Tier, CreatedBy: by, Held: in.Held,
	}
	if in.Priority != nil {
		t.Priority = *in.Priority
	}
	if in.Tier != "" && !slices.Contains([]td.Tier{td.Small, td.Worker, td.Expert}, in.Tier) {
		return t, td.Errorf(td.Invalid, "tier %q: it is small, worker or expert", in.Tier)
	}
	if in.Done {
		t.Verdict = &graph.Verdict{State: td.Completed, At: time.Now().UTC().Round(0), By: by}
	}
	if in.Parent != "" {
		if t.Parent, err = r.one(ctx, in.Parent); err != nil {
			return t, err
		}
	}
	if t.Blockers, err = r.all(ctx, in.Blockers); err != nil {
		return t, err
	}
	t.Related, err = r.all(ctx, in.Related)
	return t, err
}

// Planned are the tasks of a graph that match.
func (d *Daemon) Planned(ctx context.Context, q api.PlanQuery) ([]api.Planned, error) {
	s, err := d.projects.of(ctx, q.Dir)
	if err != nil {
		return nil, err
	}
	r := &refs{s: s}
	var in, of td.TaskID
	if q.In != "" {
		if in, err = r.one(ctx, q.In); err != nil {
			return nil, err
		}
	}
	if q.Impact != "" {
		if of, err = r.one(ctx, q.Impact); err != nil {
			return nil, err
		}
	}
	var ids []td.TaskID
	err = s.View(ctx, func(g *workgraph.Graph) {
		switch {
		case q.Ready:
			for id := range g.Ready(in) {
				if _, taken := s.Taken(id); taken {
					continue
				}
				ids = append(ids, id)
				if len(ids) == q.Limit && len(q.States) == 0 {
					break // thousands may follow
				}
			}
		case of != "":
			ids = g.Impact(of)
		case q.Path:
			ids = g.CriticalPath(in)
		case q.Tree:
			ids = outline(g, in)
		default:
			ids = g.InOrder(in)
		}
		if len(q.States) > 0 {
			ids = slices.DeleteFunc(ids, func(id td.TaskID) bool {
				st, _ := g.Standing(id)
				return !slices.Contains(q.States, st.State)
			})
		}
	})
	if err != nil {
		return nil, err
	}
	if q.Limit > 0 && len(ids) > q.Limit {
		ids = ids[:q.Limit]
	}
	return d.planned(ctx, s, ids)
}

// outline is a task and what is in it, or all of them, containers before what they hold.
func outline(g *workgraph.Graph, root td.TaskID) (out []td.TaskID) {
	seen := map[td.TaskID]bool{}
	var visit func(td.TaskID)
	visit = func(id td.TaskID) {
		if seen[id] {
			return // it is in itself
		}
		seen[id] = true
		out = append(out, id)
		for _, c := range g.Children(id) {
			visit(c)
		}
	}
	if root != "" {
		visit(root)
		return out
	}
	for _, id := range g.Children("") {
		visit(id)
	}
	for id := range g.Within("") { // what is in itself is in no tree
		visit(id)
	}
	return out
}

// PlannedTask is one task of a graph.
func (d *Daemon) PlannedTask(ctx context.Context, dir, ref string) (api.Planned, error) {
	s, err := d.projects.of(ctx, dir)
	if err != nil {
		return api.Planned{}, err
	}
	id, err := (&refs{s: s}).one(ctx, ref)
	if err != nil {
		return api.Planned{}, err
	}
	return d.plannedOne(ctx, s, id)
}

func (d *Daemon) plannedOne(ctx context.Context, s *graph.Store, id td.TaskID) (api.Planned, error) {
	all, err := d.planned(ctx, s, []td.TaskID{id})
	if err != nil {
		return api.Planned{}, err
	}
	if len(all) == 0 {
		return api.Planned{}, td.Errorf(td.NotFound, "no task %s in the graph of %s", id.Handle(), s.Root()).WithHint("taskdaemon task list --plan")
	}
	return all[0], nil
}

// planned describes tasks of a graph, those that are still there.
func (d *Daemon) planned(ctx context.Context, s *graph.Store, ids []td.TaskID) ([]api.Planned, error) {
	out := make([]api.Planned, 0, len(ids))
	err := s.Each(ctx, ids, func(t *graph.Task, g *workgraph.Graph) { out = append(out, describe(s, t, g)) })
	if err != nil {
		return nil, err
	}
	d.projects.markRan(out)
	return out, nil
}

// obstacleClaimed is in the way of a task that another clone works on.
const obstacleClaimed = "claimed"

// describe is a task with what it is tied to and where it stands.
func describe(s *graph.Store, t *graph.Task, g *workgraph.Graph) api.Planned {
	p := plain(t)
	ref := func(id td.TaskID) api.PlanRef {
		st, _ := g.Standing(id)
		n := s.Name(id)
		return api.PlanRef{ID: id, Handle: n.Handle, Title: n.Title, State: st.State, Deleted: g.Deleted(id)}
	}
	all := func(ids []td.TaskID) (out []api.PlanRef) {
		for _, id := range ids {
			out = append(out, ref(id))
		}
		return out
	}
	st, _ := g.Standing(t.ID)
	p.State, p.Container, p.Ready, p.Obstacle, p.By = st.State, st.Container, st.Ready, string(st.Obstacle), all(st.By)
	if c, taken := s.Taken(t.ID); taken && !st.State.Terminal() && !st.Container {
		p.Claimed, p.Ready = c.Words(), false
		if p.Obstacle == "" {
			p.Obstacle = obstacleClaimed
		}
	}
	p.Blockers, p.Blocks, p.Related = all(t.Blockers), all(g.Dependents(t.ID)), all(s.Related(t.ID))
	if t.Parent != "" {
		parent := ref(t.Parent)
		p.Parent = &parent
	}
	p.Depth = g.Depth(t.ID)
	return p
}

// plain is what a task says of itself.
func plain(t *graph.Task) api.Planned {
	p := api.Planned{
		ID: t.ID, Handle: t.Handle, Kind: t.Kind, Title: t.Title, Text: t.Text, Labels: t.Labels, Priority: t.Priority, Validator: t.Validator,
		Tier: t.Tier, CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy, UpdatedAt: t.UpdatedAt, Problems: t.Problems, State: t.State(),
	}
	if v := t.Verdict; v != nil {
		p.Summary, p.Reason = v.Summary, v.Reason
	} else if t.Held != "" {
		p.Reason = t.Held
	}
	return p
}

// notStarted says of a task that the journal does not know what to type, if it is planned in a graph that is open.
func (d *Daemon) notStarted(ctx context.Context, ref string, unknown error) error {
	meant := rule.Meant(ref)
	in := map[td.TaskID]*graph.Store{}
	for _, s := range d.projects.all() {
		found, err := s.Match(ctx, ref)
		if err != nil {
			d.o.Log.Warn("look for a task in a graph", "project", s.Root(), "err", err)
			continue
		}
		for _, f := range found {
			in[f.ID] = s
			meant.Add(rule.Candidate{Task: f.ID, ID: string(f.ID), Handle: f.Handle, Title: f.Title})
		}
	}
	id, err := meant.One()
	if err != nil {
		return unknown
	}
	p, err := d.plannedOne(ctx, in[id], id)
	switch {
	case err != nil:
		return unknown
	case p.Container:
		return td.Errorf(td.NotFound, "%s (%s) holds other tasks and never runs itself", p.Handle, p.Title).WithHint("taskdaemon task tree %s", p.Handle)
	case p.State.Terminal():
		return td.Errorf(td.NotFound, "%s (%s) was not started here: it is %s", p.Handle, p.Title, p.State).WithHint("taskdaemon task show %s", p.Handle)
	}
	return td.Errorf(td.NotFound, "%s (%s) is planned and was not started", p.Handle, p.Title).WithHint("taskdaemon run %s", p.Handle)
}

// PlanLog is what was changed of one task.
func (d *Daemon) PlanLog(ctx context.Context, dir, ref string) ([]api.PlanChanged, error) {
	s, err := d.projects.of(ctx, dir)
	if err != nil {
		return nil, err
	}
	id, err := (&refs{s: s}).one(ctx, ref)
	if err != nil {
		return nil, err
	}
	changes, err := s.History(ctx, id)
	if err != nil {
		return nil, err
	}
	out := make([]api.PlanChanged, len(changes))
	for i, c := range changes {
		out[i] = api.PlanChanged{At: c.Op.Time().UTC(), Actor: c.Op.Actor, Words: changeWords(c)}
	}
	return out, nil
}

// changeWords says what a change changes, a line each.
func changeWords(c jsonl.Change) (out []string) {
	for field, raw := range c.Set {
		if field == graph.FieldOnce || field == graph.FieldClosed {
			continue // it says nothing of the task
		}
		out = append(out, fmt.Sprintf("%s: %s", field, oneLine(string(raw), 200)))
	}
	for set, members := range c.Add {
		out = append(out, fmt.Sprintf("%s: + %s", set, oneLine(strings.Join(members, ", "), 200)))
	}
	for set, members := range c.Remove {
		out = append(out, fmt.Sprintf("%s: - %s", set, oneLine(strings.Join(members, ", "), 200)))
	}
	slices.Sort(out)
	return out
}
