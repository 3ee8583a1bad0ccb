package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

var (
	fpRunStopping = failpoint.New("daemon.runs.stop_recorded")
	fpRunPaused   = failpoint.New("daemon.runs.tasks_let_go")
	fpRunEnding   = failpoint.New("daemon.runs.before_end")
)

// standing is how a run stands: what the journal and the graph say, read under the lock of its project.
type standing struct {
	td.GraphRun
	scope scoped
	own   []td.Task // of those that it is about, at work
	other []td.Task // of the project, at work in the same folder
	mine  []td.Task // that it started and that have not ended
	begun int       // iterations
	tally *tally    // of all that it began

	unlanded []td.Unlanded // of the work it is about, when it ends, and of work that tasks wait for which could start otherwise
}

// advance takes a run one step further: it starts what may start now, or ends the run if there is nothing to wait for.
// Whoever calls, and however often, each task is started once.
func (r *runs) advance(ctx context.Context, name string) (api.Run, error) {
	g, err := r.named(ctx, name)
	if err != nil {
		return api.Run{}, err
	}
	release, err := r.starting.hold(ctx, g.Project)
	if err != nil {
		return api.Run{GraphRun: g}, err
	}
	defer release()
	if g, err = r.named(ctx, name); err != nil {
		return api.Run{GraphRun: g}, err
	}
	out, err := r.step(ctx, g)
	r.noted(name, err)
	return out, err
}

// step is what advance does while the project is held.
func (r *runs) step(ctx context.Context, g td.GraphRun) (api.Run, error) {
	if !g.Open() {
		return api.Run{GraphRun: g}, nil
	}
	if err := r.accepting(); err != nil {
		return api.Run{GraphRun: g}, err
	}
	if g.Stop != nil {
		return r.wind(ctx, g)
	}
	s, err := r.projects.at(ctx, g.Project)
	if err != nil {
		return api.Run{GraphRun: g}, err
	}
	at, err := r.stands(ctx, s, g)
	if err != nil {
		return api.Run{GraphRun: g}, err
	}
	if at.gaveUp() {
		if err := r.Daemon.own.append(ctx, td.GraphRunStopped{Run: g.Run, Stop: td.GraphStop{Outcome: td.RunFailure, By: td.ByRun}}); err != nil {
			return api.Run{GraphRun: g}, err
		}
		if g, err = r.named(ctx, g.Run); err != nil {
			return api.Run{}, err
		}
		return r.wind(ctx, g)
	}
	if g.Held != nil {
		return at.describe(), nil
	}
	if err := r.bind(ctx, at); err != nil {
		return at.describe(), err
	}
	started, moved, err := r.startReady(ctx, s, &at)
	out := at.describe()
	out.Started = started
	if err != nil || len(started) > 0 {
		return out, err
	}
	outcome := at.outcome()
	if outcome == "" {
		return out, nil
	}
	if moved {
		r.poke(g.Project)
		return out, nil
	}
	out.GraphRun, err = r.end(ctx, g, outcome, &at)
	return out, err
}

// lacking is what trunks lack of the work that a run is about. A repository that cannot be asked says nothing: the run ends all the same.
func (r *runs) lacking(ctx context.Context, at standing) ([]td.Unlanded, error) {
	about, repos := map[string]bool{}, map[string]bool{}
	for _, id := range at.scope.leaves {
		t, err := r.journal.Task(ctx, id)
		switch {
		case err == nil && t.Worktree != nil:
			about[t.Handle], repos[t.Worktree.Repo] = true, true
		case err != nil && !td.IsKind(err, td.NotFound):
			return nil, err
		}
	}
	var lacking []td.Unlanded
	for _, repo := range slices.Sorted(maps.Keys(repos)) {
		all, err := r.trees.Unlanded(ctx, repo)
		if err != nil && ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			r.o.Log.Warn("look what trunks lack", "repo", repo, "err", err)
		}
		for _, u := range all {
			if slices.ContainsFunc(u.Tasks, func(handle string) bool { return about[handle] }) {
				lacking = append(lacking, u)
			}
		}
	}
	return lacking, nil
}

// named is the run of this name.
func (r *runs) named(ctx context.Context, name string) (td.GraphRun, error) {
	found, err := r.journal.Runs(ctx, store.RunFilter{Run: name})
	if err != nil {
		return td.GraphRun{}, err
	}
	if len(found) == 0 {
		return td.GraphRun{}, td.Errorf(td.NotFound, "no run is named %s", name).WithHint("taskdaemon run list")
	}
	return found[0], nil
}

