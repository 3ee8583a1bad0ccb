package git

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"taskdaemon/internal/td"
)

// notInside keeps git from looking for changes in repositories inside a checkout: it would do so with the settings of those.
const notInside = "--ignore-submodules=dirty"

// modeLink is the mode of a repository inside a checkout.
const modeLink = "160000"

// modeSymlink is the mode of a symbolic link.
const modeSymlink = "120000"

// place is a checkout that is worked on through what git keeps of it: the .git file in it belongs to whoever works there, and
// may lead to a repository whose settings name commands.
type place struct {
	repo   string   // top of the main checkout
	top    string   // its files
	git    string   // what git keeps of this checkout alone
	common string   // what all checkouts of the repository share
	ref    string   // the branch it is on, by its full name
	env    []string // an index of our own may stand for its own
}

// placeSettings hold for all work in a checkout: it has all its files, and other repositories are none of it.
var placeSettings = []string{
	"core.sparseCheckout=false", "submodule.recurse=false", "checkout.workers=0", "core.safecrlf=false", "i18n.commitEncoding=UTF-8",
	"core.checkStat=default", "core.trustctime=true",
	"index.version=2", "index.sparse=false", "core.splitIndex=false", "core.untrackedCache=false", // as we read it: see entriesOf
}

// call prepares a git that works on the checkout.
func (p *place) call(keep bool, args ...string) call {
	env := append([]string{"GIT_DIR=" + p.git, "GIT_WORK_TREE=" + p.top, "GIT_NO_REPLACE_OBJECTS=1"}, p.env...)
	return call{dir: p.top, keep: keep, set: placeSettings, env: env, args: args}
}

func (p *place) run(ctx context.Context, args ...string) ([]byte, error) {
	return run(ctx, p.call(true, args...))
}

func (p *place) line(ctx context.Context, args ...string) (string, error) {
	return line(ctx, p.call(true, args...))
}

// fed runs git with something to read.
func (p *place) fed(ctx context.Context, in string, args ...string) (string, error) {
	c := p.call(true, args...)
	c.stdin = strings.NewReader(in)
	return line(ctx, c)
}

// with is the same checkout with more in the environment.
func (p *place) with(env ...string) *place {
	q := *p
	q.env = append(append([]string{}, p.env...), env...)
	return &q
}

// branch is the full name of the branch that HEAD stands for, or empty when it is detached.
func (p *place) branch(ctx context.Context) (string, error) {
	on, err := p.line(ctx, "symbolic-ref", "--quiet", "HEAD")
	if exitCode(err) == 1 {
		return "", nil
	}
	return on, err
}

// tip is the commit that the branch stands for.
func (p *place) tip(ctx context.Context) (string, error) {
	tip, err := p.at(ctx, p.ref)
	if err == nil && tip == "" {
		err = td.Errorf(td.NotFound, "the branch %s is gone", shortRef(p.ref))
	}
	return tip, err
}

// at is the commit that a name stands for, or empty when there is none.
func (p *place) at(ctx context.Context, name string) (string, error) {
	out, err := p.line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if err != nil && out == "" && td.IsKind(err, td.Internal) {
		return "", nil
	}
	return out, err
}

// sweep removes locks of a git of ours that was killed or lost its power. In a person's own checkout a lock may be theirs, for as long as an editor is
// open: it is swept only where a move of ours was cut off.
func (p *place) sweep() {
	name := shortRef(p.ref)
	var refs []string
	for _, ref := range []string{p.ref, movingFrom + name, movingTo + name} {
		refs = append(refs, filepath.Join(p.common, filepath.FromSlash(ref)))
	}
	sweepLocks(append(refs, filepath.Join(p.git, "HEAD"), filepath.Join(p.git, "index"))...)
	p.sweepIndexLock()
}

// underway are the files by which git remembers what somebody has begun and not ended.
var underway = []struct{ file, what, hint string }{
	{"rebase-merge", "a rebase", rebaseHint},
	{"rebase-apply", "a rebase", rebaseHint},
	{"MERGE_HEAD", "a merge", "git -C %s merge --continue, or --abort"},
	{"CHERRY_PICK_HEAD", "a cherry-pick", "git -C %s cherry-pick --continue, or --abort"},
	{"REVERT_HEAD", "a revert", "git -C %s revert --continue, or --abort"},
	{"sequencer", "a cherry-pick or revert of several commits", "git -C %s status"},
	{"BISECT_LOG", "a bisection", "git -C %s bisect reset"},
}

const rebaseHint = "git -C %s rebase --continue, or --abort"

// busy says what somebody is in the midst of here. It is nil if that is nothing, or one of the files that do not count.
func (p *place) busy(kind td.Kind, besides ...string) error {
next:
	for _, u := range underway {
		for _, b := range besides {
			if u.file == b {
				continue next
			}
		}
		if _, err := os.Lstat(filepath.Join(p.git, u.file)); err == nil {
			return td.Errorf(kind, "%s is in the midst of %s", p.top, u.what).WithHint("%s", p.advice(u.hint, p.top))
		}
	}
	return nil
}

// taskAt is the handle of the task whose worktree has its top at a path; empty: none has.
func taskAt(path string) string {
	if top, ok := td.WorktreeAround(path); ok && top == filepath.Clean(path) {
		return filepath.Base(top)
	}
	return ""
}

// advice is what to type about a checkout.
func (p *place) advice(format string, args ...any) td.Words { return adviceAt(p.top, format, args...) }

// adviceAt is what to type about a folder. No git is to be run by hand in the worktree of a task: it would go on with what the task wrote there, and move whatever branch that names.
func adviceAt(folder, format string, args ...any) td.Words {
	if top, is := td.WorktreeAround(folder); is {
		task := filepath.Base(top)
		return td.Words(td.Typed("taskdaemon task show %s; for the task to put it right: taskdaemon task send %s '<what to do>'", task, task))
	}
	return td.Words(td.Typed(format, args...))
}

// onBranch fails unless HEAD stands for the branch.
func (p *place) onBranch(ctx context.Context) error {
	on, err := p.branch(ctx)
	if err != nil || on == p.ref {
		return err
	}
	if err := p.busy(td.Conflict); err != nil {
		return err
	}
	where := "its HEAD is detached"
	if on != "" {
		where = "it is on " + shortRef(on)
	}
	return td.Errorf(td.Conflict, "%s is not on its branch %s: %s", p.top, shortRef(p.ref), where).
		WithHint("%s", p.advice("git -C %s switch %s", p.top, shortRef(p.ref)))
}

// changes are the files that differ from HEAD or from the index, sorted by git; with untracked, those that git does not
// know and does not ignore as well.
func (p *place) changes(ctx context.Context, untracked bool) ([]string, error) {
	mode := "--untracked-files=no"
	if untracked {
		mode = "--untracked-files=all"
	}
	out, err := run(ctx, p.call(false, "status", "--porcelain=v1", "-z", "--no-renames", notInside, mode))
	if err != nil {
		return nil, err
	}
	var names []string
	for rec := range strings.SplitSeq(string(out), "\x00") {
		if len(rec) > 3 {
			names = append(names, rec[3:])
		}
	}
	return names, nil
}

// shortRef is the name that people call a branch by.
func shortRef(ref string) string { return strings.TrimPrefix(ref, "refs/heads/") }

// someOf names a few of many files.
func someOf(names []string) string {
	const few = 5
	var b strings.Builder
	for i, n := range names {
		if i == few {
			b.WriteString(" and others")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(n))
	}
	return b.String()
}
