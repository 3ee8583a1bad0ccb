package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/engine"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/strategy"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

// maxBlockers is how many of the tasks that were completed before it an iteration is told of, the newest.
const maxBlockers = 10

// Of what is in one of them, how many it is told of, the newest, and how many of the younger ones are looked at for that.
const (
	maxInside = 10
	maxLooked = 200
)

// maxSiblings is how many tasks beside it a strategy looks at.
const maxSiblings = 5

// plannedAround is what the graph knows that an iteration of a task begins with.
func (d *Daemon) plannedAround(ctx context.Context, t td.Task) (out engine.Planned, err error) {
	s, err := d.projects.at(ctx, t.Project)
	if err != nil {
		return out, err
	}
	p, err := s.Task(ctx, t.ID)
	if err != nil {
		return out, err
	}
	if err := s.View(ctx, func(g *workgraph.Graph) {
		if why, by := g.InTheWay(t.ID); why != workgraph.Free {
			names := make([]string, len(by))
			for i, id := range by {
				names[i] = s.Name(id).Handle
			}
			out.InTheWay = fmt.Sprintf("it has to wait (%s): %s", why, strings.Join(names, ", "))
		}
	}); err != nil {
		return out, err
	}
	if p.Parent != "" {
		parent, err := s.Task(ctx, p.Parent)
		if err != nil && !td.IsKind(err, td.NotFound) {
			return out, err
		}
		if err == nil {
			out.Parent = &engine.Neighbour{Handle: parent.Handle, Title: parent.Title, Text: parent.Text}
		}
	}
	if out.Blockers, err = d.completedBefore(ctx, s, p); err != nil {
		return out, err
	}
	if err := addFeature(ctx, s, p.ID, &out); err != nil {
		return out, err
	}
	out.Siblings, err = d.siblings(ctx, s, p)
	return out, err
}

