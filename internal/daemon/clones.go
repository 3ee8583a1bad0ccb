package daemon

import (
	"context"

	"taskdaemon/internal/graph"
	"taskdaemon/internal/td"
)

// Several clones of one repository may have the same planned tasks, each in a graph of its own, under one daemon. The journal
// has one record of such a task, made for the clone in which it was started first, and how it stands there holds for all of
// them: each graph that is open is told, and the others when they are opened or ask.

// having are the projects whose graphs may have a task: its own first.
func (p *projects) having(t td.Task) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	roots := []string{t.Project}
	for root := range p.open {
		if root != t.Project {
			roots = append(roots, root)
		}
	}
	if p.coming != "" && p.coming != t.Project {
		p.stale[p.coming]++ // it may have been compared with the journal a moment too early
	}
	return roots
}

// comes says that the graph of a project is being opened, until it is told otherwise.
func (p *projects) comes(root string) (came func()) {
	set := func(root string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.coming = root
	}
	set(root)
	return func() { set("") }
}

// compare has a graph that is open told all that the journal knows of its tasks: they may have come to it from another clone.
func (p *projects) compare(ctx context.Context, root string) error {
	p.mu.Lock()
	p.stale[root]++
	p.mu.Unlock()
	return p.catchUp(ctx, root)
}

// endedByRun reports whether a graph has the end of a task from a run, and not from a person.
func endedByRun(ctx context.Context, s *graph.Store, id td.TaskID) bool {
	planned, err := s.Task(ctx, id)
	return err == nil && planned.Verdict != nil && planned.Verdict.Run != ""
}

// resetElsewhere reports whether a person opened a task again, in another clone that is open, after it ended.
func (p *projects) resetElsewhere(ctx context.Context, here *graph.Store, t td.Task) bool {
	for _, s := range p.all() {
		if s == here {
			continue
		}
		if planned, err := s.Task(ctx, t.ID); err == nil && planned.Verdict == nil && planned.Knows(verdictOf(t, t.Status)) {
			return true
		}
	}
	return false
}
