package worktree

import (
	"cmp"
	"context"

	"taskdaemon/internal/git"
	"taskdaemon/internal/merge"
	"taskdaemon/internal/td"
)

// glance is git for as long as one merge takes, or one update of the trunk. What that has to know of the repository is read at its beginning, all at once, and not asked for again: each question is a git of
// its own, and takes as long as a merge. Whoever moves a branch meanwhile is found out by the one compare-and-set that moves it, and then everything is asked for again.
type glance struct {
	Git
	refs  map[string]string // by full name; empty: there is none
	kin   *git.Lineage
	trees map[string]string // of commits that were made since
}

// glance reads what is asked about two branches and the works that go to them.
func (t *Trees) glance(ctx context.Context, w td.Worktree, works ...merge.Work) (*glance, error) {
	trunk := "refs/heads/" + w.Trunk
	names, commits := []string{"refs/heads/" + w.Into, trunk, sharedRef(w)}, []string{}
	for _, work := range works {
		names, commits = append(names, begunRef(work.Handle), withdrawnRef(work.Handle, work.Commit)), append(commits, work.Commit)
	}
	at, err := t.Git.Refs(ctx, w.Repo, names...)
	if err != nil {
		return nil, err
	}
	g := &glance{Git: t.Git, refs: map[string]string{}, kin: &git.Lineage{}, trees: map[string]string{}}
	for _, name := range names {
		g.refs[name] = at[name]
		if at[name] != "" {
			commits = append(commits, at[name])
		}
	}
	base := cmp.Or(at[sharedRef(w)], at[trunk]) // most works begin there
	if base == "" {
		return g, nil
	}
	// Without one git is asked about each pair, and says what is wrong with a commit.
	if kin, err := t.Git.LineageOf(ctx, w.Repo, base, commits...); err == nil {
		g.kin = kin
	}
	return g, ctx.Err()
}

// RefAt is git.RefAt.
func (g *glance) RefAt(ctx context.Context, repo, ref string) (string, error) {
	if at, known := g.refs[ref]; known {
		return at, nil
	}
	return g.Git.RefAt(ctx, repo, ref)
}

// MoveRef is git.MoveRef.
func (g *glance) MoveRef(ctx context.Context, repo, ref, to, from string) error {
	return g.moved(ref, to, g.Git.MoveRef(ctx, repo, ref, to, from))
}

// MoveRefUnless is git.MoveRefUnless.
func (g *glance) MoveRefUnless(ctx context.Context, repo, ref, to, from string, others ...string) error {
	return g.moved(ref, to, g.Git.MoveRefUnless(ctx, repo, ref, to, from, others...))
}

// moved takes note of a ref that was moved, or of one that somebody else has.
func (g *glance) moved(ref, to string, err error) error {
	if err != nil {
		g.refs = nil
	} else if _, known := g.refs[ref]; known {
		g.refs[ref] = to
	}
	return err
}

// IsAncestor is git.IsAncestor.
func (g *glance) IsAncestor(ctx context.Context, repo, old, young string) (bool, error) {
	if is, known := g.kin.Contains(young, old); known {
		return is, nil
	}
	return g.Git.IsAncestor(ctx, repo, old, young)
}

// MergeBase is git.MergeBase.
func (g *glance) MergeBase(ctx context.Context, repo, a, b string) (string, error) {
	if in, _ := g.kin.Contains(a, b); in {
		return b, nil
	}
	if in, _ := g.kin.Contains(b, a); in {
		return a, nil
	}
	return g.Git.MergeBase(ctx, repo, a, b)
}

// CommitTree is git.CommitTree.
func (g *glance) CommitTree(ctx context.Context, repo, tree, message string, parents ...string) (string, error) {
	commit, err := g.Git.CommitTree(ctx, repo, tree, message, parents...)
	if err == nil {
		g.kin.Add(commit, parents...)
		g.trees[commit] = tree
	}
	return commit, err
}

// TreeOf is git.TreeOf.
func (g *glance) TreeOf(ctx context.Context, repo, commit string) (string, error) {
	if tree, known := g.trees[commit]; known {
		return tree, nil
	}
	return g.Git.TreeOf(ctx, repo, commit)
}