// stands looks how a run stands. First who is at work, then what the graph says: one that ends in between is taken for at
// work once more, and its end is looked at next.
func (r *runs) stands(ctx context.Context, s *graph.Store, g td.GraphRun) (at standing, err error) {
	at.GraphRun = g
	live, err := r.journal.Tasks(ctx, store.TaskFilter{States: store.Live, Brief: true})
	if err != nil {
		return at, err
	}
	if err := r.projects.catchUp(ctx, s.Root()); err != nil {
		return at, err
	}
	if at.scope, err = viewScope(ctx, s, g.Target, g.Force); err != nil {
		return at, err
	}
	for _, t := range live {
		_, about := at.scope.states[t.ID] // also if it was started in another clone
		if t.Project != g.Project && !about {
			continue
		}
		if t.Ordered != nil && t.Ordered.Run == g.Run {
			at.mine = append(at.mine, t)
		}
		switch {
		case !works(t):
		case about:
			at.own = append(at.own, t)
		case t.Status.State != td.Waiting && t.Dir == g.Project: // while it waits for a person nobody waits for it
			at.other = append(at.other, t)
		}
	}
	if at.tally, err = r.counted(ctx, g); err == nil {
		at.begun = at.tally.begun
	}
	return at, err
}

// works reports whether a task that has not ended is at work or will be by itself. One that a person paused is left alone,
// one that is blocked for good cannot go on, and one that a run let go of is ready again.
func works(t td.Task) bool {
	st := t.Status
	if st.Paused != nil && st.Paused.By == td.ByForecast {
		return true
	}
	return !st.State.Terminal() && st.State != td.Paused && (st.State != td.Blocked || st.Blocked.Passes())
}

// gaveUp reports whether an agent of the run saw no use in going on.
func (at standing) gaveUp() bool {
	for _, t := range at.mine {
		if t.Status.State == td.Paused && t.Status.Paused.By == td.ByRun && t.GivenUp() {
			return true
		}
	}
	return false
}

// left is how many iterations may be promised to tasks yet: those that are promised and have not begun are spoken for.
func (at standing) left() int {
	n := at.Limit - at.begun
	for _, t := range at.mine {
		if works(t) {
			n -= max(0, t.Ordered.Until-t.Iteration)
		}
	}
	return n
}

// bind holds tasks that are at work to the limit of the run: they may have been started by another, or before there was a
// limit.
func (r *runs) bind(ctx context.Context, at standing) error {
	if at.Limit == 0 {
		return nil
	}
	grant := max(0, at.Limit-at.begun)
	if at.Parallel > 1 {
		grant = min(grant, 1)
	}
	for _, t := range at.own {
		if o := t.Ordered; o == nil || o.Run == at.Run && o.Until > 0 && o.Until <= t.Iteration+grant {
			continue
		}
		if err := r.limit(ctx, t, at.GraphOrder, t.Iteration+grant); err != nil {
			return err
		}
	}
	return nil
}

// places is how many more tasks may be at work. Tasks that the run is not about are let through first where there is one
// folder for all.
func (at standing) places() int {
	if at.Parallel <= 1 && len(at.other) > 0 {
		return 0
	}
	return max(1, at.Parallel) - len(at.own)
}

// startReady starts as many of the tasks that are ready as there are places. One that cannot be started keeps no other from it.
// Where one was ready and is no more, how the run stands is to be looked at again. One that would not see the work of those it waited for is left, and that work is noted.
func (r *runs) startReady(ctx context.Context, s *graph.Store, at *standing) (started []td.Task, moved bool, err error) {
	places, left := at.places(), at.left()
	for _, id := range at.scope.ready {
		if places <= 0 || at.Limit > 0 && left <= 0 {
			break
		}
		if slices.ContainsFunc(at.own, func(t td.Task) bool { return t.ID == id }) {
			continue // to the graph one that is queued is ready; it may be completed by now, and must not be begun again
		}
		if at.tally.vain[id].exhausted() {
			err = errors.Join(err, td.Errorf(td.Conflict, "start %s: this run has started it %d times, and each time it was open again or nothing was begun", id.Handle(), mostVain).
				WithHint("taskdaemon doctor, then: taskdaemon run stop %s", at.Run))
			continue
		}
		grant := 0
		if at.Limit > 0 {
			if grant = left; at.Parallel > 1 {
				grant = 1 // whoever needs another asks again, when it is known what the others need
			}
		}
		t, serr := r.startPlanned(ctx, s, id, at.GraphOrder, grant)
		var unseen *unseenError
		if errors.As(serr, &unseen) {
			at.misses(unseen.lacks)
			continue
		}
		if serr != nil {
			err = errors.Join(err, serr)
			continue
		}
		places--
		if t == nil {
			moved = true
			continue
		}
		left -= grant
		started = append(started, *t)
	}
	return started, moved, err
}

