package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

// Worktree names a linked worktree that belongs to a run. Whoever calls its methods is the only one who does, and sees to it that
// no process works in it meanwhile; different worktrees of one repository may be worked on at once, by many processes.
//
// No hook, filter or merge driver of the user's runs, and nothing in the folder is believed about where the repository is.
type Worktree struct {
	Repo   string // top of the main checkout, as in Trunk.Root
	Path   string // its folder
	Branch string // short name, as BranchName makes it
}

// Condition is what stands in the place of a worktree.
type Condition string

// The conditions.
const (
	Good    Condition = "good"
	Missing Condition = "missing" // nothing is there: it was never made, or somebody removed it
	Foreign Condition = "foreign" // something else is there, or it is on another branch
)

// Look says what stands in the place of the worktree.
func (w Worktree) Look(ctx context.Context) (Condition, error) {
	common, err := w.common()
	if err != nil {
		return "", err
	}
	cond, _, err := w.look(ctx, common)
	return cond, err
}

// Head is the commit that the branch of the worktree stands for; NotFound when there is no such branch.
func (w Worktree) Head(ctx context.Context) (string, error) {
	if _, err := w.common(); err != nil {
		return "", err
	}
	head, err := RefAt(ctx, w.Repo, w.ref())
	if err == nil && head == "" {
		err = td.Errorf(td.NotFound, "the branch %s is gone", w.Branch)
	}
	return head, err
}

// Merging reports whether somebody is in the midst of a merge in it, or of something like it.
func (w Worktree) Merging(context.Context) (bool, error) {
	common, err := w.common()
	if err != nil {
		return false, err
	}
	admin := linked(w.Path, common)
	if admin == "" {
		return false, nil
	}
	p := &place{top: w.Path, git: admin, common: common}
	return p.busy(td.Conflict) != nil, nil
}

func (w Worktree) ref() string { return "refs/heads/" + w.Branch }

// life sets apart what this process makes from what another one made before it: a git that outlived that may still be writing there.
var life = strconv.FormatInt(time.Now().UnixNano(), 36)

// draft is where it is made.
func (w Worktree) draft() string { return w.drafts() + life }

// drafts begins the paths of all drafts of it: what others stand there were left by a crash.
func (w Worktree) drafts() string {
	return filepath.Join(filepath.Dir(w.Path), making, filepath.Base(w.Path)) + "."
}

// making is the folder, beside worktrees, of those that are being made.
const making = ".making"

// placeOf is the place of the worktree that is, or was, made at a path. Any other path is its own.
func placeOf(path string) string {
	in, name := filepath.Split(filepath.Clean(path))
	end := strings.LastIndexByte(name, '.')
	if in = filepath.Clean(in); filepath.Base(in) != making || end <= 0 {
		return filepath.Clean(path)
	}
	return filepath.Join(filepath.Dir(in), name[:end])
}

// removing is the folder, beside worktrees, of those that are being removed.
const removing = ".removing"

// leaving is where it goes to be removed: what stands there has been proven to be elsewhere.
func (w Worktree) leaving() string {
	return filepath.Join(filepath.Dir(w.Path), removing, filepath.Base(w.Path))
}

// common is the folder of the repository. A repository around a folder whose own is gone is another one.
func (w Worktree) common() (string, error) {
	if !filepath.IsAbs(w.Path) || !filepath.IsAbs(w.Repo) || !strings.HasPrefix(w.Branch, runBranches) || len(w.Branch) == len(runBranches) {
		return "", td.Errorf(td.Invalid, "no worktree of a run can have the folder %q, the branch %q and the repository %q", w.Path, w.Branch, w.Repo)
	}
	return sharedBy(w.Repo)
}

// sharedBy is what all checkouts of a repository share whose main checkout has its top there.
func sharedBy(repo string) (string, error) {
	file := filepath.Join(repo, ".git")
	switch info, err := os.Stat(file); {
	case errors.Is(err, fs.ErrNotExist):
		return "", td.Errorf(td.NotFound, "%s: %s", repo, notRepository)
	case err != nil:
		return "", td.Errorf(td.Storage, "look for the repository: %w", err)
	case info.IsDir():
		return file, nil
	}
	if common := commonOf(file); common != "" {
		return common, nil
	}
	return "", td.Errorf(td.NotFound, "%s: %s", repo, notRepository)
}

// look says what stands at the path, and if that is the worktree, where git keeps it.
func (w Worktree) look(ctx context.Context, common string) (Condition, *place, error) {
	switch _, err := os.Lstat(w.Path); {
	case errors.Is(err, fs.ErrNotExist):
		return Missing, nil, nil
	case err != nil:
		return "", nil, td.Errorf(td.Storage, "look at the worktree: %w", err)
	}
	if err := w.rejoin(common); err != nil {
		return "", nil, err
	}
	admin := linked(w.Path, common)
	if admin == "" {
		return Foreign, nil, nil
	}
	p := &place{repo: w.Repo, top: w.Path, git: admin, common: common, ref: w.ref()}
	on, err := p.branch(ctx)
	switch {
	case err != nil:
		return "", nil, err
	case on != "" && on != p.ref:
		return Foreign, p, nil
	}
	return Good, p, p.heal(ctx)
}

// rejoin tells the repository that a worktree was moved from where it was made to its place, if a crash has kept it from knowing.
func (w Worktree) rejoin(common string) error {
	admin := gitfile.Gitdir(filepath.Join(w.Path, ".git"))
	if admin == "" || !sameFile(filepath.Dir(admin), filepath.Join(common, "worktrees")) {
		return nil
	}
	back := filepath.Join(admin, "gitdir")
	if !strings.HasPrefix(gitfile.Text(back), w.drafts()) {
		return nil
	}
	if err := replaceFile(back, filepath.Join(w.Path, ".git")+"\n"); err != nil {
		return td.Errorf(td.Storage, "link %s: %w", w.Path, err)
	}
	_ = os.Remove(filepath.Dir(w.draft())) // unless another one is being made
	return nil
}

// open prepares work in the worktree: it has to be there and on its branch, and what a crash left half done is ended.
func (w Worktree) open(ctx context.Context) (*place, error) {
	common, err := w.common()
	if err != nil {
		return nil, err
	}
	cond, p, err := w.look(ctx, common)
	switch {
	case err != nil:
		return nil, err
	case cond == Missing:
		return nil, td.Errorf(td.NotFound, "the worktree %s is gone", w.Path)
	case p == nil:
		return nil, w.foreign()
	}
	p.sweep()
	if err := p.onBranch(ctx); err != nil {
		return nil, err
	}
	return p, p.settle(ctx)
}

func (w Worktree) foreign() error {
	return td.Errorf(td.Conflict, "%s is there and is no worktree of the branch %s", w.Path, w.Branch).WithHint("move it away")
}
