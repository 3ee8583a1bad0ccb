package daemon

import (
	"context"
	"fmt"
	"strings"

	"taskdaemon/internal/graph"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

// unseenError says that a task is ready, but would begin without the work of tasks that it waited for (T-7): that is merged on another integration branch, of a PRD or for another
// trunk, and did not get from there to the trunk of the task.
type unseenError struct{ lacks []td.Unlanded }

func (e *unseenError) Error() string {
	var all []string
	for _, u := range e.lacks {
		all = append(all, fmt.Sprintf("%s lacks the work of %s: %s", u.Trunk, strings.Join(u.Tasks, ", "), u.Reason))
	}
	return strings.Join(all, "; ")
}

// seesBlockers fails with an unseenError unless a task that begins now has all that those made which it waited for.
func (d *Daemon) seesBlockers(ctx context.Context, s *graph.Store, spec td.Spec) error {
	if spec.Worktree == nil {
		return nil
	}
	var before []td.TaskID
	if err := s.View(ctx, func(g *workgraph.Graph) { before = g.Before(spec.ID) }); err != nil {
		return err
	}
	var lacks []td.Unlanded
	for _, id := range before {
		t, err := d.journal.Task(ctx, id)
		if td.IsKind(err, td.NotFound) {
			continue // nobody of this journal worked on it
		}
		if err != nil {
			return err
		}
		done := t.Status.Completed
		if t.Worktree == nil || done == nil || done.Evidence == nil || done.Evidence.Merged == nil {
			continue
		}
		u, err := d.trees.Unseen(ctx, *spec.Worktree, *t.Worktree, done.Evidence.Merged.Commit)
		if err != nil {
			return err
		}
		if u != nil {
			lacks = append(lacks, *u)
		}
	}
	if len(lacks) > 0 {
		return &unseenError{lacks}
	}
	return nil
}
