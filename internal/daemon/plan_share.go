package daemon

import (
	"context"
	"fmt"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/git"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
)

// graphBranch is the branch by which the graph of a project is shared.
const graphBranch = "taskdaemon/graph"

// InitPlan gives a project a graph.
func (d *Daemon) InitPlan(ctx context.Context, in api.InitPlan) (api.PlanPlace, error) {
	if err := d.accepting(); err != nil {
		return api.PlanPlace{}, err
	}
	dir, err := workspace(in.Dir)
	if err != nil {
		return api.PlanPlace{}, err
	}
	before, had := graph.Find(dir)
	place := api.PlanPlace{Root: dir, Created: true}
	switch g, conflicts, err := git.SetupGraph(ctx, dir, d.sharing(in.Self, before)); {
	case td.IsKind(err, td.NotFound):
		if had {
			place.Root = before
		}
	case err != nil:
		return api.PlanPlace{}, fmt.Errorf("give the project a graph: %w", err)
	default:
		place.Root, place.Branch, place.Conflicts = g.Root(), graphBranch, conflicts
	}
	place.Created = !had || before != place.Root
	if err := graph.Make(place.Root); err != nil {
		return api.PlanPlace{}, err
	}
	if _, err := d.projects.at(ctx, place.Root); err != nil {
		return api.PlanPlace{}, err
	}
	d.projects.touch(place.Root)
	return place, nil
}

// sharing is how the graph of a project is kept in git.
func (d *Daemon) sharing(self, root string) git.GraphOptions {
	o := git.GraphOptions{Self: self, Merge: func(base, one, other []byte) ([]byte, error) { return jsonl.Merge(base, one, other), nil }}
	if root != "" {
		o.Hold = func(context.Context) (func(), error) {
			hold := func() (func(), error) { return graph.Hold(root) }
			if s := d.projects.known(root); s != nil {
				hold = s.Hold
			}
			release, err := hold()
			if td.IsKind(err, td.NotFound) {
				return func() {}, nil
			}
			return release, err
		}
	}
	return o
}

// SyncPlan exchanges changes of the graph with those who share the project's repository.
func (d *Daemon) SyncPlan(ctx context.Context, dir string) (api.PlanSynced, error) {
	if err := d.accepting(); err != nil {
		return api.PlanSynced{}, err
	}
	s, err := d.projects.of(ctx, dir)
	if err != nil {
		return api.PlanSynced{}, err
	}
	g, err := git.OpenGraph(ctx, s.Root(), d.sharing("", s.Root()))
	if td.IsKind(err, td.NotFound) {
		return api.PlanSynced{}, td.Errorf(td.NotFound, "the graph of %s is not under git, so there is nobody to share it with", s.Root()).
			WithHint("git init, then taskdaemon init")
	}
	if err != nil {
		return api.PlanSynced{}, err
	}
	if lost, err := d.projects.lost(ctx, s, false); err != nil {
		return api.PlanSynced{}, err
	} else if len(lost) > 0 { // what is lost here is not to become everybody's
		return api.PlanSynced{}, td.Errorf(td.Conflict, "%s", lostWords(s.Root(), lost)).WithHint("%s", restoreFix)
	}
	defer d.projects.syncs(s.Root())()
	rep, err := g.Sync(ctx)
	if err != nil {
		return api.PlanSynced{}, fmt.Errorf("sync the graph of %s: %w", s.Root(), err)
	}
	if head, _, err := g.Committed(ctx); err != nil {
		return api.PlanSynced{}, err
	} else if err := s.Saw(head); err != nil {
		return api.PlanSynced{}, err
	}
	out := api.PlanSynced{Pulled: rep.Pulled, Pushed: rep.Pushed, Conflicts: rep.Conflicts, Stopped: d.projects.stopClosed(ctx, s.Root())}
	if err := d.projects.compare(ctx, s.Root()); err != nil { // the tasks that came may have run here, for another clone
		return out, err
	}
	d.runs.poke(s.Root())
	health, err := s.Health(ctx)
	if err != nil {
		return out, err
	}
	for _, b := range health.Bad {
		out.Problems = append(out.Problems, graph.LogFile+" "+b.String())
	}
	for _, p := range health.Problems {
		out.Problems = append(out.Problems, p.Handle+": "+p.Why)
	}
	return out, nil
}

// How long a graph is left alone before its changes are committed, so that many make one commit, and how long at
// most.
const (
	commitAfter  = 2 * time.Second
	commitAtMost = 30 * time.Second
)

// touch says that something of a project changed: there may be something to commit, and something to start.
func (p *projects) touch(root string) {
	p.Daemon.runs.poke(root)
	select {
	case p.touched <- root:
	default: // so much is going on that it will be touched again
	}
}

// commits commits what is touched, a little later. What is not committed when the daemon dies is when the project is
// next opened: the files themselves are synced.
func (p *projects) commits(ctx context.Context) error {
	due := map[string]time.Time{} // when a project was first touched since its last commit
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			for root := range due {
				p.commit(last, root)
			}
			return nil
		case root := <-p.touched:
			if _, waits := due[root]; !waits {
				due[root] = time.Now()
			}
			wait := commitAfter
			for _, since := range due {
				wait = min(wait, max(0, commitAtMost-time.Since(since)))
			}
			timer.Reset(wait)
		case <-timer.C:
			for root := range due {
				p.commit(ctx, root)
			}
			clear(due)
		}
	}
}

func (p *projects) commit(ctx context.Context, root string) {
	g, err := git.OpenGraph(ctx, root, p.sharing("", root))
	if td.IsKind(err, td.NotFound) {
		return // a plain folder
	}
	s := p.known(root)
	if err == nil && s != nil {
		var lost []graph.Named
		if lost, err = p.lost(ctx, s, false); err == nil && len(lost) > 0 {
			err = td.Errorf(td.Conflict, "%s", lostWords(root, lost)).WithHint("%s", restoreFix) // the branch still has it
		}
	}
	var head string
	if err == nil {
		head, _, err = g.Commit(ctx, "Changes of the graph\n")
	}
	if err == nil && s != nil {
		err = s.Saw(head) // one that somebody else moves the branch to is known by that
	}
	if err != nil && ctx.Err() == nil {
		p.o.Log.Error("commit the graph of a project; it is tried again with its next change", "project", root, "err", err)
	}
}