// misses notes work that trunks lack.
func (at *standing) misses(lacks []td.Unlanded) {
	for _, u := range lacks {
		if !slices.ContainsFunc(at.unlanded, func(o td.Unlanded) bool {
			return o.Trunk == u.Trunk && o.Commit == u.Commit && slices.Equal(o.Tasks, u.Tasks)
		}) {
			at.unlanded = append(at.unlanded, u)
		}
	}
}

// outcome is how a run ends that can start nothing; empty: it has to wait.
func (at standing) outcome() td.RunOutcome {
	switch {
	case len(at.own) > 0 || at.Parallel <= 1 && len(at.other) > 0:
		return ""
	case len(at.scope.leaves) == 0:
		return td.RunNoPlan
	case at.scope.open == 0:
		return td.RunComplete
	case at.Limit > 0 && at.left() <= 0:
		return td.RunLimit
	default:
		return td.RunBlocked
	}
}

// wind lets go of the tasks of a run that is to stop, each after what it is doing now, and ends it.
func (r *runs) wind(ctx context.Context, g td.GraphRun) (api.Run, error) {
	fpRunStopping.Hit()
	live, err := r.journal.Tasks(ctx, store.TaskFilter{States: store.Live, Brief: true})
	if err != nil {
		return api.Run{GraphRun: g}, err
	}
	out := api.Run{}
	for _, t := range live {
		if t.Ordered == nil || t.Ordered.Run != g.Run || !works(t) {
			continue
		}
		cmd := td.Command{
			Key: fmt.Sprintf("stop/%s/%d", g.Run, g.Stop.At), Type: td.CmdPause, At: time.Now().UTC().Round(0), By: td.ByRun,
		}
		if td.Refuse(t, cmd, cmd.At) != nil {
			continue
		}
		if err := r.post(ctx, t, cmd); err != nil {
			return api.Run{GraphRun: g}, err
		}
		out.AtWork = append(out.AtWork, t)
	}
	fpRunPaused.Hit()
	at := standing{GraphRun: g}
	if s, err := r.projects.at(ctx, g.Project); err != nil {
		r.o.Log.Warn("count the tasks of a run that was stopped", "run", g.Run, "err", err) // it ends all the same
	} else if at, err = r.stands(ctx, s, g); err != nil {
		return api.Run{GraphRun: g}, err
	}
	out.GraphRun, err = r.end(ctx, g, g.Stop.Outcome, &at)
	return out, err
}

// end records how a run ended, and what trunks lack of its work, however it ended.
func (r *runs) end(ctx context.Context, g td.GraphRun, outcome td.RunOutcome, at *standing) (td.GraphRun, error) {
	lacks, err := r.lacking(ctx, *at)
	if err != nil {
		return g, err
	}
	if at.misses(lacks); outcome == td.RunComplete && len(at.unlanded) > 0 {
		outcome = td.RunUnlanded
	}
	completed, failed, cancelled := at.scope.counts()
	fpRunEnding.Hit()
	err = r.Daemon.own.append(ctx, td.GraphRunEnded{Run: g.Run, End: td.GraphEnd{
		Outcome: outcome, Completed: completed, Failed: failed, Cancelled: cancelled, Open: at.scope.open, Iterations: at.begun, Unlanded: at.unlanded,
	}})
	if err != nil {
		return g, err
	}
	r.mu.Lock()
	delete(r.tallies, g.Run)
	delete(r.later, g.Run)
	r.mu.Unlock()
	r.trunks.forget(g.Run)
	r.o.Log.Info("a run ended", "run", g.Run, "project", g.Project, "outcome", outcome)
	return r.named(ctx, g.Run)
}

// describe is the run as people see it.
func (at standing) describe() api.Run {
	out := api.Run{GraphRun: at.GraphRun, AtWork: append(at.own[:len(at.own):len(at.own)], at.other...), Remaining: at.scope.open, Iterations: at.begun}
	out.Completed, out.Failed, out.Cancelled = at.scope.counts()
	return out
}
