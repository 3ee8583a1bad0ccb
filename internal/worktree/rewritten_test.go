package worktree

import (
	"os"
	"strings"
	"testing"

	"taskdaemon/internal/config"
	"taskdaemon/internal/merge"
	"taskdaemon/internal/td"
)

// byHand is a person's commit to main that adds a file.
func byHand(t *testing.T, repo, name string) string {
	t.Helper()
	write(t, repo+"/"+name, name)
	runGit(t, repo, "add", name)
	runGit(t, repo, "commit", "-qm", name)
	return runGit(t, repo, "rev-parse", "HEAD")
}

// done is a task with this handle that adds a file, and offers that.
func done(t *testing.T, trees *Trees, w td.Worktree, handle string) (td.Worktree, merge.Work) {
	t.Helper()
	w.Path, w.Branch = w.Repo+"/.worktrees/"+handle, "taskdaemon/run/"+handle
	if err := trees.Make(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	write(t, w.Path+"/"+handle, handle)
	return w, offer(t, trees, w, handle)
}

func offer(t *testing.T, trees *Trees, w td.Worktree, handle string) merge.Work {
	t.Helper()
	commit, err := trees.Commit(t.Context(), w, "do "+handle)
	if err != nil {
		t.Fatal(err)
	}
	return merge.Work{Task: td.TaskID(handle), Handle: handle, Commit: commit}
}

func merged(t *testing.T, trees *Trees, w td.Worktree, work merge.Work) merge.Result {
	t.Helper()
	res, err := trees.Merge(t.Context(), w, work, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// A task that begins on both, what is merged and what the trunk has besides, stands on nothing that was taken away.
func TestBegunOnBoth(t *testing.T) {
	trees, own := project(t, config.Worktree{Trunk: config.TrunkBranch})
	a, work := done(t, trees, own, "t-a")
	merged(t, trees, a, work)
	byHand(t, own.Repo, "by-hand.txt")
	b, work := done(t, trees, own, "t-b")
	if _, err := os.Stat(b.Path + "/t-a"); err != nil {
		t.Fatal(err)
	}
	if res := merged(t, trees, b, work); res.Stale != "" || res.Commit == "" {
		t.Errorf("%+v", res)
	}
}

// A branch that builds on the trunk and lacks what was merged is not rebased: the task would go on without the work that it waited for. So it was when a person set the
// trunk back while a rebase was cut off.
func TestRebasedOntoBoth(t *testing.T) {
	trees, own := project(t, config.Worktree{Trunk: config.TrunkBranch})
	b, _ := done(t, trees, own, "t-b")
	if is, err := trees.Rebased(t.Context(), b); err != nil || !is {
		t.Fatalf("rebased: %v, %v", is, err)
	}
	a, work := done(t, trees, own, "t-a")
	merged(t, trees, a, work)
	if is, err := trees.Rebased(t.Context(), b); err != nil || is {
		t.Errorf("rebased: %v, %v", is, err)
	}
}

// Work on what was taken from the trunk is not merged; brought onto the trunk it is, alone, and all of it.
func TestTakenFromTheTrunk(t *testing.T) {
	trees, own := project(t, config.Worktree{Trunk: config.TrunkAuto})
	byHand(t, own.Repo, "secret.txt")
	w, work := done(t, trees, own, "t-a")
	beside, other := done(t, trees, own, "t-b")
	runGit(t, own.Repo, "reset", "-q", "--hard", "HEAD~1")
	now := runGit(t, own.Repo, "rev-parse", "main")
	if res := merged(t, trees, w, work); res.Stale != now || res.Commit != "" {
		t.Fatalf("%+v", res)
	}
	if is, err := trees.Rebased(t.Context(), w); err != nil || is {
		t.Errorf("rebased: %v, %v", is, err)
	}
	// A trial merge of the branch that is undone as well takes nothing from it.
	runGit(t, own.Repo, "merge", "-q", "--no-edit", w.Branch)
	runGit(t, own.Repo, "reset", "-q", "--hard", now)
	if _, conflicts, err := trees.Rebase(t.Context(), w); err != nil || len(conflicts) > 0 {
		t.Fatal(conflicts, err)
	}
	if is, err := trees.Rebased(t.Context(), w); err != nil || !is {
		t.Errorf("rebased: %v, %v", is, err)
	}
	res, err := trees.Merge(t.Context(), w, offer(t, trees, w, "t-a"), []merge.Work{other}, nil)
	if err != nil || res.Stale != "" || len(res.Beside) > 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	if in, err := trees.Follow(t.Context(), w, merge.Work{}, nil); err != nil || in.Reason != "" {
		t.Fatal(in, err)
	}
	if files := runGit(t, own.Repo, "ls-tree", "--name-only", "main"); files != "a.txt\nt-a" {
		t.Errorf("main has %s", files)
	}

	// When the person takes that, too, the integration branch begins anew, and what it was is kept.
	was := runGit(t, own.Repo, "rev-parse", own.Into)
	runGit(t, own.Repo, "reset", "-q", "--hard", now)
	if _, err := trees.base(t.Context(), beside); err != nil {
		t.Fatal(err)
	}
	if is := runGit(t, own.Repo, "rev-parse", own.Into); is != now {
		t.Errorf("%s is at %s", own.Into, is)
	}
	if refs := runGit(t, own.Repo, "for-each-ref", "--contains", was, "--format=%(refname)"); !strings.Contains(refs, "refs/taskdaemon/lost/main/"+was) {
		t.Errorf("kept by %s", refs)
	}
}

// Names of trunks can be beside each other that those of refs could not.
func TestRefsOfTrunks(t *testing.T) {
	if a, b := SeenRef("release"), SeenRef("release/1"); strings.HasPrefix(b, a+"/") {
		t.Errorf("%s and %s", a, b)
	}
}
