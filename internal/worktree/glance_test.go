package worktree

import (
	"context"
	"strings"
	"testing"

	"taskdaemon/internal/config"
	"taskdaemon/internal/git"
	"taskdaemon/internal/merge"
)

// questions counts what git is asked one by one.
type questions struct {
	Git
	asked *[]string
}

func (q questions) RefAt(ctx context.Context, repo, ref string) (string, error) {
	*q.asked = append(*q.asked, "ref "+ref)
	return q.Git.RefAt(ctx, repo, ref)
}

func (q questions) IsAncestor(ctx context.Context, repo, old, young string) (bool, error) {
	*q.asked = append(*q.asked, "ancestor "+old+" "+young)
	return q.Git.IsAncestor(ctx, repo, old, young)
}

func (q questions) MergeBase(ctx context.Context, repo, a, b string) (string, error) {
	*q.asked = append(*q.asked, "base "+a+" "+b)
	return q.Git.MergeBase(ctx, repo, a, b)
}

func (q questions) TreeOf(ctx context.Context, repo, commit string) (string, error) {
	*q.asked = append(*q.asked, "tree "+commit)
	return q.Git.TreeOf(ctx, repo, commit)
}

// What a merge has to know is read at once: each question is a git of its own, and takes as long as the merge.
func TestMergeAsksAtOnce(t *testing.T) {
	trees, own := project(t, config.Worktree{Trunk: config.TrunkBranch})
	a, workA := done(t, trees, own, "t-a")
	b, workB := done(t, trees, own, "t-b")
	_, workC := done(t, trees, own, "t-c")
	_, workD := done(t, trees, own, "t-d")
	merged(t, trees, a, workA) // is fast-forward
	byHand(t, own.Repo, "by-hand.txt")
	var asked []string
	trees.Git = questions{trees.Git, &asked}
	res, err := trees.Merge(t.Context(), b, workB, []merge.Work{workC, workD}, nil)
	if err != nil || len(res.Beside) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	// Both branches went on, so that it takes a search to find where.
	if len(asked) != 1 || !strings.HasPrefix(asked[0], "base ") {
		t.Errorf("asked one by one: %q", asked)
	}
	for _, name := range []string{"t-a", "t-b", "t-c", "t-d", "by-hand.txt"} {
		runGit(t, own.Repo, "cat-file", "-e", res.Commit+":"+name)
	}
	if tree, err := git.TreeOf(t.Context(), own.Repo, res.Commit); err != nil || tree != res.Tree {
		t.Errorf("the tree is %s, not %s: %v", tree, res.Tree, err)
	}
}

// A branch that somebody moved since it was read is read again.
func TestMergeLooksAgain(t *testing.T) {
	trees, own := project(t, config.Worktree{Trunk: config.TrunkBranch})
	a, workA := done(t, trees, own, "t-a")
	b, workB := done(t, trees, own, "t-b")
	workB.Check = "look"
	first := true
	res, err := trees.Merge(t.Context(), b, workB, nil, func(context.Context, string, []merge.Work) (string, error) {
		if first {
			first = false
			merged(t, trees, a, workA)
		}
		return "", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"t-a", "t-b"} {
		runGit(t, own.Repo, "cat-file", "-e", res.Commit+":"+name)
	}
}
