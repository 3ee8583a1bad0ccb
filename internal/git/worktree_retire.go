package git

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var (
	fpRetire  = failpoint.New("git.worktree.before_retire")
	fpRetired = failpoint.New("git.worktree.retired")
	fpAside   = failpoint.New("git.worktree.before_aside")
)

const (
	keptRefs     = "refs/taskdaemon/kept/"
	keptBranches = keptRefs + "branch/"
	keptBefore   = "refs/taskdaemon/kept-before/"
)

// WithdrawnRefs begins the names of refs that say that a commit is not to be merged any more.
const WithdrawnRefs = "refs/taskdaemon/withdrawn/"

// KeptRef is where Keep records what the worktree of a run held, by the handle of its task.
func KeptRef(handle string) string { return keptRefs + handle }

// KeptBranch is where RetireBranches keeps a branch of a run.
func KeptBranch(branch string) string { return keptBranches + strings.TrimPrefix(branch, runBranches) }

// Kept is what was kept of a worktree or of a branch that was removed.
type Kept struct {
	Ref    string
	Commit string
	At     time.Time
}

// KeptOf is all that is kept in a repository, sorted by name.
func KeptOf(ctx context.Context, repo string) ([]Kept, error) {
	out, err := run(ctx, call{dir: repo, args: []string{"for-each-ref", "--format=%(objectname) %(committerdate:unix) %(refname)", keptRefs}})
	if err != nil {
		return nil, err
	}
	var all []Kept
	for l := range strings.Lines(string(out)) {
		f := strings.Fields(l)
		if len(f) != 3 {
			continue // no commit: somebody else's
		}
		sec, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			continue
		}
		all = append(all, Kept{Ref: f[2], Commit: f[0], At: time.Unix(sec, 0).UTC()})
	}
	return all, nil
}

// SetAside gives what was kept under these refs, as far as there is anything, other names under refs/taskdaemon/kept-before/: the worktree
// that they are of is there again and goes on.
func SetAside(ctx context.Context, repo string, refs ...string) error {
	var orders strings.Builder
	for _, ref := range refs {
		commit, err := RefAt(ctx, repo, ref)
		if err != nil {
			return err
		}
		if commit != "" {
			orders.WriteString("update " + AsideRef(ref, commit) + " " + commit + "\ndelete " + ref + " " + commit + "\n")
		}
	}
	if orders.Len() == 0 {
		return nil
	}
	fpAside.Hit()
	_, err := run(ctx, call{
		dir: repo, keep: true, args: updateRef(true, "-m", "taskdaemon", "--stdin"), stdin: strings.NewReader(orders.String()),
	})
	return err
}

// AsideRef is where SetAside puts a commit that was kept under a ref.
func AsideRef(ref, commit string) string {
	return keptBefore + strings.TrimPrefix(ref, keptRefs) + "-" + commit[:12]
}

// RunBranch is the branch of a run.
type RunBranch struct {
	Name   string // short
	Head   string
	Merged bool // a ref that is retained leads to it
}

