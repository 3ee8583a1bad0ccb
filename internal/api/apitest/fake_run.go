package apitest

import (
	"context"
	"slices"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// RunNext gives the task that is at work, or starts the first that is ready. Nothing works on it.
func (f *Fake) RunNext(_ context.Context, in api.RunNext) (api.RunStep, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.graphOf(in.Dir)
	if err != nil {
		return api.RunStep{}, err
	}
	switch {
	case in.Run == "":
		return api.RunStep{}, td.Errorf(td.Invalid, "a run has a name of 1 to 100 characters")
	case in.Strategy != "" && !slices.Contains(td.ModelStrategies, in.Strategy):
		return api.RunStep{}, td.Errorf(td.Invalid, "model strategy %q: it is one of %v", in.Strategy, td.ModelStrategies)
	}
	var scope td.TaskID
	if in.Target != "" {
		if scope, err = g.resolve(in.Target, nil); err != nil {
			return api.RunStep{}, err
		}
	}
	var out api.RunStep
	var open, closed []td.TaskID
	ids := g.graph.InOrder(scope)
	if st, _ := g.graph.Standing(scope); scope != "" && !st.Container {
		ids = []td.TaskID{scope}
	}
	for _, id := range ids {
		switch st, _ := g.graph.Standing(id); {
		case st.Container:
		case st.State == td.Completed:
			out.Completed++
			closed = append(closed, id)
		case st.State.Terminal():
			out.Failed++
			closed = append(closed, id)
		default:
			open = append(open, id)
		}
	}
	out.Open = len(open)
	if in.Look {
		return out, nil
	}
	for _, id := range open {
		at := slices.IndexFunc(f.tasks, func(t td.Task) bool { return t.ID == id })
		if at >= 0 && !f.tasks[at].Status.State.Terminal() {
			task := f.tasks[at]
			out.Task = &task
			return out, nil
		}
	}
	for _, id := range open {
		if st, _ := g.graph.Standing(id); st.Ready {
			p := g.tasks[id]
			f.tasks = append(f.tasks, td.Task{Spec: td.Spec{ID: id}})
			f.append(id, "", td.Created{Spec: td.Spec{
				ID: id, Handle: p.Handle, Kind: p.Kind, Title: p.Title, Prompt: p.Title, Dir: g.root, Project: g.root, Mode: td.Autonomous, Tier: td.Worker,
				Validator: p.Validator, Priority: p.Priority, CreatedAt: now(), CreatedBy: in.By, Order: &td.Order{Run: in.Run, Strategy: in.Strategy, Verify: in.Verify},
			}})
			task := *f.task(id)
			out.Task, out.Started = &task, true
			return out, nil
		}
	}
	switch {
	case len(open)+len(closed) == 0:
		out.Outcome = api.RunNoPlan
	case len(open) == 0:
		out.Outcome = api.RunComplete
	default:
		out.Outcome, out.InTheWay = api.RunBlocked, g.describe(open)
	}
	return out, nil
}
