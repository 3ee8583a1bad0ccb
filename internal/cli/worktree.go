package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

func newWorktreeCmd(a *app) *cobra.Command {
	return group("worktree", "See, remove and restore the worktrees that tasks work in", "taskdaemon worktree list",
		newWorktreeListCmd(a), newWorktreePruneCmd(a), newWorktreeRestoreCmd(a))
}

type worktreeListOptions struct {
	app  *app
	dir  string
	all  bool
	task string
}

func newWorktreeListCmd(a *app) *cobra.Command {
	o := worktreeListOptions{app: a}
	cmd := &cobra.Command{
		Use: "list [task]", Aliases: []string{"ls", "status"}, Short: "List the worktrees of a repository and how they stand", Args: args(cobra.MaximumNArgs(1), "at most one task"),
		Long: `List the worktrees of the repository around the present folder: the task that each is of and its state, how many commits its
branch is ahead of and behind the integration branch, whether files in it are not committed, and what it takes on the disk. Branches
whose worktree is gone, and what was kept of those that were removed, are listed too.`,
		Example: "  taskdaemon worktree list --all", Annotations: talks(exitNotFound),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.task = args[0]
			}
			return runWorktreeList(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVarP(&o.dir, "dir", "C", "", "a folder of the repository; the present one when not given")
	cmd.Flags().BoolVar(&o.all, "all", false, "of all repositories that tasks were added in")
	return cmd
}

func runWorktreeList(ctx context.Context, o worktreeListOptions) error {
	a := o.app
	q := api.WorktreeQuery{Ref: o.task}
	if q.Ref == "" && !o.all {
		var err error
		if q.Dir, err = folderOr(o.dir); err != nil {
			return err
		}
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	all, err := svc.Worktrees(ctx, q)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(all)
	}
	defer a.printUnlanded(slices.DeleteFunc(unlandedIn(ctx, svc, ""), func(u td.Unlanded) bool {
		return q.Ref != "" || q.Dir != "" && !strings.HasPrefix(q.Dir+"/", u.Repo+"/")
	}))
	if len(all) == 0 {
		a.say("there are none")
		return nil
	}
	var size int64
	rows := [][]string{{"TASK", "STATE", "COMMITS", "FILES", "DISK", "WHERE", "TITLE"}}
	for _, w := range all {
		size += w.Size
		rows = append(rows, worktreeRow(a.style, w))
	}
	if err := table(a.stdout, rows); err != nil {
		return err
	}
	a.say("%s on the disk", diskWords(size))
	return nil
}

func worktreeRow(s style, w api.Worktree) []string {
	name, state := w.Handle, string(w.State)
	if name == "" {
		name, state = "-", "no task"
	}
	title := plainLine(w.Title, 40)
	if w.State != "" {
		title = s.state(w.State, title)
	}
	return []string{name, state, commitsWords(w), filesWords(w), sizeWords(w), plainLine(whereWords(w), 200), title}
}

// commitsWords is how a branch stands against the integration branch.
func commitsWords(w api.Worktree) string {
	var words []string
	if w.Ahead > 0 {
		words = append(words, fmt.Sprintf("%d ahead", w.Ahead))
	}
	if w.Behind > 0 {
		words = append(words, fmt.Sprintf("%d behind", w.Behind))
	}
	switch {
	case w.Head == "":
		return "-"
	case w.Merged:
		return strings.Join(append(words, "merged"), ", ")
	case w.Empty:
		return strings.Join(append(words, "no commits"), ", ")
	case len(words) == 0:
		return "not merged"
	}
	return strings.Join(words, ", ")
}

func filesWords(w api.Worktree) string {
	switch {
	case w.Problem != "":
		return plainLine(w.Problem, 60)
	case w.Condition != string(git.Good) && w.Head == "" && len(w.Kept) > 0:
		return "removed"
	case w.Condition != string(git.Good):
		return w.Condition
	}
	words := "clean"
	if w.Changed > 0 {
		words = plural(w.Changed, "file") + " changed"
	}
	if w.Locked {
		words += ", locked"
	}
	return words
}

func sizeWords(w api.Worktree) string {
	if w.Size == 0 {
		return "-"
	}
	return diskWords(w.Size)
}

// diskWords is a size as people read it.
func diskWords(bytes int64) string {
	switch {
	case bytes < 1<<20:
		return fmt.Sprintf("%d KiB", (bytes+1<<10-1)>>10)
	case bytes < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	default:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
}

// whereWords is where its files are, or else what is left of it.
func whereWords(w api.Worktree) string {
	where := w.Path
	switch {
	case w.Condition == string(git.Good):
	case w.Head != "":
		where = w.Branch
	case len(w.Kept) > 0:
		return strings.Join(w.Kept, ", ")
	}
	if len(w.Kept) > 0 {
		where += " and " + strings.Join(w.Kept, ", ")
	}
	return where
}

// unlandedIn is the merged work that branches of a repository lack; of all repositories without one. Where the daemon does not say there is nothing to show.
func unlandedIn(ctx context.Context, svc api.Service, repo string) []td.Unlanded {
	st, err := svc.Status(ctx)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(st.Unlanded, func(u td.Unlanded) bool { return repo != "" && u.Repo != repo })
}

// worktreeRows are what `task show` says of the worktree of a task.
func worktreeRows(ctx context.Context, svc api.Service, t td.Task) [][]string {
	w := t.Worktree
	if w == nil {
		return nil
	}
	where := plainLine(fmt.Sprintf("of %s, on %s, for %s", w.Repo, w.Branch, w.Into), 300)
	rows := [][]string{{"worktree", where}}
	for _, u := range unlandedIn(ctx, svc, w.Repo) {
		if slices.Contains(u.Tasks, t.Handle) {
			rows = append(rows, []string{"not landed", unlandedWords(u)}, []string{"", plainLine(unlandedHint(u), mostTyped)})
		}
	}
	found, err := svc.Worktrees(ctx, api.WorktreeQuery{Ref: string(t.ID)})
	switch {
	case err != nil:
		return append(rows, []string{"", plainLine(err.Error(), 300)})
	case len(found) == 0 && t.Status.State.Terminal():
		return append(rows, []string{"", "removed"})
	}
	for _, f := range found {
		words := filesWords(f)
		if f.Head != "" {
			words = commitsWords(f) + "; " + words
		}
		if len(f.Kept) > 0 {
			words += "; kept at " + strings.Join(f.Kept, ", ")
		}
		rows = append(rows, []string{"", plainLine(words, 300)})
	}
	return rows
}

type worktreePruneOptions struct {
	app *app
	in  api.PruneWorktrees
}

func newWorktreePruneCmd(a *app) *cobra.Command {
	o := worktreePruneOptions{app: a}
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove the worktrees of tasks that have ended", Args: args(cobra.NoArgs, "no arguments"),
		Long: `Remove the worktrees and branches of tasks that have ended, in the repository around the present folder. What in them is
merged nowhere is kept first, at refs/taskdaemon/kept/…, from where worktree restore brings it back. Files that git ignores go. Worktrees of
tasks that have not ended, that somebody has locked, or that a process uses stay.

Those of completed tasks whose work is merged are removed without being asked for. Branches of tasks that this daemon does not know are
removed if all on them is merged; with --all the others are too, after they were kept.`,
		Example: "  taskdaemon worktree prune --dry-run", Annotations: talks(exitNotFound),
		RunE: func(cmd *cobra.Command, _ []string) error { return runWorktreePrune(cmd.Context(), o) },
	}
	cmd.Flags().StringVarP(&o.in.Dir, "dir", "C", "", "a folder of the repository; the present one when not given")
	cmd.Flags().BoolVar(&o.in.All, "all", false, "those of tasks that this daemon does not know, too, even if something in them is not merged")
	cmd.Flags().BoolVarP(&o.in.DryRun, "dry-run", "n", false, "only say what would be done")
	return cmd
}

func runWorktreePrune(ctx context.Context, o worktreePruneOptions) error {
	a := o.app
	var err error
	if o.in.Dir, err = folderOr(o.in.Dir); err != nil {
		return err
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	done, err := svc.PruneWorktrees(ctx, o.in)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(done)
	}
	gone, verb := 0, "removed"
	if o.in.DryRun {
		verb = "would be removed"
	}
	for _, p := range done {
		name := p.Handle
		if name == "" {
			name = p.Branch
		}
		line := verb
		switch {
		case p.Left != "":
			line = "stays: " + p.Left
		case p.KeptAs != "":
			line += "; what is not merged is kept at " + p.KeptAs
		}
		if p.Left == "" {
			gone++
		}
		if _, err := fmt.Fprintf(a.stdout, "%s  %s\n", plainLine(name, 100), plainLine(line, 500)); err != nil {
			return written(err)
		}
	}
	a.say("%s %s", plural(gone, "worktree"), verb)
	return nil
}

type worktreeRestoreOptions struct {
	app  *app
	task string
}

func newWorktreeRestoreCmd(a *app) *cobra.Command {
	o := worktreeRestoreOptions{app: a}
	return &cobra.Command{
		Use: "restore <task>", Short: "Bring the worktree of a task back that was removed", Args: args(cobra.ExactArgs(1), "one task"),
		Long: `Bring the worktree of a task back that was removed, with its branch: as it was then, with all that was not committed, if that was
kept; else as its branch is, or as its work was offered to be merged. Files that git ignores do not come back. One that
would go again by itself is locked, and stays until taskdaemon worktree prune.`,
		Example: "  taskdaemon worktree restore t-4k7q2m9x", Annotations: talks(exitNotFound, exitConflict),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.task = args[0]
			return runWorktreeRestore(cmd.Context(), o)
		},
	}
}

func runWorktreeRestore(ctx context.Context, o worktreeRestoreOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	w, err := svc.RestoreWorktree(ctx, o.task)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(w)
	}
	_, err = fmt.Fprintln(a.stdout, w.Path)
	return written(err)
}
