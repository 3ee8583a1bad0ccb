package worktree

import (
	"context"
	"fmt"
	"path/filepath"

	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

// restored is why a worktree that was brought back is locked: nothing but a person removes it then.
const restored = "restored with taskdaemon worktree restore"

// keptRef is where what the worktree held is kept when it is removed. Its folder is named for the task.
func keptRef(w td.Worktree) string { return git.KeptRef(filepath.Base(w.Path)) }

// In reports whether the commit is merged: the integration branch has it, or the trunk.
func (t *Trees) In(ctx context.Context, w td.Worktree, commit string) (bool, error) {
	into, trunk, err := t.line(w).Heads(ctx)
	if err != nil || commit == "" {
		return false, err
	}
	for _, head := range []string{into, trunk} {
		if head == "" {
			continue
		}
		if in, err := t.Git.IsAncestor(ctx, w.Repo, commit, head); err != nil || in {
			return in, err
		}
	}
	return false, nil
}

// Clear removes the worktree and its branch. What in them is merged nowhere is kept first; then kept is the ref that has it.
// It fails, and all stays, when free does: nobody may begin to work there meanwhile. Conflict also when a process uses the worktree, Locked when
// somebody has locked it; one that was brought back is unlocked if byHand. It is no error if nothing is there any more.
func (t *Trees) Clear(ctx context.Context, w td.Worktree, byHand bool, free func(context.Context) error) (kept string, err error) {
	defer t.lock(w)()
	if err := free(ctx); err != nil {
		return "", err
	}
	if err := t.idle(w.Path); err != nil {
		return "", err
	}
	if err := t.unlocked(ctx, w, byHand); err != nil {
		return "", err
	}
	tree := t.at(w)
	there, err := tree.Look(ctx)
	if err != nil {
		return "", err
	}
	head, err := tree.Head(ctx)
	switch {
	case td.IsKind(err, td.NotFound) && there == git.Missing:
		return "", t.Git.Tidy(ctx, w.Repo) // a crash may have left something of it
	case err != nil:
		return "", err
	case there == git.Missing:
		return t.retire(ctx, w)
	}
	// What a crash has left of an older removal must not be taken for what is removed now.
	if err := t.Git.SetAside(ctx, w.Repo, git.KeptBranch(w.Branch)); err != nil {
		return "", err
	}
	ref := keptRef(w)
	older, err := t.Git.RefAt(ctx, w.Repo, ref)
	if err != nil {
		return "", err
	}
	if older == "" {
		if err := t.remove(ctx, w, head, ""); !td.IsKind(err, td.Refused) {
			return "", err
		}
	}
	commit, err := tree.Keep(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("keep what is in %s: %w", w.Path, err)
	}
	return ref, t.remove(ctx, w, commit, ref)
}

// idle fails while a process uses the folder.
func (t *Trees) idle(path string) error {
	users, err := t.Using(path)
	if err != nil || len(users) == 0 {
		return err
	}
	u := users[0]
	return td.Errorf(td.Conflict, "process %d (%s) uses %s", u.Pid, u.Command, u.Path).WithHint("end it first")
}

// unlocked fails when somebody has locked the worktree.
func (t *Trees) unlocked(ctx context.Context, w td.Worktree, byHand bool) error {
	why, is, err := t.at(w).Locked(ctx)
	switch {
	case err != nil || !is:
		return err
	case byHand && why == restored:
		return t.at(w).Unlock(ctx)
	}
	return td.Errorf(td.Locked, "%s is locked: %s", w.Path, why).WithHint("git -C %s worktree unlock %s", w.Repo, w.Path)
}

// retire removes the branch of a worktree that is gone.
func (t *Trees) retire(ctx context.Context, w td.Worktree) (kept string, err error) {
	if err := t.Git.Tidy(ctx, w.Repo); err != nil {
		return "", err
	}
	done, err := t.Retire(ctx, w.Repo, []string{w.Branch})
	if err != nil || len(done) == 0 {
		return "", err
	}
	return done[0].Kept, nil
}

// Restore brings a worktree back that was removed: as it was kept, from its branch, or as it was offered to be merged. With hold it stays
// until a person lets it go. It fails when free does.
func (t *Trees) Restore(ctx context.Context, w td.Worktree, offered string, hold bool, free func(context.Context) error) error {
	defer t.lock(w)()
	if err := free(ctx); err != nil {
		return err
	}
	switch there, err := t.at(w).Look(ctx); {
	case err != nil:
		return err
	case there == git.Good:
		return td.Errorf(td.Conflict, "%s is there", w.Path).WithHint("cd %s", w.Path)
	}
	if err := t.room(ctx, w); err != nil {
		return err
	}
	err := t.build(ctx, w, func() (string, error) {
		if offered == "" {
			return "", td.Errorf(td.NotFound, "nothing is left of %s: it has no branch, and nothing was kept of it", w.Path)
		}
		return offered, nil
	})
	if err != nil || !hold {
		return err
	}
	return t.at(w).Lock(ctx, restored)
}
