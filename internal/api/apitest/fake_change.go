package apitest

import (
	"context"
	"slices"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// ChangePlan changes one task of a graph.
func (f *Fake) ChangePlan(_ context.Context, in api.ChangePlan) (api.Planned, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g, err := f.graphOf(in.Dir); err == nil {
		if p, made := g.once[in.Key]; made && in.Key != "" {
			return p, nil
		}
	}
	g, t, err := f.planned(in.Dir, in.Ref)
	if err != nil {
		return api.Planned{}, err
	}
	before := g.describe([]td.TaskID{t.ID})[0]
	next := *t
	switch in.Verb {
	case api.PlanUpdate:
		err = g.update(&next, in)
	case api.PlanDone, api.PlanFail:
		if before.Container {
			return api.Planned{}, td.Errorf(td.Conflict, "%s holds other tasks: it ends when they do", t.Handle).WithHint("taskdaemon task tree %s", t.Handle)
		}
		next.State, next.Summary = td.Completed, in.Words
		if in.Verb == api.PlanFail {
			next.State, next.Summary, next.Reason = td.Failed, "", in.Words
		}
	case api.PlanReset:
		next.State, next.Summary, next.Reason = td.Queued, "", ""
	case api.PlanDelete:
		delete(g.tasks, t.ID)
		g.graph.Remove(t.ID)
		g.once[in.Key] = before
		return before, nil
	default:
		err = td.Errorf(td.Invalid, "nothing can be done by %q", string(in.Verb))
	}
	if err != nil {
		return api.Planned{}, err
	}
	*t = next
	t.note(string(in.Verb))
	g.graph.Put(t.node())
	g.once[in.Key] = g.describe([]td.TaskID{t.ID})[0]
	return g.once[in.Key], nil
}

func (g *fakeGraph) update(t *fakeTask, in api.ChangePlan) error {
	if in.Title != nil {
		t.Title = strings.TrimSpace(*in.Title)
	}
	if in.Text != nil {
		t.Text = *in.Text
	}
	if in.Validator != nil {
		t.Validator = *in.Validator
	}
	if in.Priority != nil {
		t.Priority = *in.Priority
	}
	t.Labels = changed(t.Labels, in.AddLabels, in.RemoveLabels)
	if err := t.fits(); err != nil {
		return err
	}
	if in.Parent != nil {
		var err error
		if t.parent = ""; *in.Parent != "" {
			if t.parent, err = g.resolve(*in.Parent, nil); err != nil {
				return err
			}
			if err := g.graph.CheckParent(t.ID, t.parent); err != nil {
				return td.Errorf(td.Conflict, "%w", err).WithHint("taskdaemon task tree %s", t.Handle)
			}
		}
	}
	lists := [4][]td.TaskID{}
	for i, refs := range [][]string{in.AddBlockers, in.RemoveBlockers, in.AddRelated, in.RemoveRelated} {
		var err error
		if lists[i], err = g.resolveAll(refs, nil); err != nil {
			return err
		}
	}
	for _, b := range lists[0] {
		if err := g.graph.CheckBlocker(t.ID, b); err != nil {
			return td.Errorf(td.Conflict, "%w", err).WithHint("taskdaemon task deps list %s", t.Handle)
		}
	}
	for _, id := range lists[3] {
		if other := g.tasks[id]; other != nil {
			other.related = changed(other.related, nil, []td.TaskID{t.ID})
		}
	}
	t.blockers, t.related = changed(t.blockers, lists[0], lists[1]), changed(t.related, lists[2], lists[3])
	return nil
}

// changed is a set with members added and removed.
func changed[T comparable](set, add, remove []T) []T {
	out := slices.DeleteFunc(slices.Clone(set), func(m T) bool { return slices.Contains(remove, m) || slices.Contains(add, m) })
	return append(out, add...)
}
