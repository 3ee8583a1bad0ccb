package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/git"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

var (
	fpBeforePlanned  = failpoint.New("daemon.run.before_start")
	fpPlannedStarted = failpoint.New("daemon.run.started")
)

// RunNext gives a run over a graph its next task: the one at work, or the one whose turn it is, which it starts.
// Whoever asks, one task of the project is at work at a time, and each is started once.
func (d *Daemon) RunNext(ctx context.Context, in api.RunNext) (api.RunStep, error) {
	if err := d.accepting(); err != nil {
		return api.RunStep{}, err
	}
	if err := checkRun(ctx, in); err != nil {
		return api.RunStep{}, err
	}
	s, err := d.projects.of(ctx, in.Dir)
	if err != nil {
		return api.RunStep{}, err
	}
	var scope td.TaskID
	if in.Target != "" {
		if scope, err = (&refs{s: s}).one(ctx, in.Target); err != nil {
			return api.RunStep{}, err
		}
	}
	starting := d.starting.of(s.Root())
	starting.Lock()
	defer starting.Unlock()
	// First who is at work, then what the graph says: one that ends in between is taken for at work once more, and
	// whoever follows it sees that it has ended.
	live, err := d.journal.Tasks(ctx, store.TaskFilter{States: store.Live, Brief: true})
	if err != nil {
		return api.RunStep{}, err
	}
	if err := d.projects.catchUp(ctx, s.Root()); err != nil {
		return api.RunStep{}, err
	}
	v, err := viewScope(ctx, s, scope)
	if err != nil {
		return api.RunStep{}, err
	}
	out := v.step()
	if in.Look {
		return out, nil
	}
	t, err := d.atWork(ctx, s, v, live)
	if err != nil {
		return api.RunStep{}, err
	}
	if t != nil {
		out.Task = t
		return out, nil
	}
	if id, ok := v.next(); ok {
		if t, err = d.startPlanned(ctx, s, id, in); err != nil {
			return api.RunStep{}, err
		}
		out.Task, out.Started = t, true
		return out, nil
	}
	switch {
	case len(v.leaves) == 0:
		out.Outcome = api.RunNoPlan
	case v.open == 0:
		out.Outcome = api.RunComplete
	default:
		out.Outcome = api.RunBlocked
		out.InTheWay, err = d.planned(ctx, s, v.waiting)
	}
	return out, err
}

func checkRun(ctx context.Context, in api.RunNext) error {
	switch {
	case in.Run == "" || len(in.Run) > 100:
		return td.Errorf(td.Invalid, "a run has a name of 1 to 100 characters")
	case in.Strategy != "" && !slices.Contains(td.ModelStrategies, in.Strategy):
		return td.Errorf(td.Invalid, "model strategy %q: it is one of %v", in.Strategy, td.ModelStrategies)
	case in.Left < 0:
		return td.Errorf(td.Invalid, "%d iterations left: it must not be negative", in.Left)
	case in.Permissions != "" && !slices.Contains(td.PermissionModes, in.Permissions):
		return td.Errorf(td.Invalid, "permission mode %q: it is one of %v", in.Permissions, td.PermissionModes)
	case in.Budget < 0 || in.Budget > td.MaxBudget:
		return td.Errorf(td.Invalid, "a budget of %s: it is between $0 and %s", in.Budget, td.MaxBudget)
	}
	if in.Rehearsal != "" {
		if _, err := rehearsal.Parse([]byte(in.Rehearsal)); err != nil {
			return fmt.Errorf("rehearsal script: %w", err)
		}
	}
	if in.Verify {
		if info, err := git.Describe(ctx, in.Dir); err != nil || !info.Repo {
			return td.Errorf(td.Invalid, "%s is not under git: what is verified is a checkout of the exact tree", in.Dir).WithHint("git init, or run without --verify")
		}
	}
	return nil
}

// scoped is what a run is about, as the graph sees it.
type scoped struct {
	leaves  []td.TaskID // tasks that may ever run, in the order in which they would be taken
	states  map[td.TaskID]td.State
	ready   []td.TaskID
	waiting []td.TaskID // the first that cannot run
	open    int
}

// maxInTheWay bounds how many tasks a blocked run is told of.
const maxInTheWay = 20

func viewScope(ctx context.Context, s *graph.Store, scope td.TaskID) (scoped, error) {
	v := scoped{states: map[td.TaskID]td.State{}}
	err := s.View(ctx, func(g *workgraph.Graph) {
		see := func(id td.TaskID) {
			st, known := g.Standing(id)
			if !known || st.Container {
				return
			}
			v.leaves = append(v.leaves, id)
			v.states[id] = st.State
			if st.State.Terminal() {
				return
			}
			v.open++
			if st.Ready {
				v.ready = append(v.ready, id)
			} else if len(v.waiting) < maxInTheWay {
				v.waiting = append(v.waiting, id)
			}
		}
		if st, known := g.Standing(scope); scope != "" && known && !st.Container {
			see(scope)
			return
		}
		for _, id := range g.InOrder(scope) {
			see(id)
		}
	})
	return v, err
}

func (v scoped) step() (out api.RunStep) {
	for _, state := range v.states {
		switch {
		case state == td.Completed:
			out.Completed++
		case state.Terminal():
			out.Failed++
		}
	}
	out.Open = v.open
	return out
}

