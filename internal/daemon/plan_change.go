package daemon

import (
	"context"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/td"
)

// ChangePlan changes one task of a graph.
func (d *Daemon) ChangePlan(ctx context.Context, in api.ChangePlan) (api.Planned, error) {
	if err := d.accepting(); err != nil {
		return api.Planned{}, err
	}
	s, err := d.projects.of(ctx, in.Dir)
	if err != nil {
		return api.Planned{}, err
	}
	r := &refs{s: s}
	id, err := r.one(ctx, in.Ref)
	if err != nil {
		return api.Planned{}, err
	}
	defer d.projects.touch(s.Root())
	before, err := d.plannedOne(ctx, s, id)
	if err != nil {
		return api.Planned{}, err
	}
	switch in.Verb {
	case api.PlanUpdate:
		err = d.updatePlan(ctx, r, id, in)
	case api.PlanDone:
		err = d.endPlanned(ctx, s, before, graph.Verdict{State: td.Completed, Summary: in.Words, By: in.By})
	case api.PlanFail:
		err = d.endPlanned(ctx, s, before, graph.Verdict{State: td.Failed, Reason: in.Words, By: in.By})
	case api.PlanReset:
		if err = atRest(before); err == nil {
			err = s.Reopen(ctx, id)
		}
	case api.PlanDelete:
		if err = atRest(before); err == nil {
			err = s.Delete(ctx, id)
		}
		return before, err
	default:
		err = td.Errorf(td.Invalid, "nothing can be done by %q", string(in.Verb)).WithHint("update, done, fail, reset or delete")
	}
	if err != nil {
		return api.Planned{}, err
	}
	return d.plannedOne(ctx, s, id)
}

// atRest fails if a task is at work: then it has to be cancelled first.
func atRest(p api.Planned) error {
	if p.Container || p.State.Terminal() || !p.Ran || p.State == td.Blocked && p.Obstacle != "" {
		return nil
	}
	return td.Errorf(td.Conflict, "%s is %s", p.Handle, p.State).WithHint("taskdaemon task cancel %s", p.Handle)
}

func (d *Daemon) updatePlan(ctx context.Context, r *refs, id td.TaskID, in api.ChangePlan) (err error) {
	e := graph.Edit{
		Title: in.Title, Text: in.Text, Validator: in.Validator, Priority: in.Priority,
		AddLabels: in.AddLabels, RemoveLabels: in.RemoveLabels,
	}
	if in.Parent != nil {
		var parent td.TaskID
		if *in.Parent != "" {
			if parent, err = r.one(ctx, *in.Parent); err != nil {
				return err
			}
		}
		e.Parent = &parent
	}
	for _, list := range []struct {
		from []string
		to   *[]td.TaskID
	}{
		{in.AddBlockers, &e.AddBlockers}, {in.RemoveBlockers, &e.RemoveBlockers},
		{in.AddRelated, &e.AddRelated}, {in.RemoveRelated, &e.RemoveRelated},
	} {
		if *list.to, err = r.all(ctx, list.from); err != nil {
			return err
		}
	}
	_, err = r.s.Edit(ctx, id, e)
	return err
}

// endPlanned writes down a person's verdict, and stops a run that is still at it. The verdict stands first: if the
// daemon dies in between, the run is stopped when the person says so again, and what it says of itself counts no
// more.
func (d *Daemon) endPlanned(ctx context.Context, s *graph.Store, p api.Planned, v graph.Verdict) error {
	v.At = time.Now().UTC().Round(0)
	if err := s.End(ctx, p.ID, v); err != nil {
		return err
	}
	t, err := d.journal.Task(ctx, p.ID)
	if td.IsKind(err, td.NotFound) || err == nil && t.Status.State.Terminal() {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = d.Command(ctx, string(p.ID), api.Command{Type: td.CmdCancel, By: v.By, Text: "closed by hand: " + string(v.State)})
	return err
}
