package daemon

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

var (
	fpPlannedClaimed = failpoint.New("daemon.run.claimed")
	fpBeforePlanned  = failpoint.New("daemon.run.before_start")
	fpPlannedStarted = failpoint.New("daemon.run.started")
)

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

// viewScope looks at the graph. What another clone has claimed is not ready, unless it is to be taken.
func viewScope(ctx context.Context, s *graph.Store, scope td.TaskID, force bool) (scoped, error) {
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
			_, taken := s.Taken(id)
			if st.Ready && (force || !taken) {
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

// counts are how many of the tasks were completed, and how many ended otherwise.
func (v scoped) counts() (completed, failed, cancelled int) {
	for _, state := range v.states {
		switch {
		case state == td.Completed:
			completed++
		case state == td.Cancelled:
			cancelled++
		case state.Terminal():
			failed++
		}
	}
	return completed, failed, cancelled
}

// workOnItself has a PRD that has a spec, and no tasks, be the one task of a run that is about it: it is small. Whoever makes
// tasks of it is not to be overtaken.
func (d *Daemon) workOnItself(ctx context.Context, s *graph.Store, id td.TaskID) error {
	t, err := s.Task(ctx, id)
	if err != nil || t.Kind != td.KindPRD || t.Direct || t.Verdict != nil {
		return err
	}
	authors, err := d.authors(ctx, s)
	if err != nil {
		return err
	}
	for _, a := range authors[id] {
		if !a.State.Terminal() {
			return td.Errorf(td.Conflict, "run %s: %s is at work on it (%s)", t.Handle, a.Handle, a.Phase).WithHint("taskdaemon prd create %s", t.Slug)
		}
	}
	direct, err := s.WorkOnItself(ctx, id)
	if direct {
		d.projects.touch(s.Root())
	}
	return err
}

// startPlanned starts a task that is ready for a run that may begin so many iterations of it; 0: any number. One that a
// run let go of is taken up again; one that ran before, and was reset, begins anew. One that somebody else started is nil.
func (d *Daemon) startPlanned(ctx context.Context, s *graph.Store, id td.TaskID, in td.GraphOrder, grant int) (*td.Task, error) {
	p, err := s.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	t, err := d.journal.Task(ctx, id)
	if err == nil && !t.Status.State.Terminal() && t.Status.State != td.Paused {
		return nil, nil
	}
	if err == nil && t.Status.State.Terminal() {
		// It was opened again, it ended since somebody looked, or it ended in another clone before this one had it: the graph knows
		// when it has heard of the end.
		if err := d.projects.compare(ctx, s.Root()); err != nil {
			return nil, err
		}
		if p, err = s.Task(ctx, id); err != nil || p.Verdict != nil || untold(&p, t) {
			return nil, err
		}
	}
	spec, known := specOf(s.Root(), p, in), err == nil
	switch {
	case known:
		spec.Worktree = t.Worktree
	case !td.IsKind(err, td.NotFound):
		return nil, err
	default:
		spec.Order = orderOf(td.Task{}, in, grant)
		if spec, err = d.placed(ctx, s, spec, in.InPlace); err != nil {
			return nil, fmt.Errorf("start %s: %w", p.Handle, err)
		}
		if g, err := d.runs.named(ctx, in.Run); err != nil || g.Held != nil {
			return nil, err // looking at the trunk told that it has lost history
		}
	}
	if err := d.seesBlockers(ctx, s, spec); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Handle, err)
	}
	host, _ := os.Hostname()
	if err := s.Claim(ctx, id, in.By, host, in.Force); td.IsKind(err, td.Conflict) {
		return nil, nil // it was claimed or closed this very moment
	} else if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Handle, err)
	}
	fpPlannedClaimed.Hit()
	d.projects.touch(s.Root())
	if known {
		return d.order(ctx, t, spec, in, grant)
	}
	fpBeforePlanned.Hit()
	t, err = d.create(ctx, spec, string(spec.ID))
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Handle, err)
	}
	fpPlannedStarted.Hit()
	d.projects.note(t.ID)
	d.trunks.begun(t)
	d.sched.Wake(ctx, t, false)
	return &t, nil
}

// placed gives a planned task that was never started a worktree, if it is to have one.
func (d *Daemon) placed(ctx context.Context, s *graph.Store, spec td.Spec, inPlace bool) (td.Spec, error) {
	feature, _, err := s.PRDOf(ctx, spec.ID)
	if err != nil {
		return spec, err
	}
	trunk, err := d.trunkFor(ctx, spec.Dir, inPlace, feature.Slug)
	if err != nil {
		return spec, err
	}
	return d.apart(spec, trunk, feature.Slug)
}

