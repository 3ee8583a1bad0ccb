package worktree

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/config"
	"taskdaemon/internal/git"
	"taskdaemon/internal/merge"
	"taskdaemon/internal/td"
)

// Merged work that could not go on to the trunk, because the checkout is dirty or in the middle of a rebase, say, is unlanded (K-4). One ref per task
// records it in the repository itself: what a trunk lacks is computed from refs, never remembered.

// unlandedRef points to where the integration branch was when the trunk could not be updated with a task's work.
func unlandedRef(into, handle string) string {
	return git.UnlandedRefs + escaped(strings.TrimPrefix(into, git.IntoPrefix)) + "/" + handle
}

// markUnlanded records that the trunk lacks the work of a task.
func (t *Trees) markUnlanded(ctx context.Context, w td.Worktree, handle string) error {
	into, err := t.Git.RefAt(ctx, w.Repo, "refs/heads/"+w.Into)
	if err != nil || into == "" {
		return err
	}
	ref := unlandedRef(w.Into, handle)
	old, err := t.Git.RefAt(ctx, w.Repo, ref)
	if err != nil {
		return err
	}
	return set(ctx, t.Git, w.Repo, ref, into, old)
}

// Unlanded lists the merged work that the trunks of a repository lack, one entry per integration branch. Records of work that has landed are removed.
func (t *Trees) Unlanded(ctx context.Context, repo string) ([]td.Unlanded, error) {
	refs, err := t.Git.Refs(ctx, repo, git.UnlandedRefs)
	if err != nil {
		return nil, err
	}
	by := map[string]*td.Unlanded{}
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		name, handle, _ := strings.Cut(strings.TrimPrefix(ref, git.UnlandedRefs), "/")
		branch, err := url.PathUnescape(name)
		into := git.IntoPrefix + branch
		trunk := git.TrunkFollowing(into)
		if err != nil || trunk == "" {
			continue // not ours
		}
		at, err := t.stillOn(ctx, repo, into, refs[ref])
		if err != nil {
			return nil, err
		}
		if in, err := t.landed(ctx, repo, trunk, at); err != nil {
			return nil, err
		} else if in {
			if err := set(ctx, t.Git, repo, ref, "", refs[ref]); err != nil && ctx.Err() == nil {
				t.Log.Warn("remove the record of work that has landed", "repo", repo, "ref", ref, "err", err) // by the next who asks
			}
			continue
		}
		u := by[into]
		if u == nil {
			u = &td.Unlanded{Repo: repo, Trunk: trunk, Into: into, Commit: at, Obstacle: t.attempts.obstacle(repo, into)}
			by[into] = u
		}
		u.Tasks = append(u.Tasks, handle)
		if newer, err := t.Git.IsAncestor(ctx, repo, u.Commit, at); err != nil {
			return nil, err
		} else if newer {
			u.Commit = at
		}
	}
	var all []td.Unlanded
	for _, into := range slices.Sorted(maps.Keys(by)) {
		all = append(all, *by[into])
	}
	return all, nil
}

// stillOn is a commit that was merged into an integration branch, or all of the branch if that was made anew since, by rebasing it.
func (t *Trees) stillOn(ctx context.Context, repo, into, commit string) (string, error) {
	head, err := t.Git.RefAt(ctx, repo, "refs/heads/"+into)
	if err != nil || head == "" {
		return commit, err
	}
	if in, err := t.Git.IsAncestor(ctx, repo, commit, head); err != nil || in {
		return commit, err
	}
	return head, nil
}

// landed reports whether a trunk contains a commit. A trunk that was deleted lacks nothing.
func (t *Trees) landed(ctx context.Context, repo, trunk, commit string) (bool, error) {
	at, err := t.Git.RefAt(ctx, repo, "refs/heads/"+trunk)
	if err != nil || at == "" {
		return err == nil, err
	}
	return t.Git.IsAncestor(ctx, repo, commit, at)
}

// Unseen is the merged work of another task, if work that begins at w would not contain it: it is on an integration branch of its own, and w's trunk lacks it. Nil if it would, or if a
// person has taken it away.
func (t *Trees) Unseen(ctx context.Context, w, other td.Worktree, commit string) (*td.Unlanded, error) {
	if w.Repo != other.Repo || w.Into == other.Into {
		return nil, nil //nolint:nilnil // nothing is unseen
	}
	from, err := t.Git.RefAt(ctx, w.Repo, "refs/heads/"+other.Into)
	if err != nil || from == "" {
		return nil, err
	}
	if has, err := t.Git.IsAncestor(ctx, w.Repo, commit, from); err != nil || !has {
		return nil, err
	}
	into, trunk, err := t.line(w).Heads(ctx)
	if err != nil {
		return nil, err
	}
	for _, at := range []string{into, trunk} {
		if has, err := t.contains(ctx, w.Repo, at, commit); err != nil || has {
			return nil, err
		}
	}
	return &td.Unlanded{Repo: w.Repo, Trunk: w.Trunk, Into: other.Into, Commit: commit, Tasks: []string{filepath.Base(other.Path)}, Obstacle: t.obstacle(ctx, w, other)}, nil
}

