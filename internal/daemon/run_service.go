package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/config"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/git"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

var (
	fpRunOrdering = failpoint.New("daemon.runs.before_order")
	fpRunOrdered  = failpoint.New("daemon.runs.ordered")
)

// maxParallel bounds how many tasks of one run are at work at once.
const maxParallel = 1000

// StartRun has the daemon carry out a run over a graph, and starts its first tasks. If a run over the same tasks is under
// way, that is the answer: what was asked for then counts, but for a limit that is given now.
func (d *Daemon) StartRun(ctx context.Context, in api.StartRun) (api.Run, error) {
	if err := d.accepting(); err != nil {
		return api.Run{}, err
	}
	if err := checkRun(ctx, in); err != nil {
		return api.Run{}, err
	}
	s, err := d.projects.of(ctx, in.Dir)
	if err != nil {
		return api.Run{}, err
	}
	var scope td.TaskID
	if in.Target != "" {
		if scope, err = (&refs{s: s}).one(ctx, in.Target); err != nil {
			return api.Run{}, err
		}
	}
	out, err := d.runs.begin(ctx, s, scope, in)
	d.runs.look()
	if err != nil {
		return api.Run{}, err
	}
	return d.runs.shown(ctx, out)
}

// begin orders a run and takes its first step. Nothing else takes one in between, so that the answer tells what was started.
func (r *runs) begin(ctx context.Context, s *graph.Store, scope td.TaskID, in api.StartRun) (api.Run, error) {
	release, err := r.starting.hold(ctx, s.Root())
	if err != nil {
		return api.Run{}, err
	}
	defer release()
	g, attached, err := r.order(ctx, s, scope, in)
	if err != nil {
		return api.Run{}, err
	}
	from, err := r.journal.Last(ctx)
	if err != nil {
		return api.Run{}, err
	}
	out, err := r.step(ctx, g)
	r.noted(g.Run, err)
	if err != nil {
		// The order stands, and is carried out as soon as that can be: who is told that the run failed would start another.
		r.o.Log.Warn("the first step of a run could not be taken; it is tried again", "run", g.Run, "err", err)
		out.GraphRun, out.Later = g, r.obstacles(g.Run)
	}
	out.Attached, out.Cursor = attached, from
	return out, nil
}