// specOf is what is asked for by a planned task and the run that starts it.
func specOf(root string, p graph.Task, in td.GraphOrder) td.Spec {
	spec := td.Spec{
		ID: p.ID, Handle: p.Handle, Kind: p.Kind, Title: p.Title, Prompt: promptOf(p), Dir: root, Project: root, Mode: td.Autonomous,
		Tier: p.Tier, Model: in.Model, Validator: p.Validator, Priority: p.Priority, Labels: p.Labels, Yes: in.Yes, Permissions: in.Permissions,
		Budget: in.Budget, TokenBudget: in.TokenBudget, Rehearsal: in.Rehearsal, CreatedAt: time.Now().UTC().Round(0), CreatedBy: in.By,
	}
	if spec.Tier == "" {
		spec.Tier = td.Worker
	}
	return spec
}

func promptOf(p graph.Task) string {
	if p.Direct {
		return strings.TrimSpace(fmt.Sprintf(featurePrompt, p.Title) + "\n\n" + p.Text)
	}
	if p.Text == "" || p.Text == p.Title {
		return p.Title
	}
	return p.Title + "\n\n" + p.Text
}

// featurePrompt is what is asked of whoever works on a PRD itself.
const featurePrompt = "Build the feature %q, all of it, as its documents above say."

func orderOf(t td.Task, in td.GraphOrder, grant int) *td.Order {
	o := td.Order{Run: in.Run, Strategy: in.Strategy, Verify: in.Verify, Since: t.Status.Since}
	if o.Strategy == "" {
		o.Strategy = td.CostOptimized
	}
	if grant > 0 {
		o.Until = t.Iteration + grant
	}
	return &o
}

// order gives a task that rests, or has ended and was reset, to a run, and returns when it was taken. What is asked for now
// counts, not what was asked for when it was created; a rehearsal stays unless another is given. One that has moved since it
// was looked at, as by the same order that a killed daemon left in its inbox, is nil.
func (d *Daemon) order(ctx context.Context, t td.Task, now td.Spec, in td.GraphOrder, grant int) (*td.Task, error) {
	from, err := d.journal.Last(ctx)
	if err != nil {
		return nil, err
	}
	if fresh, err := d.journal.Task(ctx, t.ID); err != nil || fresh.Head != t.Head {
		return nil, err
	}
	cmd := td.Command{
		// The same order after a restart is the same command: it may be in the inbox already.
		Key: fmt.Sprintf("order/%s/%d", in.Run, t.Head), Type: td.CmdOrder, At: time.Now().UTC().Round(0), By: in.By, Order: orderOf(t, in, grant),
	}
	if now.Rehearsal == "" {
		now.Rehearsal = t.Rehearsal
	}
	cmd.Order.Asks = t.AskedAnew(now)
	if t.Worktree != nil {
		if cmd.Order.Onto, err = d.trunks.since(ctx, *t.Worktree); err != nil {
			return nil, fmt.Errorf("start %s: %w", t.Handle, err)
		}
	}
	if err := td.Refuse(t, cmd, cmd.At); err != nil {
		return nil, err
	}
	if err := d.post(ctx, t, cmd); err != nil {
		return nil, err
	}
	if obeyed, err := d.taken(ctx, t, cmd.Key, from); err != nil || !obeyed {
		return nil, err
	}
	if t, err = d.journal.Task(ctx, t.ID); err == nil {
		d.trunks.begun(t)
	}
	return &t, err
}

// taken waits until a task has taken the command of this key, and reports whether it obeyed.
func (d *Daemon) taken(ctx context.Context, t td.Task, key string, from uint64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, orderLimit)
	defer cancel()
	for ev, err := range d.journal.Follow(ctx, store.EventFilter{Tasks: []td.TaskID{t.ID}}, from) {
		if err != nil {
			return false, fmt.Errorf("start %s: %w", t.Handle, err)
		}
		if ev.Takes == key {
			_, ignored := ev.Body.(td.Ignored)
			return !ignored, nil
		}
	}
	return false, td.Errorf(td.Timeout, "%s does not take the command to go on", t.Handle).WithHint("taskdaemon task show %s", t.Handle)
}

// limit binds a task that is at work by what a run may still begin, whoever started it. It takes effect before the next
// iteration, and is not waited for.
func (d *Daemon) limit(ctx context.Context, t td.Task, in td.GraphOrder, until int) error {
	cmd := td.Command{
		Key: fmt.Sprintf("limit/%s/%d", in.Run, until), Type: td.CmdLimit, At: time.Now().UTC().Round(0), By: in.By,
		Order: &td.Order{Run: in.Run, Until: until},
	}
	if td.Refuse(t, cmd, cmd.At) != nil {
		return nil // it has ended meanwhile
	}
	return d.post(ctx, t, cmd)
}

// orderLimit is how long a task may take to obey: nobody holds it.
const orderLimit = 30 * time.Second
