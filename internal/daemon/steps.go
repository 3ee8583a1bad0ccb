package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/git"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/transcript"
)

const (
	maxStepNames = 20               // changed files that are named for each step
	maxGist      = 100              // characters of a step's input
	rewindWait   = 20 * time.Second // that a rewind is waited for
)

// stepsOf are the steps of a task that may have changed files, with all its records.
func (d *Daemon) stepsOf(ctx context.Context, ref string) (td.Task, []transcript.Step, []td.Event, error) {
	t, err := d.Task(ctx, ref)
	if err != nil {
		return td.Task{}, nil, nil, err
	}
	events, _, err := d.records(ctx, t)
	if err != nil {
		return td.Task{}, nil, nil, err
	}
	return t, transcript.Steps(events), events, nil
}

// stepMeant is the newest step with this name, which must have a tree.
func stepMeant(t td.Task, steps []transcript.Step, key td.StepKey) (transcript.Step, error) {
	for _, s := range slices.Backward(steps) {
		if s.Key != key {
			continue
		}
		if s.Tree.Tree == "" {
			return s, td.Errorf(td.Conflict, "no snapshot was taken after step %s of %s", key, t.Handle).WithHint("taskdaemon loop steps %s", t.Handle)
		}
		return s, nil
	}
	return transcript.Step{}, td.Errorf(td.NotFound, "%s has no step %q that may have changed files", t.Handle, key).
		WithHint("taskdaemon loop steps %s", t.Handle)
}

// Steps are the steps of a task that may have changed files, and what its workspace held after each.
func (d *Daemon) Steps(ctx context.Context, ref string) (api.Steps, error) {
	t, steps, _, err := d.stepsOf(ctx, ref)
	if err != nil {
		return api.Steps{}, err
	}
	out := api.Steps{Task: t, Ref: git.StepsPrefix + t.Handle, Steps: []api.Step{}}
	for _, s := range steps {
		step := api.Step{
			Step: s.Key, Tool: s.Name, Input: oneLine(s.Gist, maxGist), At: s.At, Error: s.Error, Cut: s.Cut,
			Tree: s.Tree.Tree, Commit: s.Tree.Commit,
		}
		if step.Tree != "" && s.Before != "" && s.Before != step.Tree {
			// One that is lost has no names to show; whoever wants to go there is told.
			names, _ := changedNames(ctx, t.Home(), s.Before, step.Tree)
			step.More = max(len(names)-maxStepNames, 0)
			step.Changed = names[:len(names)-step.More]
		}
		out.Steps = append(out.Steps, step)
	}
	return out, nil
}

// Rewind takes a task back to one of its steps.
func (d *Daemon) Rewind(ctx context.Context, ref string, in api.Rewind) (api.Rewound, error) {
	if err := d.accepting(); err != nil {
		return api.Rewound{}, err
	}
	t, steps, _, err := d.stepsOf(ctx, ref)
	if err != nil {
		return api.Rewound{}, err
	}
	s, err := stepMeant(t, steps, in.To)
	if err != nil {
		return api.Rewound{}, err
	}
	out := api.Rewound{Task: t, To: s.Key, Tree: s.Tree.Tree}
	cmd := td.Command{
		Key: in.Key, Type: td.CmdRewind, At: time.Now().UTC().Round(0), By: in.By,
		Rewind: &td.Rewind{To: s.Key, Seq: s.Seq, Tree: s.Tree.Tree, LeftOut: s.Tree.LeftOut},
	}
	if cmd.Key == "" {
		cmd.Key = string(td.NewRequestID())
	}
	// The answer to it may have been lost, and it is given again: it was carried out then.
	if _, posted, err := d.journal.Posted(ctx, t.ID, cmd.Key); err != nil {
		return api.Rewound{}, err
	} else if !posted {
		if err := td.Refuse(t, cmd, cmd.At); err != nil {
			return api.Rewound{}, err
		}
		if err := d.haveWorktree(ctx, t); err != nil {
			return api.Rewound{}, err
		}
		if err := d.post(ctx, t, cmd); err != nil {
			return api.Rewound{}, err
		}
	}
	if err := d.awaitRewind(ctx, t.ID, cmd.Key, &out); err != nil {
		return api.Rewound{}, err
	}
	out.Task, err = d.journal.Task(ctx, t.ID)
	return out, err
}

// awaitRewind waits a while for a command to be carried out.
func (d *Daemon) awaitRewind(ctx context.Context, id td.TaskID, key string, out *api.Rewound) error {
	wait, cancel := context.WithTimeout(ctx, rewindWait)
	defer cancel()
	for ev, err := range d.journal.Follow(wait, store.EventFilter{Tasks: []td.TaskID{id}, Types: []td.EventType{
		td.Rewound{}.Type(), td.Ignored{}.Type(),
	}}, 0) {
		if wait.Err() != nil && ctx.Err() == nil {
			return nil // it has the wish, and comes to it
		}
		if err != nil {
			return err
		}
		if ev.Takes != key {
			continue
		}
		if b, is := ev.Body.(td.Rewound); is {
			out.Kept, out.LeftOut, out.Done = b.Kept, b.LeftOut, true
			return nil
		}
		why := "it was not done"
		if b, is := ev.Body.(td.Ignored); is {
			why = b.Why
		}
		return td.Errorf(td.Conflict, "%s was not rewound: %s", out.Task.Handle, strings.TrimSpace(why)).
			WithHint("taskdaemon loop steps %s", out.Task.Handle)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("wait for the rewind: %w", context.Cause(ctx))
	}
	return nil
}
