package worktree

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"taskdaemon/internal/git"
	"taskdaemon/internal/merge"
	"taskdaemon/internal/td"
)

// A person may take commits from the trunk again: reset it, amend, rebase it onto what others pushed. What they took must not come back by
// way of the integration branch, which has it still, or of a task's branch, which was begun on it (K-3).

// escaped is the name of a branch as one part of a ref's: release and release/1 can be beside each other then.
func escaped(branch string) string { return url.PathEscape(branch) }

// SeenRef is where a repository keeps where a trunk was when it was last looked at.
func SeenRef(trunk string) string { return git.SeenRefs + escaped(trunk) }

// sharedRef is the newest commit that an integration branch and the trunk were seen to have both.
func sharedRef(w td.Worktree) string {
	return git.SharedRefs + escaped(strings.TrimPrefix(w.Into, git.IntoPrefix))
}

// lostRef keeps an integration branch that was begun anew.
func lostRef(w td.Worktree, commit string) string {
	return git.LostRefs + escaped(strings.TrimPrefix(w.Into, git.IntoPrefix)) + "/" + commit
}

// begunRef is the commit that a task's own work begins after.
func begunRef(handle string) string { return git.BegunRefs + handle }

// renew begins the integration branch anew with the trunk, if the trunk had all of it once and does not any more: a person took that away. Where
// the branch has work that the trunk never had, a person has to say what becomes of it.
func (t *Trees) renew(ctx context.Context, g Git, w td.Worktree) error {
	into, trunk, err := line{g, w}.Heads(ctx)
	if err != nil || into == "" || trunk == "" {
		return err
	}
	had, err := g.RefAt(ctx, w.Repo, sharedRef(w))
	if err != nil {
		return err
	}
	taken, err := taken(ctx, g, w, had, into, trunk)
	switch {
	case err != nil:
		return err
	case !taken:
		_, err := share(ctx, g, w, into, trunk, had)
		return err
	case into != had:
		return td.Errorf(td.Unavailable, "%s was rewritten and no longer contains %.12s, on which %s has work that was never in %s", w.Trunk, had, w.Into, w.Trunk).
			WithHint("%s", td.Words(resumeTrunk(w)))
	}
	t.Log.Warn("the integration branch is begun anew: the trunk has its work no more", "repo", w.Repo, "branch", w.Into, "was", into, "trunk", trunk)
	if err := keepLost(ctx, g, w, into); err != nil {
		return err
	}
	if err := g.MoveRefUnless(ctx, w.Repo, "refs/heads/"+w.Into, trunk, into); err != nil {
		return fmt.Errorf("begin %s anew: %w", w.Into, err)
	}
	return set(ctx, g, w.Repo, sharedRef(w), trunk, had)
}

// keepLost keeps an integration branch as it was before it is begun anew.
func keepLost(ctx context.Context, g Git, w td.Worktree, into string) error {
	kept, err := g.RefAt(ctx, w.Repo, lostRef(w, into))
	if err == nil && kept == "" {
		err = g.MoveRef(ctx, w.Repo, lostRef(w, into), into, "")
	}
	if err != nil {
		return fmt.Errorf("keep what %s was: %w", w.Into, err)
	}
	return nil
}

// share remembers the newest commit that the integration branch and the trunk have both, and says which it is.
func share(ctx context.Context, g Git, w td.Worktree, into, trunk, had string) (string, error) {
	shared, err := g.MergeBase(ctx, w.Repo, into, trunk)
	if err != nil || shared == "" {
		return had, err
	}
	return shared, set(ctx, g, w.Repo, sharedRef(w), shared, had)
}

// set moves a ref that only remembers something: if another has moved it, that counts.
func set(ctx context.Context, g Git, repo, ref, to, from string) error {
	if to == from {
		return nil
	}
	if err := g.MoveRef(ctx, repo, ref, to, from); err != nil && !td.IsKind(err, td.Conflict) {
		return err
	}
	return nil
}

// taken reports whether the trunk has lost what it had, and the integration branch still builds on.
func taken(ctx context.Context, g Git, w td.Worktree, had, into, trunk string) (bool, error) {
	if had == "" || trunk == "" {
		return false, nil
	}
	if has, err := g.IsAncestor(ctx, w.Repo, had, trunk); err != nil || has {
		return false, err
	}
	return g.IsAncestor(ctx, w.Repo, had, into)
}

