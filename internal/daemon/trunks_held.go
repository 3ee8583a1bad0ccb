package daemon

import (
	"context"
	"maps"
	"slices"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// A trunk that was deleted or lost history pauses all that works for it: the tasks, and the runs that would start more. One command of a person's lets all of it go on.

var (
	fpRunHeld       = failpoint.New("daemon.trunk.run_held")
	fpTrunkResuming = failpoint.New("daemon.trunk.tasks_resumed")
)

// recall learns for which trunks the runs that are open have had tasks.
func (w *trunks) recall(ctx context.Context) error {
	open, err := w.journal.Runs(ctx, store.RunFilter{Open: true})
	if err != nil || len(open) == 0 {
		return err
	}
	tasks, err := w.journal.Tasks(ctx, store.TaskFilter{Brief: true})
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if t.Ordered != nil && slices.ContainsFunc(open, func(g td.GraphRun) bool { return g.Run == t.Ordered.Run }) {
			w.works(t)
		}
	}
	return nil
}

// works notes that the run which a task is of works for its trunk.
func (w *trunks) works(t td.Task) {
	if t.Ordered == nil || t.Worktree == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.worked[t.Ordered.Run] == nil {
		w.worked[t.Ordered.Run] = map[trunk]bool{}
	}
	w.worked[t.Ordered.Run][trunk{t.Worktree.Repo, t.Worktree.Trunk}] = true
}

// trunksOf are the trunks that a run has had tasks for.
func (w *trunks) trunksOf(run string) []trunk {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.worked[run]))
}

// forget lets go of what is known of a run that has ended.
func (w *trunks) forget(run string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.worked, run)
}

// hold has the runs that work for a trunk start nothing until a person says so.
func (w *trunks) hold(ctx context.Context, t trunk, why string) error {
	open, err := w.journal.Runs(ctx, store.RunFilter{Open: true})
	if err != nil {
		return err
	}
	for _, g := range open {
		if g.Held != nil || !slices.Contains(w.trunksOf(g.Run), t) {
			continue
		}
		w.o.Log.Warn("a trunk lost history, and a run is paused", "run", g.Run, "why", why)
		if err := w.own.append(ctx, td.GraphRunHeld{Run: g.Run, Hold: td.GraphHold{Repo: t.repo, Trunk: t.branch, Why: why}}); err != nil {
			return err
		}
		fpRunHeld.Hit()
	}
	return nil
}

// ResumeTrunk brings merged work that a trunk never had onto the trunk as it is now, and lets everything go on that was paused because it was deleted or lost history.
func (d *Daemon) ResumeTrunk(ctx context.Context, in api.ResumeTrunk) (api.ResumedTrunk, error) {
	if err := d.accepting(); err != nil {
		return api.ResumedTrunk{}, err
	}
	repo, err := repository(ctx, in.Dir)
	if err != nil {
		return api.ResumedTrunk{}, err
	}
	at := trunk{repo, in.Trunk}
	work, err := d.trunks.landing.replant(ctx, at) // first: the tasks go on on top of it
	if err != nil {
		return api.ResumedTrunk{}, err
	}
	out, err := d.trunks.resume(ctx, at, in.By)
	out.Work = work
	return out, err
}

// resume lets the tasks of a trunk go on first, then the runs that would start others. Who asks again after a crash in between finds the rest.
func (w *trunks) resume(ctx context.Context, at trunk, by string) (out api.ResumedTrunk, err error) {
	d := w.Daemon
	out.Tasks = []td.Task{}
	from, err := d.journal.Last(ctx)
	if err != nil {
		return out, err
	}
	paused, err := d.journal.Tasks(ctx, store.TaskFilter{States: []td.State{td.Paused}, Brief: true})
	if err != nil {
		return out, err
	}
	posted := map[td.TaskID]string{}
	for _, t := range paused {
		p := t.Status.Paused
		if p == nil || p.By != td.ByTrunk || t.Worktree == nil || (trunk{t.Worktree.Repo, t.Worktree.Trunk}) != at {
			continue
		}
		cmd := td.Command{Key: string(td.NewRequestID()), Type: td.CmdResume, At: time.Now().UTC().Round(0), By: by}
		if td.Refuse(t, cmd, cmd.At) != nil {
			continue // somebody else was quicker
		}
		if err := d.post(ctx, t, cmd); err != nil {
			return out, err
		}
		posted[t.ID] = cmd.Key
		out.Tasks = append(out.Tasks, t)
	}
	for _, t := range out.Tasks { // a run that goes on before them would find nobody at work
		if _, err := d.taken(ctx, t, posted[t.ID], from); err != nil {
			return out, err
		}
	}
	fpTrunkResuming.Hit()
	open, err := d.journal.Runs(ctx, store.RunFilter{Open: true})
	if err != nil {
		return out, err
	}
	for _, g := range open {
		if g.Held == nil || (trunk{g.Held.Repo, g.Held.Trunk}) != at {
			continue
		}
		if err := d.own.append(ctx, td.GraphRunReleased{Run: g.Run, By: by}); err != nil {
			return out, err
		}
		out.Runs = append(out.Runs, g.Run)
		d.runs.poke(g.Project)
	}
	return out, nil
}
