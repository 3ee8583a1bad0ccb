package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/git"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/worktree"
)

// inWorktrees are the tasks that have a worktree, by their repository.
func (d *Daemon) inWorktrees(ctx context.Context) (map[string][]td.Task, error) {
	tasks, err := d.journal.Tasks(ctx, store.TaskFilter{Brief: true})
	if err != nil {
		return nil, fmt.Errorf("look for tasks in worktrees: %w", err)
	}
	by := map[string][]td.Task{}
	for _, t := range tasks {
		if repo, in := treeRepo(t); in {
			by[repo] = append(by[repo], t)
		}
	}
	return by, nil
}

// treeRepo is the repository that a task has a worktree of.
func treeRepo(t td.Task) (repo string, has bool) {
	if t.Worktree != nil {
		return t.Worktree.Repo, true
	}
	repo, _, has = strings.Cut(t.Dir, "/"+td.WorktreeFolder+"/"+t.Handle)
	return repo, has && t.Fork != nil
}

// crowded says which disks fill up that tasks have worktrees on.
func (d *Daemon) crowded(lists ...[]td.Task) (warnings []string) {
	seen := map[string]bool{}
	for _, t := range slices.Concat(lists...) {
		repo, has := treeRepo(t)
		if !has || seen[repo] {
			continue
		}
		seen[repo] = true
		if room, err := d.trees.DiskOf(repo); err == nil && room.Warning() != "" {
			warnings = append(warnings, room.Warning())
		}
	}
	return warnings
}

// treeOf is the worktree of a task. That of a fork is not in its record: its names follow from the fork's.
func (d *Daemon) treeOf(ctx context.Context, t td.Task) (td.Worktree, error) {
	if t.Worktree != nil {
		return *t.Worktree, nil
	}
	repo, has := treeRepo(t)
	if !has {
		return td.Worktree{}, td.Errorf(td.Conflict, "%s works in %s itself, and has no worktree", t.Handle, t.Dir).WithHint("taskdaemon task show %s", t.Handle)
	}
	source, err := d.journal.Task(ctx, t.Fork.Task)
	if err != nil {
		return td.Worktree{}, fmt.Errorf("look for what %s is a fork of: %w", t.Handle, err)
	}
	w := forkTree(repo, t.Handle, source.Title)
	return td.Worktree{Repo: w.Repo, Path: w.Path, Branch: w.Branch}, nil
}

// Worktrees are those that match.
func (d *Daemon) Worktrees(ctx context.Context, q api.WorktreeQuery) ([]api.Worktree, error) {
	by, err := d.inWorktrees(ctx)
	if err != nil {
		return nil, err
	}
	repos := slices.Sorted(maps.Keys(by))
	var only td.TaskID
	switch {
	case q.Ref != "":
		t, err := d.Task(ctx, q.Ref)
		if err != nil {
			return nil, err
		}
		repo, has := treeRepo(t)
		if !has {
			return []api.Worktree{}, nil
		}
		only, repos = t.ID, []string{repo}
	case q.Dir != "":
		root, err := repository(ctx, q.Dir)
		if err != nil {
			return nil, err
		}
		repos = []string{root}
	}
	found := []api.Worktree{}
	for _, repo := range repos {
		trees, err := d.trees.Survey(ctx, repo, by[repo])
		if td.IsKind(err, td.NotFound) && q == (api.WorktreeQuery{}) {
			continue // the repository is gone, and its worktrees with it
		}
		if err != nil {
			return nil, fmt.Errorf("look at the worktrees of %s: %w", repo, err)
		}
		for _, t := range trees {
			if only == "" || t.Task != nil && t.Task.ID == only {
				found = append(found, d.describe(ctx, t))
			}
		}
	}
	return found, nil
}

// repository is the top folder of the repository around a folder.
func repository(ctx context.Context, dir string) (string, error) {
	dir, err := workspace(dir)
	if err != nil {
		return "", err
	}
	root, err := git.RootOf(ctx, dir)
	if td.IsKind(err, td.NotFound) {
		return "", td.Errorf(td.NotFound, "%w", err).WithHint("taskdaemon worktree list --all")
	}
	return root, err
}

// describe looks closer at a worktree.
func (d *Daemon) describe(ctx context.Context, t worktree.Tree) api.Worktree {
	w := inShort(t)
	stands, err := t.Stands(ctx)
	if err == nil && t.Condition == git.Good {
		w.Size, err = worktree.DiskUse(ctx, t.Path)
	}
	if err != nil {
		w.Problem = err.Error()
	}
	w.Ahead, w.Behind, w.Changed = stands.Ahead, stands.Behind, stands.Changed
	return w
}

