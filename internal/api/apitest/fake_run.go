package apitest

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// StartRun keeps a run and starts the first that are ready. Nothing works on them.
func (f *Fake) StartRun(_ context.Context, in api.StartRun) (api.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.graphOf(in.Dir)
	if err != nil {
		return api.Run{}, err
	}
	if in.Strategy != "" && !slices.Contains(td.ModelStrategies, in.Strategy) {
		return api.Run{}, td.Errorf(td.Invalid, "model strategy %q: it is one of %v", in.Strategy, td.ModelStrategies)
	}
	if in.Parallel < 0 || in.Limit < 0 {
		return api.Run{}, td.Errorf(td.Invalid, "neither %d tasks at once nor %d iterations", in.Parallel, in.Limit)
	}
	var scope td.TaskID
	if in.Target != "" {
		if scope, err = g.resolve(in.Target, nil); err != nil {
			return api.Run{}, err
		}
	}
	cursor := uint64(len(f.events))
	for _, run := range f.runs {
		if run.Open() && run.Target == scope && run.Project == g.root || run.Key == in.Key && in.Key != "" {
			out := f.advance(run)
			out.Attached, out.Cursor = true, cursor
			return out, nil
		}
	}
	run := &td.GraphRun{GraphOrder: td.GraphOrder{
		Run: cmp.Or(in.Run, td.NewGraphRunName()), Key: in.Key, Project: g.root, Target: scope, By: in.By, Parallel: max(1, in.Parallel), Strategy: in.Strategy, Verify: in.Verify,
	}, From: cursor, StartedAt: now()}
	f.runs = append(f.runs, run)
	out := f.advance(run)
	out.Cursor = cursor
	return out, nil
}

// Runs are those that match, each taken as far as it goes.
func (f *Fake) Runs(_ context.Context, q api.RunQuery) (out []api.Run, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.Run != "" {
		if _, err := f.run(q.Run); err != nil {
			return nil, err
		}
	}
	for _, run := range slices.Backward(f.runs) {
		if g, err := f.graphOf(q.Dir); q.Dir != "" && (err != nil || g.root != run.Project) || !strings.Contains(run.Run, q.Run) {
			continue
		}
		if now := f.advance(run); (now.Open() || !q.Open) && (q.Limit == 0 || len(out) < q.Limit) {
			out = append(out, now)
		}
	}
	return out, nil
}

// StopRun ends a run. Its tasks stay as they are: nothing works on them.
func (f *Fake) StopRun(_ context.Context, in api.StopRun) (api.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	run, err := f.run(in.Run)
	if err != nil {
		return api.Run{}, err
	}
	out := f.advance(run)
	if run.Open() {
		run.End = &td.GraphEnd{Outcome: td.RunInterrupted, At: now(), Completed: out.Completed, Failed: out.Failed, Cancelled: out.Cancelled, Open: out.Remaining}
		out.GraphRun = *run
	}
	return out, nil
}

func (f *Fake) run(ref string) (*td.GraphRun, error) {
	i := slices.IndexFunc(f.runs, func(g *td.GraphRun) bool { return strings.Contains(g.Run, ref) })
	if i < 0 || ref == "" {
		return nil, td.Errorf(td.NotFound, "no run is named %s", ref).WithHint("taskdaemon run list")
	}
	return f.runs[i], nil
}

// advance starts what a run may start, or ends it.
func (f *Fake) advance(run *td.GraphRun) api.Run {
	out := api.Run{GraphRun: *run}
	g, err := f.graphOf(run.Project)
	if err != nil || !run.Open() {
		return out
	}
	ids := g.graph.InOrder(run.Target)
	if st, _ := g.graph.Standing(run.Target); run.Target != "" && !st.Container {
		ids = []td.TaskID{run.Target}
	}
	var ready, waiting []td.TaskID
	leaves := 0
	for _, id := range ids {
		st, _ := g.graph.Standing(id)
		if st.Container {
			continue
		}
		leaves++
		at := slices.IndexFunc(f.tasks, func(t td.Task) bool { return t.ID == id })
		switch {
		case st.State == td.Completed:
			out.Completed++
			continue
		case st.State == td.Cancelled:
			out.Cancelled++
			continue
		case st.State.Terminal():
			out.Failed++
			continue
		case at >= 0 && !f.tasks[at].Status.State.Terminal():
			out.AtWork = append(out.AtWork, f.tasks[at])
		case st.Ready:
			ready = append(ready, id)
		default:
			waiting = append(waiting, id)
		}
		out.Remaining++
	}
	out.InTheWay = g.describe(waiting)
	for _, id := range ready[:max(0, min(len(ready), run.Parallel-len(out.AtWork)))] {
		p := g.tasks[id]
		f.tasks = append(f.tasks, td.Task{Spec: td.Spec{ID: id}})
		f.append(id, "", td.Created{Spec: td.Spec{
			ID: id, Handle: p.Handle, Kind: p.Kind, Title: p.Title, Prompt: p.Title, Dir: g.root, Project: g.root, Mode: td.Autonomous, Tier: td.Worker,
			Validator: p.Validator, Priority: p.Priority, CreatedAt: now(), CreatedBy: run.By, Order: &td.Order{Run: run.Run, Strategy: run.Strategy, Verify: run.Verify},
		}})
		out.Started = append(out.Started, *f.task(id))
	}
	outcome := td.RunBlocked
	switch {
	case len(out.AtWork)+len(out.Started) > 0:
		return out
	case leaves == 0:
		outcome = td.RunNoPlan
	case out.Remaining == 0:
		outcome = td.RunComplete
	}
	run.End = &td.GraphEnd{Outcome: outcome, At: now(), Completed: out.Completed, Failed: out.Failed, Cancelled: out.Cancelled, Open: out.Remaining}
	out.GraphRun = *run
	return out
}
