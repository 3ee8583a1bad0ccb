package git

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var (
	fpRemoveAway   = failpoint.New("git.worktree.before_away")
	fpRemoveRecord = failpoint.New("git.worktree.before_forget")
	fpRemoveBranch = failpoint.New("git.worktree.before_unbranch")
	fpRemoveFiles  = failpoint.New("git.worktree.before_remove")
	fpRemoveDone   = failpoint.New("git.worktree.removed")
)

// Remove removes the worktree and its branch if the commit proof has all that they hold: the branch's commit is proof or an ancestor of
// it, files and index are as in one of the two, or as Keep recorded them in proof, and proof itself can be reached from a ref
// that is no run's branch. Refused otherwise, and when somebody has locked the worktree. Ignored files are not asked
// about, and go. It is no error if there is nothing any more.
//
// before, if there is one, is told where the branch is when all is proven and nothing removed yet; if it fails, all stays.
func (w Worktree) Remove(ctx context.Context, proof string, before func(head string) error) error {
	common, err := w.common()
	if err != nil {
		return err
	}
	if proof, err = commitOf(ctx, w.Repo, proof); err != nil {
		return err
	}
	if err := w.reachable(ctx, proof); err != nil {
		return err
	}
	unlock, err := lockWorktrees(ctx, common)
	if err != nil {
		return err
	}
	defer unlock()
	head, err := RefAt(ctx, w.Repo, w.ref())
	if err != nil {
		return err
	}
	if head != "" {
		switch in, err := IsAncestor(ctx, w.Repo, head, proof); {
		case err != nil:
			return err
		case !in:
			return td.Errorf(td.Refused, "the branch %s at %.12s is not part of %.12s", w.Branch, head, proof)
		}
	}
	cond, p, err := w.look(ctx, common)
	switch {
	case err != nil:
		return err
	case p == nil && cond == Foreign:
		return w.foreign()
	case p != nil:
		if p, err = w.open(ctx); err == nil {
			err = p.proven(ctx, head, proof)
		}
		if td.IsKind(err, td.Conflict) { // it could not even be asked
			return &td.Error{Kind: td.Refused, Err: err}
		}
		if err != nil {
			return err
		}
	}
	if before != nil && (p != nil || head != "") {
		if err := before(head); err != nil {
			return err
		}
	}
	return w.remove(ctx, common, head, p)
}

// remove removes what has been proven. The folder goes at one instant and then file by file, so that none is ever half there.
func (w Worktree) remove(ctx context.Context, common, head string, p *place) error {
	if p != nil {
		if err := disk.RemoveAll(w.leaving()); err != nil {
			return td.Errorf(td.Storage, "remove worktree: %w", err)
		}
		if err := os.MkdirAll(filepath.Dir(w.leaving()), 0o777); err != nil {
			return td.Errorf(td.Storage, "remove worktree: %w", err)
		}
		fpRemoveAway.Hit()
		if err := os.Rename(w.Path, w.leaving()); err != nil {
			return td.Errorf(td.Storage, "remove worktree: %w", err)
		}
		if err := syncPath(filepath.Dir(w.Path)); err != nil {
			return td.Errorf(td.Storage, "remove worktree: %w", err)
		}
	}
	fpRemoveRecord.Hit()
	if err := w.clear(ctx, common); err != nil {
		return err
	}
	fpRemoveBranch.Hit()
	// The branch goes last: whoever was killed before comes back for what has one.
	_, _ = run(ctx, call{dir: w.Repo, args: updateRef(true, "-d", BegunRefs+filepath.Base(w.Path))}) // it only remembers something
	if head != "" {
		if _, err := run(ctx, call{dir: w.Repo, keep: true, args: updateRef(true, "-d", w.ref(), head)}); err != nil {
			return err
		}
	}
	fpRemoveFiles.Hit()
	if err := disk.RemoveAll(w.leaving()); err != nil {
		return td.Errorf(td.Storage, "remove worktree: %w", err)
	}
	for _, dir := range []string{filepath.Dir(w.leaving()), filepath.Dir(w.draft())} {
		_ = os.Remove(dir) // unless another one is there
	}
	fpRemoveDone.Hit()
	return nil
}

// reachable fails unless a ref that is retained leads to the commit.
func (w Worktree) reachable(ctx context.Context, commit string) error {
	out, err := run(ctx, call{dir: w.Repo, args: []string{"for-each-ref", "--contains", commit, "--format=%(refname)"}})
	if err != nil {
		return err
	}
	refs := strings.Split(strings.TrimSpace(string(out)), "\n")
	if !slices.ContainsFunc(refs, Retained) {
		return td.Errorf(td.Refused, "nothing that is retained leads to %.12s", commit)
	}
	return nil
}

// proven fails unless all that the checkout holds is in one of two commits.
func (p *place) proven(ctx context.Context, head, proof string) error {
	if _, err := os.Lstat(filepath.Join(p.git, "locked")); err == nil {
		return td.Errorf(td.Refused, "the worktree %s is locked", p.top).WithHint("git -C %s worktree unlock %s", p.repo, p.top)
	}
	if err := p.busy(td.Refused, "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "sequencer"); err != nil {
		return err
	}
	now, err := p.content(ctx, head)
	if err != nil {
		return err
	}
	if kept, err := p.keeps(ctx, proof, head, now); err != nil || kept {
		return err
	}
	files, index := false, false
	for _, commit := range []string{head, proof} {
		tree, err := treeOf(ctx, p.repo, commit)
		if err != nil {
			return err
		}
		same, err := p.indexIs(ctx, commit)
		if err != nil {
			return err
		}
		files, index = files || tree == now.tree, index || same
	}
	if files && index && !now.state {
		return nil
	}
	changed, err := p.changes(ctx, true)
	if err != nil {
		return err
	}
	return td.Errorf(td.Refused, "%s holds what %.12s does not: %s", p.top, proof, someOf(changed)).WithHint("%s", p.advice("git -C %s status", p.top))
}
