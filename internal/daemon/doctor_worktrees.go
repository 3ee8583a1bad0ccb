package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
	"taskdaemon/internal/worktree"
)

// checkWorktrees holds the worktrees and branches of repositories against the journal (S-6). What is safe to put right: leftovers
// that hold nothing of their own go, and a worktree that is gone is made again from its branch.
func (d *Daemon) checkWorktrees(ctx context.Context, fix bool) (api.Check, error) {
	c := api.Check{Name: "worktrees", Detail: "worktrees and branches belong to tasks, and tasks have theirs"}
	by, err := d.inWorktrees(ctx)
	if err != nil {
		return c, err
	}
	look := inspection{Daemon: d, check: &c, fix: fix}
	for _, repo := range slices.Sorted(maps.Keys(by)) {
		if err := look.repository(ctx, repo, by[repo]); err != nil {
			return c, err
		}
	}
	if look.kept > 0 {
		c.Detail += fmt.Sprintf("; %s kept", isAre(look.kept, "worktree"))
	}
	if len(c.Findings) > 0 && look.open == 0 {
		c.Fix, c.Fixed = "taskdaemon doctor --fix", fix
	}
	return c, nil
}

// inspection is doctor's look at worktrees.
type inspection struct {
	*Daemon
	check *api.Check
	fix   bool
	open  int // findings that are left to a person
	kept  int
}

// found notes what is wrong. mend puts it right, if it can be without asking; else hint says what to do.
func (i *inspection) found(mend func() error, hint, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if mend == nil {
		i.open++
		i.check.Fix = hint
	} else if i.fix {
		if err := mend(); err != nil {
			i.open++
			text += ": " + err.Error()
		}
	}
	i.check.Findings = append(i.check.Findings, text)
}

func (i *inspection) repository(ctx context.Context, repo string, tasks []td.Task) error {
	broken, err := git.BrokenRefs(ctx, repo)
	if ctx.Err() != nil {
		return err
	}
	for _, ref := range broken {
		i.found(nil, td.Typed("git -C %s update-ref --no-deref -d %s", repo, ref), "%s in %s names an object that is missing, and git gc stops there", ref, repo)
	}
	for _, t := range tasks {
		i.index(ctx, t)
	}
	trees, err := i.trees.Survey(ctx, repo, tasks)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		if live := stillOpen(tasks); len(live) > 0 { // else nobody misses it
			i.found(nil, "taskdaemon task cancel "+live[0].Handle, "%s, where %s works: %v", repo, live[0].Handle, err)
		}
		return nil
	}
	for _, t := range trees {
		i.kept += len(t.Kept)
		i.tree(ctx, t)
	}
	strays, err := i.trees.Strays(ctx, repo, trees, stillOpen(tasks))
	if err != nil {
		return err
	}
	for _, ref := range slices.Sorted(maps.Keys(strays)) {
		i.found(func() error { return i.trees.Forget(ctx, repo, ref, strays[ref]) }, "", "%s in %s is left of a task whose branch is gone", ref, repo)
	}
	i.behind(ctx, repo, tasks)
	if room, err := i.trees.RoomOf(ctx, repo); err == nil && room.Warning() != "" {
		i.check.Detail += "; " + room.Warning()
	}
	return nil
}

func (i *inspection) tree(ctx context.Context, t worktree.Tree) {
	name := t.Path
	if t.Condition == git.Missing {
		name = "the branch " + t.Branch
	}
	switch {
	case t.Condition == git.Missing && t.Head == "":
	case t.Task == nil && t.Merged && t.Condition == git.Missing:
		i.found(func() error {
			_, err := i.trees.Retire(ctx, t.Repo, []string{t.Branch})
			return err
		}, "", "%s belongs to no task", name)
	case t.Task == nil:
		i.found(nil, td.Typed("taskdaemon worktree prune --all -C %s", t.Repo), "%s belongs to no task", name)
	case t.Condition == git.Foreign:
		i.found(nil, "move "+t.Path+" out of the way", "%s is no worktree on %s", t.Path, t.Branch)
	case t.Condition == git.Missing && !t.Task.Status.State.Terminal():
		task := *t.Task
		i.found(func() error {
			return i.trees.Restore(ctx, t.Worktree, "", false, func(ctx context.Context) error { return i.unheld(ctx, task) })
		}, "", "%s is %s and its worktree is gone; it is on %s", task.Handle, task.Status.State, name)
	}
}

// index finds the index of a task's worktree that keeps git from packing the repository.
func (i *inspection) index(ctx context.Context, t td.Task) {
	w := t.Worktree
	if w == nil {
		return
	}
	broken, mend, err := git.Worktree{Repo: w.Repo, Path: w.Path, Branch: w.Branch}.BrokenIndex(ctx)
	if err == nil && broken {
		i.found(mend, "", "the index of %s names an object that is missing, and git gc stops there", w.Path)
	}
}

// behind adds what trunks lack. Nothing is damaged: a person has changes of their own there, which they have to be told of, or wants it so.
func (i *inspection) behind(ctx context.Context, repo string, tasks []td.Task) {
	unlanded, err := i.trees.Unlanded(ctx, repo)
	if err != nil {
		return
	}
	named := map[string]bool{}
	for _, u := range unlanded {
		named[u.Into] = true
		line := fmt.Sprintf("%s of %s lacks the work of %s", u.Trunk, repo, strings.Join(u.Tasks, ", "))
		if u.Reason != "" {
			line += fmt.Sprintf(" (%s)", u.Line())
		}
		i.check.Open = append(i.check.Open, line)
	}
	for _, t := range tasks {
		w := t.Worktree
		if w == nil || named[w.Into] {
			continue
		}
		named[w.Into] = true
		into, err := git.RefAt(ctx, w.Repo, "refs/heads/"+w.Into)
		if err != nil || into == "" {
			continue
		}
		trunk, err := git.RefAt(ctx, w.Repo, "refs/heads/"+w.Trunk)
		if err != nil || trunk == "" {
			continue
		}
		if lacks, _, err := git.Between(ctx, w.Repo, into, trunk); err == nil && lacks > 0 {
			i.check.Detail += fmt.Sprintf("; %s of %s lacks %s of %s", w.Trunk, w.Repo, plural(lacks, "commit"), w.Into)
		}
	}
}

func stillOpen(tasks []td.Task) []td.Task {
	return slices.DeleteFunc(slices.Clone(tasks), func(t td.Task) bool { return t.Status.State.Terminal() })
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, strings.TrimSuffix(noun, "s"))
}

func isAre(n int, noun string) string {
	if n == 1 {
		return plural(n, noun) + " is"
	}
	return plural(n, noun) + " are"
}
