package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"taskdaemon/internal/graph"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

// A graph that cannot be told how a task stands (its disk is full, its folder away, somebody has it locked) is stale: the
// journal is followed on for the others, and what this one missed is made up for by comparing it with the journal as a
// whole, as soon as that can be done. That is also done whenever a graph is opened, so that a restart forgets nothing.

// miss says that a graph was not told something.
func (p *projects) miss(root string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stale[root]++; p.stale[root] == 1 {
		p.o.Log.Error("the graph of a project cannot be told how its tasks stand", "project", root, "err", err, "again_in", lookEvery)
	}
}

// missed is how often a graph was not told something since it agreed with the journal.
func (p *projects) missed(root string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stale[root]
}

// agrees says that a graph knows all that it had missed when it was looked, unless it has missed more since.
func (p *projects) agrees(root string, missed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if missed == 0 || p.stale[root] != missed {
		return
	}
	p.o.Log.Info("the graph of a project was told how its tasks stand", "project", root)
	delete(p.stale, root)
	p.Daemon.runs.poke(root)
}

// mend brings a graph that is stale up to what the journal says.
func (p *projects) mend(ctx context.Context, root string) error {
	p.mending.Lock()
	defer p.mending.Unlock()
	for p.missed(root) > 0 {
		s, err := p.at(ctx, root) // which compares it, if it has to be opened
		if err != nil {
			return err
		}
		missed := p.missed(root)
		if missed == 0 {
			break
		}
		if err := p.reconcile(ctx, s); err != nil {
			return err
		}
		p.agrees(root, missed)
	}
	return nil
}

// mendAll tries to mend all graphs that are stale. What cannot be mended now was said when it became so.
func (p *projects) mendAll(ctx context.Context) {
	p.mu.Lock()
	roots := slices.Sorted(maps.Keys(p.stale))
	p.mu.Unlock()
	for _, root := range roots {
		_ = p.mend(ctx, root)
	}
}

// reconcile tells a graph how its tasks stand by the journal, whichever clone of the project they were started in. Nobody else
// may tell it at the same time: it is stale, or not open for others yet.
func (p *projects) reconcile(ctx context.Context, s *graph.Store) error {
	all, err := p.journal.Tasks(ctx, store.TaskFilter{Brief: true})
	if err != nil {
		return fmt.Errorf("compare the graph of %s with the journal: %w", s.Root(), err)
	}
	tasks := map[td.TaskID]td.Task{}
	for _, t := range all {
		if t.Project != "" {
			tasks[t.ID] = t
			p.note(t.ID)
		}
	}
	differ, err := differing(ctx, s, tasks)
	if err != nil {
		return err
	}
	var end, reopen []td.Task
	if err := s.Each(ctx, differ, func(planned *graph.Task, _ *workgraph.Graph) {
		switch t := tasks[planned.ID]; {
		case untold(planned, t):
			end = append(end, t)
		case opened(planned, t):
			reopen = append(reopen, t)
		}
	}); err != nil {
		return err
	}
	for _, t := range end {
		tell := s.End
		if p.resetElsewhere(ctx, s, t) {
			tell = s.Heard // what a person decided since in another clone counts in this one, too
		}
		if err := unlessDeleted(s, tell(ctx, t.ID, verdictOf(t, t.Status))); err != nil {
			return fmt.Errorf("tell the graph of %s how %s ended: %w", s.Root(), t.Handle, err)
		}
	}
	for _, t := range reopen {
		if err := unlessDeleted(s, s.Reopen(ctx, t.ID)); err != nil {
			return fmt.Errorf("tell the graph of %s that %s goes on: %w", s.Root(), t.Handle, err)
		}
	}
	for _, id := range differ {
		state := td.State("")
		if t := tasks[id]; !t.Status.State.Terminal() {
			state = stateInGraph(t.Status)
		}
		s.SetState(id, state)
	}
	if len(end)+len(reopen) > 0 {
		p.touch(s.Root())
	}
	return nil
}

// differing are those of the tasks that a graph has and may see otherwise than the journal, in their order.
func differing(ctx context.Context, s *graph.Store, tasks map[td.TaskID]td.Task) (ids []td.TaskID, err error) {
	err = s.View(ctx, func(g *workgraph.Graph) {
		for id, t := range tasks {
			if st, known := g.Standing(id); known && (st.Container || !st.State.Terminal() || !t.Status.State.Terminal()) {
				ids = append(ids, id)
			}
		}
	})
	slices.Sort(ids)
	return ids, err
}

// untold reports whether a task has ended by the journal, and its graph was never told. If somebody decided about it
// since, that counts.
func untold(planned *graph.Task, t td.Task) bool {
	return t.Status.State.Terminal() && planned.Verdict == nil && !planned.Knows(verdictOf(t, t.Status)) && planned.DecidedAt.Before(t.Status.Since)
}

// opened reports whether a task goes on by the journal after an end that its graph still has.
func opened(planned *graph.Task, t td.Task) bool {
	v := planned.Verdict
	return !t.Status.State.Terminal() && v != nil && t.Run != "" && v.Run == t.Run && v.At.Before(t.Status.Since)
}

// unlessDeleted makes nothing of a task that somebody deleted from its graph. That the graph itself is away is another matter.
func unlessDeleted(s *graph.Store, err error) error {
	if root, ok := graph.Find(s.Root()); td.IsKind(err, td.NotFound) && ok && root == s.Root() {
		return nil
	}
	return err
}
