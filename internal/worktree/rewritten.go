package worktree

import (
	"context"
	"fmt"
	"strings"

	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

// A person may take commits from the trunk again: reset it, amend, rebase it onto what others pushed. What they took must not come back by
// way of the integration branch, which has it still, or of a task's branch, which was begun on it (K-3).

// followedRef is where an integration branch was when the trunk last had all of it.
func followedRef(w td.Worktree) string {
	return git.FollowedRefs + strings.TrimPrefix(w.Into, git.IntoPrefix)
}

// lostRef is where a trunk was when it was last seen to lose history.
func lostRef(trunk string) string { return git.LostRefs + trunk }

// Lost remembers where a trunk was that has lost history.
func (t *Trees) Lost(ctx context.Context, repo, trunk, was string) error {
	ref := lostRef(trunk)
	old, err := t.Git.RefAt(ctx, repo, ref)
	if err != nil || old == was {
		return err
	}
	return t.Git.MoveRef(ctx, repo, ref, was, old)
}

// renew begins the integration branch anew with the trunk, if the trunk had all of it once and does not any more: a person took that away. Where
// the branch has work that the trunk never had, a person has to say what becomes of it.
func (t *Trees) renew(ctx context.Context, w td.Worktree) error {
	into, trunk, err := t.line(w).Heads(ctx)
	if err != nil || into == "" || trunk == "" {
		return err
	}
	had, err := t.Git.RefAt(ctx, w.Repo, followedRef(w))
	if err != nil {
		return err
	}
	if has, err := t.Git.IsAncestor(ctx, w.Repo, into, trunk); err != nil {
		return err
	} else if has {
		return t.followed(ctx, w, into, had)
	}
	if taken, err := t.taken(ctx, w, had, trunk); err != nil || !taken {
		return err
	}
	if builds, err := t.Git.IsAncestor(ctx, w.Repo, had, into); err != nil {
		return err
	} else if !builds { // a person has built it anew already
		shared, err := t.Git.MergeBase(ctx, w.Repo, into, trunk)
		if err != nil || shared == "" {
			return err
		}
		return t.followed(ctx, w, shared, had)
	}
	if into != had {
		return td.Errorf(td.Unavailable, "%s was rewritten and has %.12s no more, on which %s has work that was never in %s", w.Trunk, had, w.Into, w.Trunk).
			WithHint("git -C %s rebase --onto %s %.12s %s, or bring it back: git merge %.12s", w.Repo, w.Trunk, had, w.Into, had)
	}
	t.Log.Warn("the integration branch is begun anew: the trunk has its work no more", "repo", w.Repo, "branch", w.Into, "was", into, "trunk", trunk)
	if err := t.Git.MoveRefUnless(ctx, w.Repo, "refs/heads/"+w.Into, trunk, into); err != nil {
		return fmt.Errorf("begin %s anew: %w", w.Into, err)
	}
	return t.followed(ctx, w, trunk, had)
}

// followed remembers where the integration branch is, as the trunk has all of it.
func (t *Trees) followed(ctx context.Context, w td.Worktree, into, before string) error {
	if into == before {
		return nil
	}
	err := t.Git.MoveRef(ctx, w.Repo, followedRef(w), into, before)
	if td.IsKind(err, td.Conflict) {
		return nil // another task remembers it
	}
	return err
}

// taken reports whether the trunk has lost what it had.
func (t *Trees) taken(ctx context.Context, w td.Worktree, had, trunk string) (bool, error) {
	if had == "" || trunk == "" {
		return false, nil
	}
	has, err := t.Git.IsAncestor(ctx, w.Repo, had, trunk)
	return err == nil && !has, err
}

// foreign is a former tip of the trunk of which the branch has commits that base lacks: they were taken away, and are not the branch's own. Empty:
// there is none.
func (t *Trees) foreign(ctx context.Context, w td.Worktree, head, base string) (string, error) {
	lost, err := t.Git.RefAt(ctx, w.Repo, lostRef(w.Trunk))
	if err != nil || lost == "" {
		return "", err
	}
	shared, err := t.Git.MergeBase(ctx, w.Repo, head, lost)
	if err != nil || shared == "" {
		return "", err
	}
	if has, err := t.Git.IsAncestor(ctx, w.Repo, shared, base); err != nil || has {
		return "", err
	}
	return lost, nil
}
