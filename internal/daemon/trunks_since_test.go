package daemon

import (
	"context"
	"testing"

	"taskdaemon/internal/td"
	"taskdaemon/internal/worktree"
	"taskdaemon/internal/worktree/worktreetest"
)

// A task that a run takes up again is brought onto what is merged, also if its branch is gone: a person may bring it back as it was
// before the run has it.
func TestSinceWithoutABranch(t *testing.T) {
	d := bare(t, t.TempDir(), newJournal())
	repo := worktreetest.New(t.TempDir(), simTrunk)
	hands := worktreetest.Hands{Repo: repo, Do: func(_ context.Context, _ bool, deed func()) error { deed(); return nil }}
	d.trees = &worktree.Trees{Git: hands}
	w := td.Worktree{Repo: repo.Root, Path: repo.Root + "/.worktrees/t-1", Branch: "taskdaemon/run/t-1", Trunk: simTrunk, Into: simInto}
	old, err := hands.RefAt(t.Context(), repo.Root, "refs/heads/"+simTrunk)
	if err != nil {
		t.Fatal(err)
	}
	repo.CommitByHand("more", "more")
	merged, err := hands.RefAt(t.Context(), repo.Root, "refs/heads/"+simTrunk)
	if err != nil || merged == old {
		t.Fatalf("%s after %s, %v", merged, old, err)
	}
	trunks := &trunks{Daemon: d}
	since := func(want string) {
		t.Helper()
		if got, err := trunks.since(t.Context(), w); err != nil || got != want {
			t.Errorf("it is brought onto %q, want %q; %v", got, want, err)
		}
	}
	move := func(branch, to, from string) {
		t.Helper()
		if err := hands.MoveRef(t.Context(), repo.Root, "refs/heads/"+branch, to, from); err != nil {
			t.Fatal(err)
		}
	}
	since(merged) // by way of the trunk alone
	move(simInto, merged, "")
	since(merged)
	move(w.Branch, old, "")
	since(merged)
	move(simInto, old, merged)
	since(merged) // what another feature did comes by way of the trunk
	move(w.Branch, merged, old)
	since("")
}
