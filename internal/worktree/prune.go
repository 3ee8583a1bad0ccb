package worktree

import (
	"context"
	"errors"
	"fmt"

	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

// PruneOptions say what is removed.
type PruneOptions struct {
	// Unknown are those of no known task, too, even if something in them is merged nowhere.
	Unknown bool
	// DryRun only says what would be done.
	DryRun bool
	// Free fails while a task may go on in its worktree.
	Free func(context.Context, Tree) error
}

// Pruned is what became of a worktree, or would.
type Pruned struct {
	Tree
	KeptAs string // the ref that has what was merged nowhere
	Left   string // why it stays; empty: it is gone
}

// Prune removes the worktrees and branches of tasks that have ended, and what is left of those that nobody knows a task of. What is
// merged nowhere is kept first. One that cannot be removed holds up no other.
func (t *Trees) Prune(ctx context.Context, repo string, tasks []td.Task, o PruneOptions) ([]Pruned, error) {
	if !o.DryRun {
		if err := t.Git.Tidy(ctx, repo); err != nil {
			return nil, err
		}
	}
	all, err := t.Survey(ctx, repo, tasks)
	if err != nil {
		return nil, err
	}
	var out []Pruned
	var stale []string // branches without worktrees
	at := map[string]int{}
	for _, tree := range all {
		if tree.Task != nil && !tree.Task.Status.State.Terminal() || tree.Condition == git.Missing && tree.Head == "" {
			continue
		}
		p := Pruned{Tree: tree}
		switch {
		case tree.Condition == git.Missing && !tree.merges() && !tree.Merged && !o.Unknown:
			p.Left = unknown
		case o.DryRun:
			err = t.foresee(ctx, &p, o)
		case tree.Condition == git.Missing:
			at[tree.Branch] = len(out)
			stale = append(stale, tree.Branch)
		default:
			err = t.prune(ctx, &p, o)
		}
		if err != nil {
			return out, err
		}
		out = append(out, p)
	}
	if len(stale) == 0 {
		return out, nil
	}
	done, err := t.Retire(ctx, repo, stale)
	if err != nil {
		return out, err
	}
	for _, i := range at {
		out[i].Left = elsewhere
	}
	for _, r := range done {
		out[at[r.Branch]].KeptAs, out[at[r.Branch]].Left = r.Kept, ""
	}
	return out, nil
}

const unknown = "no task that is known here has it to merge, and something in it is merged nowhere; with --all it is kept and removed"

const elsewhere = "its branch is checked out somewhere else"

// prune removes one worktree, or says why it stays.
func (t *Trees) prune(ctx context.Context, p *Pruned, o PruneOptions) (err error) {
	if !p.merges() && !o.Unknown {
		err = t.clearMerged(ctx, p.Worktree)
	} else {
		p.KeptAs, err = t.Clear(ctx, p.Worktree, true, func(ctx context.Context) error { return o.Free(ctx, p.Tree) })
	}
	if err == nil {
		return t.confirm(ctx, p)
	}
	if ctx.Err() != nil {
		return err
	}
	if p.Left = err.Error(); errors.Is(err, errUnmerged) {
		p.Left = unknown
	}
	return nil
}

// confirm says why a worktree stays that was to be removed, if something of it is there still.
func (t *Trees) confirm(ctx context.Context, p *Pruned) error {
	there, err := t.at(p.Worktree).Look(ctx)
	if err != nil {
		return err
	}
	head, err := t.Git.RefAt(ctx, p.Repo, "refs/heads/"+p.Branch)
	switch {
	case err != nil:
		return err
	case there != git.Missing:
		p.Left = fmt.Sprintf("%s is there still", p.Path)
	case head != "":
		p.Left = elsewhere
	}
	return nil
}

var errUnmerged = errors.New("not all of it is merged")

// clearMerged removes a worktree in which all is merged.
func (t *Trees) clearMerged(ctx context.Context, w td.Worktree) error {
	defer t.lock(w)()
	if err := t.idle(w.Path); err != nil {
		return err
	}
	if err := t.unlocked(ctx, w, true); err != nil {
		return err
	}
	head, err := t.at(w).Head(ctx)
	if err != nil {
		return err
	}
	if err := t.remove(ctx, w, head, ""); td.IsKind(err, td.Refused) {
		return errors.Join(errUnmerged, err)
	} else if err != nil {
		return err
	}
	return nil
}

// foresee says what would become of a worktree.
func (t *Trees) foresee(ctx context.Context, p *Pruned, o PruneOptions) error {
	stands, err := p.Stands(ctx)
	if p.Condition != git.Missing && err != nil {
		p.Left = err.Error()
		return nil
	}
	whole := p.Merged && stands.Changed == 0
	switch {
	case p.Condition == git.Foreign:
		p.Left = fmt.Sprintf("%s is no worktree on %s", p.Path, p.Branch)
	case !p.merges() && !whole && !o.Unknown:
		p.Left = unknown
	case whole:
	case p.Condition == git.Missing:
		p.KeptAs = git.KeptBranch(p.Branch)
	default:
		p.KeptAs = keptRef(p.Worktree)
	}
	if p.Left == "" && p.Condition != git.Missing {
		if err := t.idle(p.Path); err != nil {
			p.Left = err.Error()
		}
	}
	return nil
}
