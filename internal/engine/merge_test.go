package engine

import (
	"context"
	"testing"
	"time"

	"taskdaemon/internal/merge"
	"taskdaemon/internal/td"
)

// oneTrunk is a repository in which every worktree is there and every merge succeeds, and notes what is done to its trunk.
type oneTrunk struct {
	done []string
}

func (o *oneTrunk) Look(context.Context, td.Worktree) (bool, error)             { return true, nil }
func (o *oneTrunk) Make(context.Context, td.Worktree) error                     { return nil }
func (o *oneTrunk) Setup(td.Worktree) (string, error)                           { return "", nil }
func (o *oneTrunk) Commit(context.Context, td.Worktree, string) (string, error) { return "c1", nil }
func (o *oneTrunk) Rebase(context.Context, td.Worktree) (_, _ []string, _ error) {
	return nil, nil, nil
}
func (o *oneTrunk) Rebased(context.Context, td.Worktree) (bool, error)       { return true, nil }
func (o *oneTrunk) Holds(context.Context, td.Worktree, string) (bool, error) { return true, nil }
func (o *oneTrunk) Follows(context.Context, td.Worktree, string, string) (bool, error) {
	return true, nil
}
func (o *oneTrunk) Merging(context.Context, td.Worktree) (bool, error)    { return false, nil }
func (o *oneTrunk) Resolves(td.Worktree) bool                             { return false }
func (o *oneTrunk) In(context.Context, td.Worktree, string) (bool, error) { return false, nil }
func (o *oneTrunk) Kept(context.Context, td.Worktree, string) error       { return nil }

func (o *oneTrunk) Merge(context.Context, td.Worktree, merge.Work, []merge.Work, merge.Check) (merge.Result, error) {
	o.done = append(o.done, "merged")
	return merge.Result{Merged: td.Merged{Into: "into", Commit: "c2"}}, nil
}

func (o *oneTrunk) Merged(context.Context, td.Worktree, string) (*td.Merged, error) {
	return nil, nil //nolint:nilnil // it is not
}

func (o *oneTrunk) Withdraw(context.Context, td.Worktree, string) (*td.Merged, error) {
	return nil, nil //nolint:nilnil // it was in time
}
func (o *oneTrunk) Checkout(context.Context, td.Worktree, string, string) (string, error) {
	return "", nil
}
func (o *oneTrunk) Altered(context.Context, string, string) ([]string, error) { return nil, nil }
func (o *oneTrunk) Asks(context.Context, td.Worktree) (bool, string, error)   { return false, "", nil }

func (o *oneTrunk) ByHand(context.Context, td.Worktree, ...td.Words) string { return "git merge" }

func (t *oneTrunk) NotFollowed(context.Context, td.Worktree, string) error { return nil }

func (o *oneTrunk) Follow(context.Context, td.Worktree, merge.Work, merge.Check) (td.Obstacle, error) {
	o.done = append(o.done, "followed")
	return td.Obstacle{}, nil
}

// Who has the lease of a trunk is alone with it: no other work is merged meanwhile.
func TestMergeWaitsForItsLease(t *testing.T) {
	trees := &oneTrunk{}
	w := td.Worktree{Repo: "/repo", Branch: "task", Into: "into", Trunk: "main"}
	play(t, []any{later(calls("Complete", `{"summary":"done"}`))}, func(s *td.Spec, o *Options) {
		s.Worktree = &w
		o.Worktrees, o.Leases = trees, Leases{Wait: time.Hour}
	}, func(b *bench, id td.TaskID) {
		other, claim := b.holder("/elsewhere", td.Want{Resource: mergeResource(w)})
		task := b.until(id, td.Blocked)
		if len(trees.done) > 0 || task.Status.Blocked.Holder != other.Handle {
			t.Errorf("while %s had the trunk: %v, blocked on %+v", other.Handle, trees.done, task.Status.Blocked)
		}
		b.give(other, claim)
		b.until(id, td.Completed)
		if len(trees.done) != 2 {
			t.Errorf("done: %v", trees.done)
		}
	})
}

// busyTrunk gets a new commit whenever a branch is brought onto it.
type busyTrunk struct {
	oneTrunk
	rebases int
	commit  func()
}

func (o *busyTrunk) Rebase(context.Context, td.Worktree) (_, _ []string, _ error) {
	if o.rebases++; o.rebases < 100 {
		o.commit()
	}
	return nil, nil, nil
}

// A person who commits faster than a branch is rebased does not keep a task from its work: the branch is brought onto the trunk once a turn.
func TestBusyTrunkLetsTasksWork(t *testing.T) {
	trees := &busyTrunk{}
	w := td.Worktree{Repo: "/repo", Branch: "task", Into: "into", Trunk: "main"}
	play(t, []any{later(calls("Look", `{}`)), calls("Look", `{}`), calls("Complete", `{"summary":"done"}`)}, func(s *td.Spec, o *Options) {
		s.Worktree = &w
		o.Worktrees = trees
	}, func(b *bench, id td.TaskID) {
		trees.commit = func() { b.post(id, td.Command{Type: td.CmdRebase, Text: "newer"}) }
		trees.commit()
		task := b.until(id, td.Completed)
		if trees.rebases == 0 || trees.rebases > task.Turns {
			t.Errorf("%d rebases in %d turns", trees.rebases, task.Turns)
		}
	})
}
