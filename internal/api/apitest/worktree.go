package apitest

import (
	"testing"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

func testWorktrees(t *testing.T, s suite) {
	_, err := s.svc.Worktrees(s.ctx, api.WorktreeQuery{Dir: s.dir})
	wantKind(t, "worktrees where there is no repository", err, td.NotFound)
	_, err = s.svc.PruneWorktrees(s.ctx, api.PruneWorktrees{Dir: s.dir})
	wantKind(t, "pruning where there is no repository", err, td.NotFound)
	_, err = s.svc.Worktrees(s.ctx, api.WorktreeQuery{Ref: "t-nothing"})
	wantKind(t, "the worktree of no task", err, td.NotFound)
	_, err = s.svc.RestoreWorktree(s.ctx, "t-nothing")
	wantKind(t, "restoring the worktree of no task", err, td.NotFound)
	task := s.add(t, api.AddTask{Prompt: "work in the folder", Rehearsal: Script})
	if all, err := s.svc.Worktrees(s.ctx, api.WorktreeQuery{Ref: task.Handle}); err != nil || len(all) != 0 {
		t.Errorf("a task in no repository has the worktrees %+v, %v", all, err)
	}
	_, err = s.svc.RestoreWorktree(s.ctx, task.Handle)
	wantKind(t, "restoring the worktree of a task that has none", err, td.Conflict)
}