func inShort(t worktree.Tree) api.Worktree {
	w := api.Worktree{
		Repo: t.Repo, Path: t.Path, Condition: string(t.Condition), Branch: t.Branch, Head: t.Head, Into: t.Into,
		Merged: t.Merged, Locked: t.Locked, Kept: t.Kept,
	}
	if t.Task != nil {
		w.Empty = t.Merged && t.Task.Offered == ""
		w.Merged = t.Merged && !w.Empty
		w.Task, w.Handle, w.Title, w.State = t.Task.ID, t.Task.Handle, t.Task.Title, t.Task.Status.State
	}
	return w
}

// PruneWorktrees removes the worktrees of tasks that have ended.
func (d *Daemon) PruneWorktrees(ctx context.Context, in api.PruneWorktrees) ([]api.PrunedWorktree, error) {
	if err := d.accepting(); err != nil {
		return nil, err
	}
	root, err := repository(ctx, in.Dir)
	if err != nil {
		return nil, err
	}
	by, err := d.inWorktrees(ctx)
	if err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx) // what was begun is brought to its end: a git that is killed leaves locks behind
	done, err := d.trees.Prune(ctx, root, by[root], worktree.PruneOptions{
		Unknown: in.All, DryRun: in.DryRun,
		Free: func(ctx context.Context, t worktree.Tree) error { return d.left(ctx, t.Task, t.Worktree) },
	})
	if err != nil {
		return nil, fmt.Errorf("remove worktrees of %s: %w", root, err)
	}
	out := []api.PrunedWorktree{}
	for _, p := range done {
		out = append(out, api.PrunedWorktree{Worktree: inShort(p.Tree), KeptAs: p.KeptAs, Left: p.Left})
	}
	return out, nil
}

// RestoreWorktree brings the worktree of a task back. That of one that has ended stays until a person removes it.
func (d *Daemon) RestoreWorktree(ctx context.Context, ref string) (api.Worktree, error) {
	if err := d.accepting(); err != nil {
		return api.Worktree{}, err
	}
	t, err := d.Task(ctx, ref)
	if err != nil {
		return api.Worktree{}, err
	}
	w, err := d.treeOf(ctx, t)
	if err != nil {
		return api.Worktree{}, err
	}
	err = d.trees.Restore(context.WithoutCancel(ctx), w, t.Offered, d.clears(t), func(ctx context.Context) error { return d.unheld(ctx, t) })
	if err != nil {
		return api.Worktree{}, fmt.Errorf("restore the worktree of %s: %w", t.Handle, err)
	}
	trees, err := d.trees.Survey(ctx, w.Repo, []td.Task{t})
	if err != nil {
		return api.Worktree{}, err
	}
	for _, tree := range trees {
		if tree.Task != nil {
			return d.describe(ctx, tree), nil
		}
	}
	return api.Worktree{}, td.Errorf(td.Conflict, "the worktree of %s was removed again", t.Handle)
}

// haveWorktree brings the worktree of a task back that is to be rewound: that of a completed one is gone when its work is merged.
func (d *Daemon) haveWorktree(ctx context.Context, t td.Task) error {
	if _, has := treeRepo(t); !has || t.Status.State == td.Running {
		return nil
	}
	if _, err := os.Lstat(t.Dir); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	w, err := d.treeOf(ctx, t)
	if err != nil {
		return err
	}
	err = d.trees.Restore(context.WithoutCancel(ctx), w, t.Offered, false, func(ctx context.Context) error { return d.unheld(ctx, t) })
	if err != nil {
		return fmt.Errorf("bring the worktree of %s back: %w", t.Handle, err)
	}
	return nil
}

// unheld fails while a run has the task.
func (d *Daemon) unheld(ctx context.Context, t td.Task) error {
	held, ok, err := d.journal.HolderOf(ctx, t.ID)
	if err != nil {
		return err
	}
	if ok && sandbox.Alive(held.Holder) {
		return td.Errorf(td.Conflict, "%s is at work", t.Handle).WithHint("taskdaemon task show %s", t.Handle)
	}
	return nil
}

// left fails unless nobody works in a worktree any more: its task, if one is known, has ended, and no other goes on in there.
func (d *Daemon) left(ctx context.Context, t *td.Task, w td.Worktree) error {
	if t != nil {
		if err := d.unheld(ctx, *t); err != nil {
			return err
		}
		now, err := d.journal.Task(ctx, t.ID)
		if err != nil {
			return err
		}
		if !now.Status.State.Terminal() {
			return td.Errorf(td.Conflict, "%s is %s", t.Handle, now.Status.State)
		}
	}
	live, err := d.journal.Tasks(ctx, store.TaskFilter{States: store.Live, Brief: true})
	if err != nil {
		return err
	}
	for _, o := range live {
		if o.Dir == w.Path || strings.HasPrefix(o.Dir, w.Path+"/") {
			return td.Errorf(td.Conflict, "%s works there and is %s", o.Handle, o.Status.State)
		}
	}
	return nil
}
