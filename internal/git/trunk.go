package git

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"taskdaemon/internal/td"
)

// Trunk is the branch that the main checkout of a repository is on, and where it points.
type Trunk struct {
	Root   string // top folder of the main checkout
	Branch string // short name
	Commit string
}

// ours begins the names of branches that are taskdaemon's own, and IntoPrefix those of integration branches.
const (
	ours       = "taskdaemon/"
	IntoPrefix = ours + "into/"
)

// Where a repository keeps what is known of its branches: where each trunk was last seen, what each integration branch has in common with it, those that were
// begun anew, what each task's own work begins after, and merged work that a trunk lacks.
const (
	SeenRefs     = "refs/taskdaemon/seen/"
	SharedRefs   = "refs/taskdaemon/shared/"
	LostRefs     = "refs/taskdaemon/lost/"
	BegunRefs    = "refs/taskdaemon/begun/"
	UnlandedRefs = "refs/taskdaemon/unlanded/"
)

// inPlaceHint is for repositories that are fit for one task at a time only.
const inPlaceHint = "--in-place: the task works in the checkout itself, one task at a time"

// IntoBranch is the integration branch of the tasks that work for a trunk, or of those of them that are part of a feature. Its name has no slash in it, so that
// none is in the way of another: the trunks release and release/1 can be beside each other.
func IntoBranch(trunk, feature string) string {
	name := strings.ReplaceAll(url.PathEscape(trunk), "@", "%40")
	if feature != "" {
		name = feature + "@" + name
	}
	return IntoPrefix + name
}

// TrunksOf are the trunks that the tasks of a feature have worked for, each with where the feature's integration branch for it is.
func TrunksOf(ctx context.Context, repo, feature string) (map[string]string, error) {
	refs, err := Refs(ctx, repo, "refs/heads/"+IntoPrefix)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for ref, at := range refs {
		if trunk := TrunkOfInto(strings.TrimPrefix(ref, "refs/heads/"), feature); trunk != "" {
			found[trunk] = at
		}
	}
	return found, nil
}

// TrunkOfInto is the trunk for which a branch is the integration branch of a feature; empty if it is none.
func TrunkOfInto(branch, feature string) string {
	escaped, is := strings.CutPrefix(branch, IntoPrefix+feature+"@")
	trunk, err := url.PathUnescape(escaped)
	if !is || err != nil {
		return ""
	}
	return trunk
}

// TrunkFollowing is the trunk that follows an integration branch; empty if the branch is none.
func TrunkFollowing(into string) string {
	name, is := strings.CutPrefix(into, IntoPrefix)
	if _, after, of := strings.Cut(name, "@"); of {
		name = after
	}
	trunk, err := url.PathUnescape(name)
	if !is || err != nil {
		return ""
	}
	return trunk
}

// TrunkOf finds the trunk of the repository around dir, and whether tasks can have worktrees there. NotFound when there is no
// repository; Unavailable when git is missing or too old; Refused for a bare one, one without a commit or with a detached HEAD,
// and where a worktree would lack files: those of submodules, and those that a filter such as LFS brings, because no filter is run.
func TrunkOf(ctx context.Context, dir string) (Trunk, error) {
	if err := canMerge(ctx); err != nil {
		return Trunk{}, err
	}
	root, common, err := mainCheckout(ctx, dir)
	if err != nil {
		return Trunk{}, err
	}
	t := Trunk{Root: root}
	main := &place{repo: root, top: root, git: common, common: common}
	on, err := main.branch(ctx)
	if err != nil {
		return Trunk{}, err
	}
	if t.Commit, err = RefAt(ctx, root, "HEAD"); err != nil {
		return Trunk{}, err
	}
	switch {
	case t.Commit == "":
		return Trunk{}, td.Errorf(td.Refused, "the repository %s has no commit yet", root).
			WithHint("git -C %s commit first, if need be with --allow-empty", root)
	case on == "":
		return Trunk{}, td.Errorf(td.Refused, "HEAD of %s is detached", root).WithHint("git -C %s switch <branch>", root)
	}
	t.Branch = strings.TrimPrefix(on, "refs/heads/")
	if strings.HasPrefix(t.Branch, ours) {
		return Trunk{}, td.Errorf(td.Refused, "%s is on %s, a branch of taskdaemon's own", root, t.Branch).WithHint("git -C %s switch <branch>", root)
	}
	if err := clash(ctx, root, "refs/heads/"+IntoBranch(t.Branch, ""), runRefs+"t"); err != nil {
		return Trunk{}, err
	}
	return t, main.whole(ctx)
}