// begins remembers what a task's own work begins after.
func (t *Trees) begins(ctx context.Context, w td.Worktree, at string) error {
	ref := begunRef(filepath.Base(w.Path))
	old, err := t.Git.RefAt(ctx, w.Repo, ref)
	if err != nil || old == at {
		return err
	}
	return set(ctx, t.Git, w.Repo, ref, at, old)
}

// Strays are the refs that remember what the work of tasks began after of which the repository has nothing any more, and where they stand: a
// kill left them. trees is what Survey found; tasks that are open may be about to begin.
func (t *Trees) Strays(ctx context.Context, repo string, trees []Tree, open []td.Task) (map[string]string, error) {
	refs, err := t.Git.Refs(ctx, repo, git.BegunRefs)
	if err != nil {
		return nil, err
	}
	for _, tree := range trees {
		if tree.Head != "" || tree.Condition != git.Missing || len(tree.Kept) > 0 {
			delete(refs, begunRef(tree.handle()))
		}
	}
	for _, task := range open {
		delete(refs, begunRef(task.Handle))
	}
	return refs, nil
}

// Forget removes a ref that only remembers something, if it still stands there.
func (t *Trees) Forget(ctx context.Context, repo, ref, at string) error {
	return set(ctx, t.Git, repo, ref, "", at)
}

// begun is the commit that a branch's own work begins after, if that is known and it still does.
func begun(ctx context.Context, g Git, repo, handle, head string) (string, error) {
	at, err := g.RefAt(ctx, repo, begunRef(handle))
	if err != nil || at == "" {
		return "", err
	}
	if builds, err := g.IsAncestor(ctx, repo, at, head); err != nil || !builds {
		return "", err // somebody has built it anew
	}
	return at, nil
}

// foreign is the commit that the task's own work begins after, if base lacks that: what comes before it is not the task's to bring along.
func (t *Trees) foreign(ctx context.Context, w td.Worktree, head, base string) (string, error) {
	at, err := begun(ctx, t.Git, w.Repo, filepath.Base(w.Path), head)
	if err != nil || at == "" {
		return "", err
	}
	if has, err := t.Git.IsAncestor(ctx, w.Repo, at, base); err != nil || has {
		return "", err
	}
	return at, nil
}

// stands reports whether all that a task's work was begun on is in the integration branch or the trunk: else it was taken from there.
func stands(ctx context.Context, g Git, w td.Worktree, handle, head, into, trunk string) (bool, error) {
	at, err := begun(ctx, g, w.Repo, handle, head)
	if err != nil || at == "" {
		return err == nil, err
	}
	in := func(commit string) (bool, error) {
		for _, branch := range []string{into, trunk} {
			if branch == "" {
				continue
			}
			if has, err := g.IsAncestor(ctx, w.Repo, commit, branch); err != nil || has {
				return has, err
			}
		}
		return false, nil
	}
	if has, err := in(at); err != nil || has {
		return has, err
	}
	past, err := g.Log(ctx, w.Repo, at, 1)
	if err != nil || len(past) == 0 || past[0].Subject != joinedSubject {
		return false, err
	}
	for _, p := range past[0].Parents {
		if has, err := in(p); err != nil || !has {
			return false, err
		}
	}
	return true, nil // it was begun on both, brought together
}

// standing leaves out works that stand on what was taken from the trunk, and says where the trunk is if the task's own does: it is to be brought there
// first.
func standing(ctx context.Context, g Git, w td.Worktree, own merge.Work, beside []merge.Work) (stale string, rest []merge.Work, err error) {
	into, trunk, err := line{g, w}.Heads(ctx)
	if err != nil || trunk == "" {
		return "", beside, err
	}
	if ok, err := stands(ctx, g, w, own.Handle, own.Commit, into, trunk); err != nil || !ok {
		return trunk, nil, err
	}
	for _, b := range beside {
		ok, err := stands(ctx, g, w, b.Handle, b.Commit, into, trunk)
		if err != nil {
			return "", nil, err
		}
		if ok {
			rest = append(rest, b)
		}
	}
	return "", rest, nil
}