// RunBranches are the branches of runs in a repository, sorted by name. It takes as long for one as for hundreds.
func RunBranches(ctx context.Context, repo string) ([]RunBranch, error) {
	out, err := run(ctx, call{dir: repo, args: []string{"for-each-ref", "--format=%(objectname) %(refname)"}})
	if err != nil {
		return nil, err
	}
	var all []RunBranch
	var ask strings.Builder
	for l := range strings.Lines(string(out)) {
		head, ref, _ := strings.Cut(strings.TrimRight(l, "\n"), " ")
		switch {
		case strings.HasPrefix(ref, runRefs):
			all = append(all, RunBranch{Name: shortRef(ref), Head: head})
			ask.WriteString(head + "\n")
		case Retained(ref):
			ask.WriteString("^" + head + "\n")
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	out, err = run(ctx, call{dir: repo, args: []string{"rev-list", "--stdin"}, stdin: strings.NewReader(ask.String())})
	if err != nil {
		return nil, err
	}
	alone := map[string]bool{}
	for commit := range strings.Lines(string(out)) {
		alone[strings.TrimRight(commit, "\n")] = true
	}
	for i, b := range all {
		all[i].Merged = !alone[b.Head]
	}
	return all, nil
}

// Retired is a branch of a run that is gone.
type Retired struct {
	Branch string
	Head   string // where it was
	Kept   string // the ref that has what nothing else had; empty: all of it was elsewhere
}

// RetireBranches removes branches of runs that have no worktree. What nothing retained leads to is kept, see KeptBranch. All go at
// one instant, or none does. Those that are not there or checked out somewhere stay as they are. before, if there is one, is told which
// will go; if it fails, all stay.
func RetireBranches(ctx context.Context, repo string, names []string, before func([]Retired) error) ([]Retired, error) {
	common, err := Worktree{Repo: repo, Path: repo, Branch: runBranches + "any"}.common()
	if err != nil {
		return nil, err
	}
	unlock, err := lockWorktrees(ctx, common)
	if err != nil {
		return nil, err
	}
	defer unlock()
	branches, err := RunBranches(ctx, repo)
	if err != nil {
		return nil, err
	}
	kept, err := KeptOf(ctx, repo)
	if err != nil {
		return nil, err
	}
	checkouts, err := listings(ctx, common, repo)
	if err != nil {
		return nil, err
	}
	var done []Retired
	var orders strings.Builder
	for _, b := range branches {
		ref := "refs/heads/" + b.Name
		if !slices.Contains(names, b.Name) || slices.ContainsFunc(checkouts, func(l listing) bool { return l.branch == ref && !l.gone }) {
			continue
		}
		r := Retired{Branch: b.Name, Head: b.Head}
		if !b.Merged {
			r.Kept = KeptBranch(b.Name)
			if slices.ContainsFunc(kept, func(k Kept) bool { return k.Ref == r.Kept }) {
				r.Kept += "-" + b.Head[:12] // an older one of the same name stays
			}
			orders.WriteString("create " + r.Kept + " " + b.Head + "\n")
		}
		orders.WriteString("delete " + ref + " " + b.Head + "\n")
		done = append(done, r)
	}
	if len(done) == 0 {
		return nil, nil
	}
	if before != nil {
		if err := before(done); err != nil {
			return nil, err
		}
	}
	for _, r := range done {
		if handle, _, _ := strings.Cut(strings.TrimPrefix(r.Branch, runBranches), "/"); r.Kept == "" {
			_, _ = run(ctx, call{dir: repo, args: updateRef(true, "-d", BegunRefs+handle)}) // it only remembers something
		}
	}
	fpRetire.Hit()
	_, err = run(ctx, call{
		dir: repo, keep: true, args: updateRef(true, "-m", "taskdaemon", "--stdin"), stdin: strings.NewReader(orders.String()),
	})
	if err != nil {
		return nil, err
	}
	fpRetired.Hit()
	return done, nil
}

// Standing is how a branch and its worktree stand.
type Standing struct {
	Ahead   int // commits that the other branch lacks
	Behind  int // commits of the other branch that it lacks
	Changed int // files in the worktree that are not committed
}

// Stands compares the worktree's branch with another one, and its files with its branch. What is not there counts nothing.
func (w Worktree) Stands(ctx context.Context, other string) (Standing, error) {
	var s Standing
	common, err := w.common()
	if err != nil {
		return s, err
	}
	mine, err := RefAt(ctx, w.Repo, w.ref())
	if err != nil {
		return s, err
	}
	theirs, err := RefAt(ctx, w.Repo, "refs/heads/"+other)
	if err != nil {
		return s, err
	}
	if mine != "" && theirs != "" {
		if s.Behind, s.Ahead, err = Between(ctx, w.Repo, theirs, mine); err != nil {
			return s, err
		}
	}
	cond, p, err := w.look(ctx, common)
	if err != nil || cond != Good {
		return s, err
	}
	changed, err := p.changes(ctx, true)
	s.Changed = len(changed)
	return s, err
}

// FirstCommit is the commit that the history of a checkout began with, or empty when it has none: all clones have the same. Of several
// beginnings it is the one whose name comes first.
func FirstCommit(ctx context.Context, dir string) (string, error) {
	head, err := resolve(ctx, dir, "HEAD")
	if err != nil || head == "" {
		return "", err
	}
	out, err := run(ctx, call{dir: dir, args: []string{"rev-list", "--max-parents=0", head}})
	if err != nil {
		return "", err
	}
	roots := strings.Fields(string(out))
	if len(roots) == 0 {
		return "", nil
	}
	return slices.Min(roots), nil
}

// Between counts the commits that only the first of two commits leads to, and those that only the second does.
func Between(ctx context.Context, repo, first, second string) (onlyFirst, onlySecond int, err error) {
	out, err := line(ctx, call{dir: repo, args: []string{"rev-list", "--left-right", "--count", first + "..." + second}})
	if err != nil {
		return 0, 0, err
	}
	left, right, _ := strings.Cut(out, "\t")
	onlyFirst, err = strconv.Atoi(left)
	if err == nil {
		onlySecond, err = strconv.Atoi(right)
	}
	if err != nil {
		return 0, 0, td.Errorf(td.Internal, "count commits: git said %.100q", out)
	}
	return onlyFirst, onlySecond, nil
}
