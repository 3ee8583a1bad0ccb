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
	once := s.Once(in.Key)
	id, err := r.one(ctx, in.Ref)
	if td.IsKind(err, td.NotFound) {
		// It may be gone because it was deleted: the answer to that was lost, and it is given again.
		if was, deleted, derr := once.Deleted(ctx); derr == nil && deleted {
			return plain(&was), nil
		}
	}
	if err != nil {
		return api.Planned{}, err
	}
	defer d.projects.touch(s.Root())
	before, err := d.plannedOne(ctx, s, id)
	if err != nil {
		return api.Planned{}, err
	}
	// A run that has found the task ready starts it first, or looks again.
	release, err := d.starting.hold(ctx, s.Root())
	if err != nil {
		return api.Planned{}, err
	}
	defer release()
	if in.Verb != api.PlanUpdate {
		// What the journal knows was before: that a task ended or began anew would undo what is decided now.
		if err := d.projects.catchUp(ctx, s.Root()); err != nil {
			return api.Planned{}, err
		}
	}
	switch in.Verb {
	case api.PlanUpdate:
		if in.Validator != nil {
			err = d.validates(s.Root(), *in.Validator)
		}
		if err == nil {
			err = updatePlan(ctx, once, r, id, in)
		}
		if err == nil && in.Validator != nil {
			d.vouch(ctx, s.Root(), in.By, *in.Validator)
		}
	case api.PlanDone:
		err = d.endPlanned(ctx, once, before, graph.Verdict{State: td.Completed, Summary: in.Words, By: in.By})
	case api.PlanFail:
		err = d.endPlanned(ctx, once, before, graph.Verdict{State: td.Failed, Reason: in.Words, By: in.By})
	case api.PlanReset:
		if err = d.atRest(ctx, before); err == nil {
			err = once.Reopen(ctx, id)
		}
		if err == nil {
			err = s.Unclaim(ctx, id, true) // whoever had it has it no more
		}
	case api.PlanDelete:
		if before.Kind == td.KindPRD {
			return before, td.Errorf(td.Conflict, "delete %s: it is a PRD, with documents and tasks of its own", before.Handle).
				WithHint("taskdaemon prd delete %s", before.Handle)
		}
		if err = d.atRest(ctx, before); err == nil {
			err = once.Delete(ctx, id)
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

// atRest fails if a task is at work: then it has to be cancelled first. What the graph says of it is no sign: one that
// ended and was opened again counts as queued there.
func (d *Daemon) atRest(ctx context.Context, p api.Planned) error {
	t, err := d.journal.Task(ctx, p.ID)
	if td.IsKind(err, td.NotFound) || err == nil && t.Status.State.Terminal() {
		return nil
	}
	if err != nil {
		return err
	}
	return td.Errorf(td.Conflict, "%s is %s", p.Handle, t.Status.State).WithHint("taskdaemon task cancel %s", p.Handle)
}

func updatePlan(ctx context.Context, once graph.Once, r *refs, id td.TaskID, in api.ChangePlan) (err error) {
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
	_, err = once.Edit(ctx, id, e)
	return err
}

// endPlanned writes down a person's verdict, and stops a run that is still at it. The verdict stands first: if the
// daemon dies in between, the next one stops the run, and what it says of itself counts no more.
func (d *Daemon) endPlanned(ctx context.Context, once graph.Once, p api.Planned, v graph.Verdict) error {
	v.At = time.Now().UTC().Round(0)
	if err := once.End(ctx, p.ID, v); err != nil {
		return err
	}
	t, err := d.journal.Task(ctx, p.ID)
	if td.IsKind(err, td.NotFound) || err == nil && t.Status.State.Terminal() {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = d.Command(ctx, string(p.ID), closing(v))
	return err
}
