package git

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

var (
	fpGraphCheck  = failpoint.New("git.graph.before_link")
	fpGraphLinked = failpoint.New("git.graph.after_link")
)

// linked is where git keeps the worktree, or empty unless folder and repository know each other: a repository may
// have been copied or moved, and then the folder leads to another one.
func (g *Graph) linked() string { return linked(g.dir, g.common) }

func linked(dir, common string) string {
	own := gitfile.Gitdir(filepath.Join(dir, ".git"))
	if own == "" || !sameFile(filepath.Dir(own), filepath.Join(common, "worktrees")) {
		return ""
	}
	if back := gitfile.Back(own); back == "" || !sameFile(back, filepath.Join(dir, ".git")) {
		return ""
	}
	if textOf(filepath.Join(own, "locked")) == "initializing" {
		return "" // git was stopped before it was ready
	}
	return own
}

// link makes the folder a worktree of the branch.
func (g *Graph) link(ctx context.Context) error {
	if g.admin = g.linked(); g.admin != "" {
		return nil
	}
	if again, err := g.relink(ctx); err != nil || again {
		return err
	}
	if err := g.elsewhere(ctx); err != nil {
		return err
	}
	if err := g.moveAside(); err != nil {
		return err
	}
	if err := g.forget(ctx); err != nil {
		return err
	}
	fpGraphCheck.Hit()
	if _, err := run(ctx, call{dir: g.root, keep: true, args: []string{"worktree", "add", "--quiet", "--no-checkout", g.dir, graphBranch}}); err != nil {
		return err
	}
	fpGraphLinked.Hit()
	if g.admin = g.linked(); g.admin == "" {
		return td.Errorf(td.Internal, "link %s: git made no worktree of it", g.dir)
	}
	return nil
}

// relink makes folder and repository know each other again after both were moved or copied.
func (g *Graph) relink(ctx context.Context) (bool, error) {
	own := gitfile.Gitdir(filepath.Join(g.dir, ".git"))
	admin := filepath.Join(g.common, "worktrees", filepath.Base(own))
	if own == "" || textOf(filepath.Join(admin, "locked")) == "initializing" {
		return false, nil
	}
	on, err := line(ctx, call{dir: g.root, env: []string{"GIT_DIR=" + admin}, args: []string{"symbolic-ref", "--quiet", "HEAD"}})
	if td.IsKind(err, td.Interrupted) {
		return false, err
	}
	back := gitfile.Back(admin)
	if on != graphRef || back == "" || sameFile(gitfile.Gitdir(back), admin) && !sameFile(back, filepath.Join(g.dir, ".git")) {
		return false, nil // of another branch, or the branch lives elsewhere
	}
	for file, content := range map[string]string{
		filepath.Join(admin, "gitdir"): filepath.Join(g.dir, ".git") + "\n",
		filepath.Join(g.dir, ".git"):   "gitdir: " + admin + "\n",
	} {
		if err := replaceFile(file, content); err != nil {
			return false, td.Errorf(td.Storage, "link %s: %w", g.dir, err)
		}
	}
	g.admin = g.linked()
	return g.admin != "", nil
}

func replaceFile(file, content string) error {
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return replace(root, filepath.Base(file), []byte(content), 0o644)
}

// checkedOut is a worktree as git lists it.
type checkedOut struct {
	path   string
	branch string // full name, empty when HEAD is detached
	head   string
	locked bool
}

// parseWorktrees reads `git worktree list --porcelain -z`.
func parseWorktrees(out string) []checkedOut {
	var all []checkedOut
	for rec := range strings.SplitSeq(out, "\x00") {
		key, value, _ := strings.Cut(rec, " ")
		if key == "worktree" {
			all = append(all, checkedOut{path: value})
			continue
		}
		if len(all) == 0 {
			continue
		}
		switch last := &all[len(all)-1]; key {
		case "branch":
			last.branch = value
		case "HEAD":
			last.head = value
		case "locked":
			last.locked = true
		}
	}
	return all
}

func (g *Graph) checkouts(ctx context.Context) ([]checkedOut, error) {
	out, err := run(ctx, call{dir: g.root, args: []string{"worktree", "list", "--porcelain", "-z"}})
	return parseWorktrees(string(out)), err
}

// elsewhere fails when the branch is checked out in another folder.
func (g *Graph) elsewhere(ctx context.Context) error {
	all, err := g.checkouts(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.branch != graphRef || c.path == g.dir || taskAt(c.path) != "" { // what a task writes of itself keeps nobody from the graph
			continue
		}
		if sameFile(c.path, g.root) {
			return td.Errorf(td.Conflict, "the branch %s is checked out in %s itself", graphBranch, g.root).
				WithHint("git switch -, then taskdaemon init")
		}
		if CommonDir(c.path) != "" && sameFile(CommonDir(c.path), g.common) {
			return td.Errorf(td.Conflict, "the branch %s is checked out in %s", graphBranch, c.path).
				WithHint("git worktree remove %s, then taskdaemon init", c.path)
		}
	}
	return nil
}

// forget makes git forget worktrees of the branch that are no more, and one at our place that is not whole. Those
// of other branches are not touched: their disk may only be away.
func (g *Graph) forget(ctx context.Context) error {
	admins, err := filepath.Glob(filepath.Join(globQuote(g.common), "worktrees", "*"))
	if err != nil {
		return td.Errorf(td.Internal, "list worktrees: %w", err)
	}
	for _, admin := range admins {
		ours := gitfile.Back(admin) == filepath.Join(g.dir, ".git")
		if !ours {
			on, err := line(ctx, call{dir: g.root, env: []string{"GIT_DIR=" + admin}, args: []string{"symbolic-ref", "--quiet", "HEAD"}})
			if td.IsKind(err, td.Interrupted) {
				return err
			}
			ours = on == graphRef
		}
		if !ours {
			continue
		}
		if err := os.RemoveAll(admin); err != nil {
			return td.Errorf(td.Storage, "forget worktree: %w", err)
		}
	}
	return nil
}

func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