// contains reports whether a branch that stands at a commit has another one, or all of its content: a person may have merged it as one commit of their own.
func (t *Trees) contains(ctx context.Context, repo, at, commit string) (bool, error) {
	if at == "" {
		return false, nil
	}
	if has, err := t.Git.IsAncestor(ctx, repo, commit, at); err != nil || has {
		return has, err
	}
	m, err := t.Git.MergeTree(ctx, repo, at, commit)
	if err != nil || len(m.Conflicts) > 0 {
		return false, err
	}
	tree, err := t.Git.TreeOf(ctx, repo, at)
	return tree == m.Tree, err
}

// obstacle is why the trunk of w lacks what was merged for other.
func (t *Trees) obstacle(ctx context.Context, w, other td.Worktree) td.Obstacle {
	hint := t.byHand(ctx, w, other.Into)
	if w.Trunk != other.Trunk {
		return td.Obstacle{Reason: fmt.Sprintf("it was done for %s", other.Trunk), Hint: hint}
	}
	if last := t.attempts.obstacle(other.Repo, other.Into); last.Reason != "" {
		return last
	}
	if t.Config(w.Repo).Trunk == config.TrunkAuto {
		return t.notYet(ctx, other)
	}
	return td.Obstacle{Reason: "your config leaves the merge to you", Hint: hint}
}

// Land tries once more to update a trunk with work that it lacks. If the trunk has new commits, they are merged in first and the checks of works have to pass. before is
// called right before the trunk changes.
func (t *Trees) Land(ctx context.Context, u td.Unlanded, works []merge.Work, check merge.Check, before func() error) (td.Obstacle, error) {
	w := td.Worktree{Repo: u.Repo, Into: u.Into, Trunk: u.Trunk}
	ended := t.attempts.try(ctx, w)
	into, trunk, err := t.line(w).Heads(ctx)
	if err != nil {
		return ended(td.Obstacle{}, err)
	}
	switch set := t.Config(u.Repo).Trunk; {
	case set == config.TrunkBranch:
		return ended(t.LeftToPerson(ctx, w))
	case set == config.TrunkAsk && into != u.Commit:
		return ended(t.landAgreed(ctx, w, u.Commit, trunk, before))
	}
	return ended(t.land(ctx, w, works, check, before))
}

// landAgreed updates a trunk only as far as was agreed to: what was merged later needs an answer of its own.
func (t *Trees) landAgreed(ctx context.Context, w td.Worktree, to, trunk string, before func() error) (td.Obstacle, error) {
	onward, err := t.Git.IsAncestor(ctx, w.Repo, trunk, to)
	if err != nil {
		return td.Obstacle{}, err
	}
	if onward {
		// One that moved meanwhile has new commits, too.
		if in, again, err := t.advance(ctx, t.Git, w, to, trunk, before); err != nil || !again {
			return in, err
		}
	}
	return td.Obstacle{
		Reason: fmt.Sprintf("%s has new commits, and %s has work that you were not asked about", w.Trunk, w.Into), Hint: t.ByHand(ctx, w),
	}, nil
}

// notYet is what is in the way of a trunk when nobody has looked.
func (t *Trees) notYet(ctx context.Context, w td.Worktree) td.Obstacle {
	return td.Obstacle{Reason: "it could not be updated yet", Hint: t.ByHand(ctx, w)}
}

// ByHand is what a person types to merge what is on the integration branch into its trunk.
func (t *Trees) ByHand(ctx context.Context, w td.Worktree, options ...td.Words) string {
	return t.byHand(ctx, w, w.Into, options...)
}

// byHand is what a person types to merge a branch into the trunk of w: in the checkout that has it, if there is one.
func (t *Trees) byHand(ctx context.Context, w td.Worktree, what string, options ...td.Words) string {
	top, err := t.Git.CheckoutOf(ctx, w.Repo, w.Trunk)
	if err != nil || top == "" {
		top = w.Repo // the line is advice: git says what is in its way
	}
	return td.MergeLine(top, w.Trunk, what, options...)
}
