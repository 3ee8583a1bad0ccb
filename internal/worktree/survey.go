package worktree

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

// Tree is what there is of a worktree: its folder, its branch, what was kept of it, and the task that it is of.
type Tree struct {
	td.Worktree
	Task      *td.Task      // nil: none that is known; one that is a fork, and has the worktree to itself, has no Worktree
	Condition git.Condition // of its folder
	Head      string        // of its branch; empty: there is none
	Merged    bool          // all that is on its branch is on one that stays, too
	Locked    bool
	Kept      []string // refs that have what it held
}

// handle is what the worktree is called by.
func (t Tree) handle() string {
	switch {
	case t.Task != nil:
		return t.Task.Handle
	case t.Path != "":
		return filepath.Base(t.Path)
	case t.Branch != "":
		handle, _, _ := strings.Cut(strings.TrimPrefix(t.Branch, "taskdaemon/run/"), "/")
		return handle
	}
	return t.Kept[0] // nothing else is left of it
}

// Stands says how it stands against the branch that its work goes to.
func (t Tree) Stands(ctx context.Context) (git.Standing, error) {
	if t.Branch == "" {
		return git.Standing{}, nil // only what was kept of it is left
	}
	w := of(t.Worktree)
	w.Path = cmp.Or(w.Path, filepath.Join(t.Repo, td.WorktreeFolder, t.handle()))
	return w.Stands(ctx, t.Into)
}

// merges reports whether it is of a task whose work is merged.
func (t Tree) merges() bool { return t.Task != nil && t.Task.Worktree != nil }

// there reports whether there is anything of it.
func (t Tree) there() bool { return t.Condition != git.Missing || t.Head != "" || len(t.Kept) > 0 }

// Survey finds all that there is of worktrees in a repository, sorted by name. tasks are those that are known; one that has not ended and
// whose worktree is gone is named too.
func (t *Trees) Survey(ctx context.Context, repo string, tasks []td.Task) ([]Tree, error) {
	there, err := t.Git.Worktrees(ctx, repo)
	if err != nil {
		return nil, err
	}
	branches, err := t.Git.RunBranches(ctx, repo)
	if err != nil {
		return nil, err
	}
	kept, err := t.Git.KeptOf(ctx, repo)
	if err != nil {
		return nil, err
	}
	s := survey{by: map[string]*Tree{}}
	for i, task := range tasks {
		if task.Worktree != nil && task.Worktree.Repo == repo {
			s.add(Tree{Worktree: *task.Worktree, Task: &tasks[i], Condition: git.Missing})
		}
	}
	for _, w := range there {
		at := s.at(w.Branch, Tree{Worktree: td.Worktree{Repo: repo, Path: w.Path, Branch: w.Branch}})
		if at.Path == "" {
			at.Path = w.Path
		}
		at.Condition, at.Locked = w.Condition, w.Locked
		if i := slices.IndexFunc(tasks, func(f td.Task) bool { return f.Worktree == nil && f.Handle == filepath.Base(w.Path) }); i >= 0 && at.Task == nil {
			at.Task = &tasks[i]
		}
	}
	for _, b := range branches {
		at := s.at(b.Name, Tree{Worktree: td.Worktree{Repo: repo, Branch: b.Name}, Condition: git.Missing})
		at.Head, at.Merged = b.Head, b.Merged
	}
	for _, k := range kept {
		s.keep(repo, k.Ref)
	}
	return s.all(), nil
}

// survey gathers by branch what belongs together.
type survey struct {
	by    map[string]*Tree
	order []*Tree
}

func (s *survey) add(t Tree) *Tree {
	at := &t
	s.by[t.Branch] = at
	s.order = append(s.order, at)
	return at
}

func (s *survey) at(branch string, otherwise Tree) *Tree {
	if at := s.by[branch]; at != nil {
		return at
	}
	return s.add(otherwise)
}

// keep finds out of which worktree something was kept.
func (s *survey) keep(repo, ref string) {
	for _, t := range s.order {
		if t.Path != "" && ref == keptRef(t.Worktree) || t.Branch != "" && (ref == git.KeptBranch(t.Branch) || strings.HasPrefix(ref, git.KeptBranch(t.Branch)+"-")) {
			t.Kept = append(t.Kept, ref)
			return
		}
	}
	t := Tree{Worktree: td.Worktree{Repo: repo}, Condition: git.Missing, Kept: []string{ref}}
	s.order = append(s.order, &t)
}

func (s *survey) all() []Tree {
	var all []Tree
	for _, t := range s.order {
		if t.there() || lost(*t) {
			all = append(all, *t)
		}
	}
	slices.SortStableFunc(all, func(a, b Tree) int { return strings.Compare(a.handle(), b.handle()) })
	return all
}

// lost reports whether the worktree is gone of a task that worked in it and goes on.
func lost(t Tree) bool {
	return t.Task != nil && !t.Task.Status.State.Terminal() && t.Task.Status.State != td.Queued
}