// RootOf is the top folder of the main checkout of the repository around dir. NotFound when there is none, Refused when it is bare.
func RootOf(ctx context.Context, dir string) (string, error) {
	root, _, err := mainCheckout(ctx, dir)
	return root, err
}

// mainCheckout is the top of the main checkout of the repository around dir, and the folder that all its checkouts share.
func mainCheckout(ctx context.Context, dir string) (top, common string, err error) {
	g, err := locateGraph(ctx, dir, GraphOptions{})
	switch {
	case td.IsKind(err, td.Conflict): // a worktree of a bare repository
		return "", "", &td.Error{Kind: td.Refused, Err: err}
	case td.IsKind(err, td.NotFound):
		return "", "", bareOr(ctx, dir, err)
	case err != nil:
		return "", "", err
	}
	return g.root, g.common, nil
}

// bareOr says that the repository around dir is bare, if it is, or else what was known before.
func bareOr(ctx context.Context, dir string, before error) error {
	if plain(dir) {
		return before
	}
	out, err := line(ctx, call{dir: dir, args: []string{"rev-parse", "--is-bare-repository"}})
	if td.IsKind(err, td.Interrupted) {
		return err
	}
	if err == nil && out == "true" || err != nil && strings.Contains(err.Error(), "safe.bareRepository") {
		return td.Errorf(td.Refused, "%s is a bare repository: it has no files to work on", dir).WithHint("git clone %s <folder>, and work there", dir)
	}
	return before
}

// whole fails unless a worktree of what is checked out here has all its files.
func (p *place) whole(ctx context.Context) error {
	out, err := run(ctx, p.call(false, "ls-files", "--stage", "-z"))
	if err != nil {
		return err
	}
	for rec := range strings.SplitSeq(string(out), "\x00") {
		if strings.HasPrefix(rec, modeLink+" ") {
			_, name, _ := strings.Cut(rec, "\t")
			return td.Errorf(td.Refused, "%s has the submodule %q, whose files a worktree of a task would lack", p.top, name).WithHint(inPlaceHint)
		}
	}
	return p.plainFiles(ctx)
}

// plainFiles fails if a file that is checked out here goes through a filter.
func (p *place) plainFiles(ctx context.Context) error {
	names, err := filters(ctx, p.repo)
	if err != nil || len(names) == 0 {
		return err
	}
	var specs []string
	for _, n := range names {
		specs = append(specs, ":(top,attr:filter="+n+")")
	}
	out, err := run(ctx, p.call(false, append([]string{"ls-files", "-z", "--"}, specs...)...))
	if err != nil {
		return err
	}
	if file, _, _ := strings.Cut(string(out), "\x00"); file != "" {
		return td.Errorf(td.Refused, "%q in %s goes through a filter of git's, as files of LFS do, and none is run for worktrees of tasks", file, p.top).
			WithHint(inPlaceHint)
	}
	return nil
}

// filters are the names of the filters that settings give a command.
func filters(ctx context.Context, dir string) ([]string, error) {
	said, err := configs.of(ctx, siteOf(call{dir: dir}))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(said.namedBy("filter", "clean", "smudge", "process"), func(name string) bool { return !attributable(name) }), nil
}

// attributable reports whether an attribute can have that value in a pathspec.
func attributable(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !(r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
}