// completedBefore is what a task waited for, and what it is in, the newest first: tasks, and containers with what is in them.
func (d *Daemon) completedBefore(ctx context.Context, s *graph.Store, p graph.Task) (out []engine.Neighbour, err error) {
	ids, err := waitedFor(ctx, s, p)
	if err != nil {
		return nil, err
	}
	held := map[td.TaskID][]td.TaskID{} // by the container that is completed
	if err := s.View(ctx, func(g *workgraph.Graph) {
		for _, id := range ids {
			if st, _ := g.Standing(id); st.Container && st.State == td.Completed {
				held[id] = slices.Collect(g.Within(id))
			}
		}
	}); err != nil {
		return nil, err
	}
	type one struct {
		engine.Neighbour
		at time.Time
	}
	var found []one
	for _, id := range ids {
		b, err := s.Task(ctx, id)
		if td.IsKind(err, td.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		within, holds := held[id]
		switch {
		case holds:
			n, at, err := d.container(ctx, s, b, within)
			if err != nil {
				return nil, err
			}
			found = append(found, one{n, at})
		case b.Verdict != nil && b.Verdict.State == td.Completed:
			n, err := d.completed(ctx, b)
			if err != nil {
				return nil, err
			}
			found = append(found, one{n, b.Verdict.At})
		}
	}
	slices.SortStableFunc(found, func(a, b one) int { return b.at.Compare(a.at) })
	for _, f := range found[:min(maxBlockers, len(found))] {
		out = append(out, f.Neighbour)
	}
	return out, nil
}

// waitedFor are the blockers of a task and of what it is in, each once.
func waitedFor(ctx context.Context, s *graph.Store, p graph.Task) (ids []td.TaskID, err error) {
	for seen := map[td.TaskID]bool{}; !seen[p.ID]; {
		seen[p.ID] = true // what is in itself is in no tree
		for _, b := range p.Blockers {
			if !slices.Contains(ids, b) {
				ids = append(ids, b)
			}
		}
		if p.Parent == "" {
			break
		}
		up, err := s.Task(ctx, p.Parent)
		if td.IsKind(err, td.NotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		p = up
	}
	return ids, nil
}

// completed is what a completed task tells those after it. Whether it had read untrusted text is known where it ran.
func (d *Daemon) completed(ctx context.Context, b graph.Task) (engine.Neighbour, error) {
	n := engine.Neighbour{Handle: b.Handle, Title: b.Title, Text: b.Text, Summary: b.Verdict.Summary}
	t, err := d.journal.Task(ctx, b.ID)
	if err != nil && !td.IsKind(err, td.NotFound) {
		return n, err
	}
	n.Untrusted = t.Untrusted
	return n, nil
}

// container is what a completed container tells those after it, and when the newest of what is in it was completed.
func (d *Daemon) container(ctx context.Context, s *graph.Store, c graph.Task, within []td.TaskID) (n engine.Neighbour, at time.Time, err error) {
	n = engine.Neighbour{Handle: c.Handle, Title: c.Title, Text: c.Text}
	if c.Verdict != nil {
		n.Summary, at = c.Verdict.Summary, c.Verdict.At
	}
	slices.Sort(within) // by when they were planned
	inside, err := ended(ctx, s, within[max(0, len(within)-maxLooked):])
	if err != nil {
		return n, at, err
	}
	inside = slices.DeleteFunc(inside, func(t graph.Task) bool { return t.ID == c.ID || t.Verdict.State != td.Completed })
	n.More = max(0, len(inside)-maxInside)
	for i, t := range inside[:len(inside)-n.More] {
		in, err := d.completed(ctx, t)
		if err != nil {
			return n, at, err
		}
		if n.Inside = append(n.Inside, in); i == 0 {
			at = t.Verdict.At
		}
	}
	return n, at, nil
}

// addFeature adds the PRD that a task is in: its slug, its documents and what the head of its spec says. A document that
// cannot be read is said to be so, in its place; a head that cannot be read is told as part of its document.
func addFeature(ctx context.Context, s *graph.Store, id td.TaskID, out *engine.Planned) error {
	prd, ok, err := s.PRDOf(ctx, id)
	if err != nil || !ok {
		return err
	}
	out.Feature = prd.Slug
	t, err := s.Task(ctx, id)
	if err != nil {
		return err
	}
	out.Phase = td.PartOf(t.Labels)
	for _, name := range td.DocNames {
		text, _, err := s.Document(ctx, prd.ID, name)
		if td.IsKind(err, td.Invalid) {
			text, err = fmt.Sprintf("It cannot be read: %v", err), nil
		}
		if err != nil {
			return err
		}
		if text != "" {
			out.Documents = append(out.Documents, engine.Document{Name: string(name), Text: text})
		}
		if head, err := graph.ReadHead(text); name == td.DocSpec && err == nil {
			out.Criteria, out.AutoInstall, out.Phases, out.Direct = head.Criteria, head.AutoInstall, head.Phases, prd.ID == id
		}
	}
	return nil
}

// siblings is what became of the tasks beside one, the newest first.
func (d *Daemon) siblings(ctx context.Context, s *graph.Store, p graph.Task) (out []strategy.Outcome, err error) {
	var ids []td.TaskID
	if err := s.View(ctx, func(g *workgraph.Graph) {
		for _, id := range g.Children(p.Parent) {
			if st, _ := g.Standing(id); id != p.ID && !st.Container && (st.State == td.Completed || st.State == td.Failed) {
				ids = append(ids, id)
			}
		}
	}); err != nil {
		return nil, err
	}
	beside, err := ended(ctx, s, ids[max(0, len(ids)-10*maxSiblings):]) // of thousands, the younger ones
	if err != nil {
		return nil, err
	}
	for _, b := range beside[:min(maxSiblings, len(beside))] {
		o := strategy.Outcome{Failed: b.Verdict.State == td.Failed}
		if t, err := d.journal.Task(ctx, b.ID); err == nil {
			o.Clean = b.Verdict.State == td.Completed && t.Iteration <= 1
		} else if !td.IsKind(err, td.NotFound) {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// ended are those of the tasks that have, the newest first.
func ended(ctx context.Context, s *graph.Store, ids []td.TaskID) (out []graph.Task, err error) {
	for _, id := range ids {
		t, err := s.Task(ctx, id)
		if td.IsKind(err, td.NotFound) || err == nil && t.Verdict == nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(a, b graph.Task) int { return b.Verdict.At.Compare(a.Verdict.At) })
	return out, nil
}