func checkRun(ctx context.Context, in api.StartRun) error {
	switch {
	case in.Strategy != "" && !slices.Contains(td.ModelStrategies, in.Strategy):
		return td.Errorf(td.Invalid, "model strategy %q: it is one of %v", in.Strategy, td.ModelStrategies)
	case in.Limit < 0:
		return td.Errorf(td.Invalid, "a limit of %d iterations: it must not be negative", in.Limit)
	case in.Parallel < 0 || in.Parallel > maxParallel:
		return td.Errorf(td.Invalid, "%d tasks at once: it is between 1 and %d", in.Parallel, maxParallel)
	case in.Permissions != "" && !slices.Contains(td.PermissionModes, in.Permissions):
		return td.Errorf(td.Invalid, "permission mode %q: it is one of %v", in.Permissions, td.PermissionModes)
	case in.Budget < 0 || in.Budget > td.MaxBudget:
		return td.Errorf(td.Invalid, "a budget of %s: it is between $0 and %s", in.Budget, td.MaxBudget)
	case in.TokenBudget < 0 || in.TokenBudget > td.MaxTokenBudget:
		return td.Errorf(td.Invalid, "a budget of %s: it is between 0 and %s", in.TokenBudget, td.MaxTokenBudget)
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

// order records what is wanted of a run, unless one over the same tasks is under way, or the call was made before. The
// project is held.
func (r *runs) order(ctx context.Context, s *graph.Store, scope td.TaskID, in api.StartRun) (g td.GraphRun, attached bool, err error) {
	known, err := r.journal.Runs(ctx, store.RunFilter{Project: s.Root()})
	if err != nil {
		return g, false, err
	}
	for _, k := range known {
		if in.Key != "" && k.Key == in.Key || k.Open() && k.Target == scope && k.Stop == nil && (in.Run == "" || in.Run == k.Run) {
			g, err := r.limited(ctx, k, in)
			return g, true, err
		}
	}
	if scope != "" {
		if err := r.workOnItself(ctx, s, scope); err != nil {
			return g, false, err
		}
	}
	order := td.GraphOrder{
		Run: in.Run, Key: cmp.Or(in.Key, string(td.NewRequestID())), Project: s.Root(), Target: scope, By: in.By, Parallel: in.Parallel,
		Limit: in.Limit, Strategy: cmp.Or(in.Strategy, td.CostOptimized), Verify: in.Verify, Model: in.Model, Yes: in.Yes,
		Permissions: in.Permissions, Budget: in.Budget, TokenBudget: in.TokenBudget, Rehearsal: in.Rehearsal, InPlace: in.InPlace, Force: in.Force,
	}
	if order.Parallel == 0 {
		order.Parallel = r.widest(ctx, s.Root(), in)
	}
	if in.Run == "" {
		order.Run = td.NewGraphRunName()
	} else if order.Limit, err = r.goOn(ctx, known, in); err != nil {
		return g, false, err
	}
	fpRunOrdering.Hit()
	if err := r.Daemon.own.append(ctx, td.GraphRunOrdered{Order: order}); err != nil {
		return g, false, fmt.Errorf("start a run: %w", err)
	}
	fpRunOrdered.Hit()
	g, err = r.named(ctx, order.Run)
	return g, false, err
}

// widest is how many tasks of a run are at work at once if nobody said how many: as many as the config lets run, and one
// where they all work in the same folder.
func (r *runs) widest(ctx context.Context, project string, in api.StartRun) int {
	c := r.o.Config.In(project)
	if info, err := git.Describe(ctx, project); err != nil || !info.Repo || in.InPlace || c.Worktree.Use == config.WorktreeOff {
		return 1
	}
	n := c.Limits.Loops
	if c.Limits.LoopsPerProject > 0 {
		n = min(n, c.Limits.LoopsPerProject)
	}
	return min(n, maxParallel)
}

// limited is a run that is under way, held to another limit if one is given.
func (r *runs) limited(ctx context.Context, g td.GraphRun, in api.StartRun) (td.GraphRun, error) {
	if in.Limit == 0 || in.Key == g.Key || !g.Open() {
		return g, nil
	}
	n, err := r.counted(ctx, g)
	if err != nil {
		return g, err
	}
	order := g.GraphOrder
	order.Key, order.Limit = cmp.Or(in.Key, string(td.NewRequestID())), n.begun+in.Limit
	if err := r.Daemon.own.append(ctx, td.GraphRunOrdered{Order: order}); err != nil {
		return g, fmt.Errorf("limit the run %s: %w", g.Run, err)
	}
	return r.named(ctx, g.Run)
}

// goOn is the limit of a run that was stopped and is to go on: those that it began are spent.
func (r *runs) goOn(ctx context.Context, known []td.GraphRun, in api.StartRun) (limit int, err error) {
	i := slices.IndexFunc(known, func(g td.GraphRun) bool { return g.Run == in.Run })
	if i < 0 || known[i].End == nil || known[i].End.Outcome != td.RunInterrupted {
		return 0, td.Errorf(td.Conflict, "%s is no run that was stopped", in.Run).WithHint("taskdaemon run list")
	}
	if in.Limit == 0 {
		return 0, nil
	}
	n, err := r.counted(ctx, known[i])
	if err != nil {
		return 0, err
	}
	return n.begun + in.Limit, nil
}

// Runs are the runs over graphs that match, the newest first.
func (d *Daemon) Runs(ctx context.Context, q api.RunQuery) ([]api.Run, error) {
	f := store.RunFilter{Open: q.Open, Limit: q.Limit}
	if q.Dir != "" {
		s, err := d.projects.of(ctx, q.Dir)
		if err != nil {
			return nil, err
		}
		f.Project = s.Root()
	}
	if q.Run != "" {
		name, err := d.runs.meant(ctx, q.Run)
		if err != nil {
			return nil, err
		}
		f.Run = name
	}
	found, err := d.journal.Runs(ctx, f)
	if err != nil {
		return nil, err
	}
	out := make([]api.Run, len(found))
	for i, g := range found {
		if out[i], err = d.runs.shown(ctx, d.runs.seen(ctx, g)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// meant is the name of the run that a person means.
func (r *runs) meant(ctx context.Context, ref string) (string, error) {
	all, err := r.journal.Runs(ctx, store.RunFilter{})
	if err != nil {
		return "", err
	}
	var found []string
	for _, g := range all {
		if g.Run == ref {
			return ref, nil
		}
		if strings.Contains(g.Run, ref) {
			found = append(found, g.Run)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", td.Errorf(td.NotFound, "no run is named %s", ref).WithHint("taskdaemon run list")
	}
	return "", td.Errorf(td.Ambiguous, "%s may be %s", ref, strings.Join(found[:min(len(found), 10)], ", "))
}

// seen is how a run stands, without taking it further. What cannot be asked now is left out.
func (r *runs) seen(ctx context.Context, g td.GraphRun) api.Run {
	if !g.Open() {
		return api.Run{GraphRun: g}
	}
	release, err := r.starting.hold(ctx, g.Project)
	if err != nil {
		return api.Run{GraphRun: g}
	}
	defer release()
	s, err := r.projects.at(ctx, g.Project)
	if err == nil {
		var at standing
		if at, err = r.stands(ctx, s, g); err == nil {
			out := at.describe()
			out.Later = r.obstacles(g.Run)
			return out
		}
	}
	r.o.Log.Warn("look how a run stands", "run", g.Run, "err", err)
	return api.Run{GraphRun: g}
}

// shown adds what people want to know of a run.
func (r *runs) shown(ctx context.Context, out api.Run) (api.Run, error) {
	out.Rehearsal = "" // it may be long
	if end := out.End; end != nil {
		out.Completed, out.Failed, out.Cancelled, out.Remaining, out.Iterations = end.Completed, end.Failed, end.Cancelled, end.Open, end.Iterations
	}
	s, err := r.projects.at(ctx, out.Project)
	if err != nil {
		return out, nil // the project is away: the rest is known
	}
	if out.Target != "" {
		if t, err := s.Task(ctx, out.Target); err == nil {
			out.Title = t.Title
		}
	}
	if out.End == nil || out.End.Outcome == td.RunBlocked {
		v, err := viewScope(ctx, s, out.Target, out.Force)
		if err != nil {
			return out, err
		}
		if out.InTheWay, err = r.planned(ctx, s, v.waiting); err != nil {
			return out, err
		}
	}
	return out, nil
}

// StopRun ends a run before it is through. One that has ended is left as it is.
func (d *Daemon) StopRun(ctx context.Context, in api.StopRun) (api.Run, error) {
	if err := d.accepting(); err != nil {
		return api.Run{}, err
	}
	name, err := d.runs.meant(ctx, in.Run)
	if err != nil {
		return api.Run{}, err
	}
	if err := d.runs.stop(ctx, name, in.By); err != nil {
		return api.Run{}, err
	}
	out, err := d.runs.advance(ctx, name)
	d.runs.look() // if it could not be ended now it is later
	if err != nil {
		return api.Run{}, fmt.Errorf("stop the run %s: %w", name, err)
	}
	return d.runs.shown(ctx, out)
}

// stop records that a run is to stop.
func (r *runs) stop(ctx context.Context, name, by string) error {
	g, err := r.named(ctx, name)
	if err != nil {
		return err
	}
	release, err := r.starting.hold(ctx, g.Project)
	if err != nil {
		return err
	}
	defer release()
	if g, err = r.named(ctx, name); err != nil || !g.Open() || g.Stop != nil {
		return err
	}
	return r.Daemon.own.append(ctx, td.GraphRunStopped{Run: name, Stop: td.GraphStop{Outcome: td.RunInterrupted, By: by}})
}
