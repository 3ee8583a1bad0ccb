package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

// Removal is what is removed, and what proves that nothing is lost by it. Its fields are on disk.
type Removal struct {
	Repo   string `json:"repo"`
	Path   string `json:"path,omitempty"` // the worktree; empty: it was gone, and only its branch is removed
	Branch string `json:"branch"`
	Head   string `json:"head,omitempty"` // where the branch was
	Proof  string `json:"proof"`          // the commit that has all that was there, and that stays
	Kept   string `json:"kept,omitempty"` // the ref that was made for that; empty: it is merged
}

// Journal has removals on record: before anything goes, and when it is gone.
type Journal interface {
	// Removing records what is about to be removed. If it fails nothing is.
	Removing(ctx context.Context, r Removal) (td.StepKey, error)
	// Removed records what came of it.
	Removed(ctx context.Context, key td.StepKey, err error) error
}

// remove removes a worktree and its branch, on record.
func (t *Trees) remove(ctx context.Context, w td.Worktree, proof, kept string) error {
	var key td.StepKey
	err := t.at(w).Remove(ctx, proof, func(head string) (err error) {
		key, err = t.Journal.Removing(ctx, Removal{Repo: w.Repo, Path: w.Path, Branch: w.Branch, Head: head, Proof: proof, Kept: kept})
		return err
	})
	if key == "" {
		return err
	}
	return errors.Join(err, t.Journal.Removed(ctx, key, err))
}

// Retire removes branches that have no worktree any more, on record. What is merged nowhere is kept.
func (t *Trees) Retire(ctx context.Context, repo string, branches []string) ([]git.Retired, error) {
	var keys []td.StepKey
	done, err := t.Git.RetireBranches(ctx, repo, branches, func(all []git.Retired) error {
		for _, r := range all {
			key, err := t.Journal.Removing(ctx, Removal{Repo: repo, Branch: r.Branch, Head: r.Head, Proof: r.Head, Kept: r.Kept})
			if err != nil {
				return err
			}
			keys = append(keys, key)
		}
		return nil
	})
	for _, key := range keys {
		if jerr := t.Journal.Removed(ctx, key, err); jerr != nil {
			return done, errors.Join(err, jerr)
		}
	}
	return done, err
}

// Settle brings a removal to its end that a crash cut off after it was recorded, and reports whether all is gone. One that had not begun is
// not: its worktree may be in use again.
func (t *Trees) Settle(ctx context.Context, r Removal) (gone bool, err error) {
	w := td.Worktree{Repo: r.Repo, Path: r.Path, Branch: r.Branch}
	defer t.lock(w)()
	if r.Path != "" {
		if _, err := os.Lstat(r.Path); !errors.Is(err, fs.ErrNotExist) {
			return false, nil // its folder is the first to go
		}
	}
	if err := t.Git.Tidy(ctx, r.Repo); err != nil {
		return false, err
	}
	head, err := t.Git.RefAt(ctx, r.Repo, "refs/heads/"+r.Branch)
	if err != nil || head == "" {
		return err == nil, err
	}
	if r.Path == "" || head != r.Head {
		return false, nil
	}
	err = t.at(w).Remove(ctx, r.Proof, nil) // it has to show once more that nothing is lost
	return err == nil, err
}
