package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"taskdaemon/internal/engine"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/strategy"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

// maxBlockers is how many of the tasks that were completed before it an iteration is told of, the newest.
const maxBlockers = 10

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
	blockers, err := ended(ctx, s, p.Blockers)
	if err != nil {
		return out, err
	}
	for _, b := range blockers[:min(maxBlockers, len(blockers))] {
		if b.Verdict.State == td.Completed {
			out.Blockers = append(out.Blockers, engine.Neighbour{Handle: b.Handle, Title: b.Title, Text: cmp.Or(b.Verdict.Summary, b.Text)})
		}
	}
	if out.Documents, err = documentsOf(ctx, s, p.ID); err != nil {
		return out, err
	}
	out.Siblings, err = d.siblings(ctx, s, p)
	return out, err
}

// documentsOf are those of the PRD that a task is in. One that cannot be read is said to be so, in its place.
func documentsOf(ctx context.Context, s *graph.Store, id td.TaskID) (out []engine.Document, err error) {
	prd, ok, err := s.PRDOf(ctx, id)
	if err != nil || !ok {
		return nil, err
	}
	for _, name := range td.DocNames {
		text, _, err := s.Document(ctx, prd.ID, name)
		if td.IsKind(err, td.Invalid) {
			text, err = fmt.Sprintf("It cannot be read: %v", err), nil
		}
		if err != nil {
			return nil, err
		}
		if text != "" {
			out = append(out, engine.Document{Name: string(name), Text: text})
		}
	}
	return out, nil
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
