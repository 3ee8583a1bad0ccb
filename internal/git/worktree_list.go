package git

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

// WorktreeInfo is a worktree of a run as the repository knows it.
type WorktreeInfo struct {
	Worktree
	Head      string    // the commit it is at
	Condition Condition // Missing when somebody removed its folder
	Locked    bool      // by somebody who does not want it to be removed
}

// Worktrees are those of runs in the repository whose main checkout is repo, sorted by branch.
func Worktrees(ctx context.Context, repo string) ([]WorktreeInfo, error) {
	common, err := Worktree{Repo: repo, Path: repo, Branch: runBranches + "any"}.common()
	if err != nil {
		return nil, err
	}
	all, err := listings(ctx, common, repo)
	if err != nil {
		return nil, err
	}
	var of []WorktreeInfo
	for _, r := range all {
		if r.admin == "" || r.unready || !strings.HasPrefix(r.branch, runRefs) {
			continue
		}
		info := WorktreeInfo{Worktree: Worktree{Repo: repo, Path: r.path, Branch: r.short()}, Head: r.head, Condition: Good, Locked: r.locked}
		switch {
		case r.gone:
			info.Condition = Missing
		case !r.stands(r.path):
			info.Condition = Foreign
			if _, err := os.Lstat(r.path); errors.Is(err, fs.ErrNotExist) {
				info.Condition = Missing // it was there a moment ago: somebody is removing it
			}
		}
		of = append(of, info)
	}
	slices.SortFunc(of, func(a, b WorktreeInfo) int {
		return cmp.Or(strings.Compare(a.Branch, b.Branch), strings.Compare(a.Path, b.Path))
	})
	return of, nil
}

// Tidy makes the repository forget worktrees of runs whose folders are gone, and removes what is left of those that were being
// removed. Branches stay. Worktrees of others, and locked ones, are not touched: their disk may only be away.
func Tidy(ctx context.Context, repo string) error {
	common, err := Worktree{Repo: repo, Path: repo, Branch: runBranches + "any"}.common()
	if err != nil {
		return err
	}
	unlock, err := lockWorktrees(ctx, common)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := listings(ctx, common, repo)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.admin == "" || !r.gone || r.locked || !strings.HasPrefix(r.branch, runRefs) {
			continue
		}
		if err := forgetCheckout(common, r.admin); err != nil {
			return td.Errorf(td.Storage, "forget worktree: %w", err)
		}
	}
	leaving := filepath.Join(repo, worktreesFolder, removing)
	if _, err := os.Lstat(leaving); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := disk.RemoveAll(leaving); err != nil {
		return td.Errorf(td.Storage, "remove what is left of worktrees: %w", err)
	}
	return nil
}

// listing is a checkout as the repository knows it.
type listing struct {
	admin   string // where git keeps a linked one; empty for the main checkout
	path    string
	branch  string // full name; empty when HEAD is detached
	head    string
	gone    bool // there is nothing at its path
	locked  bool
	unready bool // git was stopped while it made it
}

func (r listing) short() string { return shortRef(r.branch) }

// ofTask reports whether a task works there: that goes by the path, which no command can change.
func (r listing) ofTask() bool { return r.admin != "" && taskAt(r.path) != "" }

// stands reports whether the folder at a path leads to the linked checkout.
func (r listing) stands(path string) bool {
	return sameFile(gitfile.Gitdir(filepath.Join(path, ".git")), r.admin)
}

// listings are all checkouts of a repository, the main one first, and what is left of linked ones.
func listings(ctx context.Context, common, repo string) ([]listing, error) {
	out, err := run(ctx, call{dir: repo, args: []string{"worktree", "list", "--porcelain", "-z"}})
	if err != nil {
		return nil, err
	}
	listed := parseWorktrees(string(out))
	if len(listed) == 0 {
		return nil, td.Errorf(td.Internal, "list worktrees of %s: git listed none", repo)
	}
	// The path of a submodule's main checkout is not what git says here.
	all := []listing{{path: repo, branch: listed[0].branch, head: listed[0].head}}
	admins, err := os.ReadDir(filepath.Join(common, "worktrees"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, td.Errorf(td.Storage, "list worktrees: %w", err)
	}
	for _, a := range admins {
		r := listing{admin: filepath.Join(common, "worktrees", a.Name())}
		back := gitfile.Back(r.admin)
		_, err := os.Lstat(filepath.Join(r.admin, "locked"))
		r.locked = err == nil
		r.unready = back == "" || textOf(filepath.Join(r.admin, "locked")) == "initializing"
		if back != "" {
			r.path = filepath.Dir(back)
			_, err := os.Lstat(back)
			r.gone = errors.Is(err, fs.ErrNotExist)
		}
		if place := placeOf(r.path); r.gone && r.stands(place) {
			r.path, r.gone = place, false // it was moved there, and its maker is about to tell, or was killed before
		}
		for _, l := range listed[1:] {
			// git may have looked before it was moved, or before its record was.
			if at := filepath.Clean(l.path); at == r.path || r.branch == "" && placeOf(at) == placeOf(r.path) {
				r.branch, r.head = l.branch, l.head
			}
		}
		all = append(all, r)
	}
	return all, nil
}