func (v scoped) next() (td.TaskID, bool) {
	if len(v.ready) == 0 {
		return "", false
	}
	return v.ready[0], true
}

// atWork is the task that was started and neither rests nor has ended, if there is one. One that a person paused is left
// alone, one that is blocked cannot go on, and one that a run let go of is ready again. Tasks of the project that the
// run is not about are let through first, because they work in the same folder; while they wait for a person
// nobody waits for them.
func (d *Daemon) atWork(ctx context.Context, s *graph.Store, v scoped, live []td.Task) (*td.Task, error) {
	var own, other td.TaskID
	for _, t := range live {
		st := t.Status
		if t.Project != s.Root() || st.State == td.Paused || st.State == td.Blocked && !st.Blocked.Passes() {
			continue
		}
		if _, about := v.states[t.ID]; about {
			own = t.ID
		} else if st.State != td.Waiting {
			other = t.ID
		}
	}
	id := cmp.Or(own, other)
	if id == "" {
		return nil, nil
	}
	t, err := d.journal.Task(ctx, id)
	return &t, err
}

// locks are mutexes by name.
type locks struct{ all sync.Map }

func (l *locks) of(name string) *sync.Mutex {
	m, _ := l.all.LoadOrStore(name, new(sync.Mutex))
	return m.(*sync.Mutex)
}

// startPlanned starts a task that is ready. One that a run let go of is taken up again; one that ran before, and was reset,
// begins anew.
func (d *Daemon) startPlanned(ctx context.Context, s *graph.Store, id td.TaskID, in api.RunNext) (*td.Task, error) {
	p, err := s.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	t, err := d.journal.Task(ctx, id)
	switch {
	case err == nil && !t.Status.State.Terminal() && t.Status.State != td.Paused:
		return &t, nil // somebody was faster
	case err == nil:
		return d.order(ctx, t, specOf(s.Root(), p, in), in)
	case !td.IsKind(err, td.NotFound):
		return nil, err
	}
	spec := specOf(s.Root(), p, in)
	spec.Order = orderOf(td.Task{}, in)
	fpBeforePlanned.Hit()
	t, err = d.journal.Create(ctx, spec, string(spec.ID))
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Handle, err)
	}
	fpPlannedStarted.Hit()
	d.projects.note(t.ID)
	d.sched.Wake(ctx, t, false)
	return &t, nil
}

// specOf is what is asked for by a planned task and the run that starts it.
func specOf(root string, p graph.Task, in api.RunNext) td.Spec {
	spec := td.Spec{
		ID: p.ID, Handle: p.Handle, Kind: p.Kind, Title: p.Title, Prompt: promptOf(p), Dir: root, Project: root, Mode: td.Autonomous,
		Tier: p.Tier, Model: in.Model, Validator: p.Validator, Priority: p.Priority, Labels: p.Labels, Yes: in.Yes, Permissions: in.Permissions,
		Budget: in.Budget, Rehearsal: in.Rehearsal, CreatedAt: time.Now().UTC().Round(0), CreatedBy: in.By,
	}
	if spec.Tier == "" {
		spec.Tier = td.Worker
	}
	return spec
}

func promptOf(p graph.Task) string {
	if p.Text == "" || p.Text == p.Title {
		return p.Title
	}
	return p.Title + "\n\n" + p.Text
}

func orderOf(t td.Task, in api.RunNext) *td.Order {
	o := td.Order{Run: in.Run, Strategy: in.Strategy, Verify: in.Verify}
	if o.Strategy == "" {
		o.Strategy = td.CostOptimized
	}
	if in.Left > 0 {
		o.Until = t.Iteration + in.Left
	}
	return &o
}

// order gives a task that rests, or has ended and was reset, to a run, and returns when it was taken. What is asked for now
// counts, not what was asked for when it was created; a rehearsal stays unless another is given.
func (d *Daemon) order(ctx context.Context, t td.Task, now td.Spec, in api.RunNext) (*td.Task, error) {
	cmd := td.Command{
		Key: in.Key, Type: td.CmdOrder, At: time.Now().UTC().Round(0), By: in.By, Order: orderOf(t, in),
	}
	if now.Rehearsal == "" {
		now.Rehearsal = t.Rehearsal
	}
	cmd.Order.Asks = t.AskedAnew(now)
	if cmd.Key == "" {
		cmd.Key = string(td.NewRequestID())
	}
	if err := td.Refuse(t, cmd, cmd.At); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, orderLimit)
	defer cancel()
	from, err := d.journal.Last(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.post(ctx, t, cmd); err != nil {
		return nil, err
	}
	for ev, err := range d.journal.Follow(ctx, store.EventFilter{Tasks: []td.TaskID{t.ID}}, from) {
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", t.Handle, err)
		}
		if ev.Takes == cmd.Key {
			break
		}
	}
	if ctx.Err() != nil {
		return nil, td.Errorf(td.Timeout, "%s does not take the order of the run", t.Handle).WithHint("taskdaemon task show %s", t.Handle)
	}
	t, err = d.journal.Task(ctx, t.ID)
	return &t, err
}

// orderLimit is how long a task may take to obey: nobody holds it.
const orderLimit = 30 * time.Second
