package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

var (
	fpWorktreeBranch = failpoint.New("git.worktree.before_branch")
	fpWorktreeLink   = failpoint.New("git.worktree.before_link")
	fpWorktreeFiles  = failpoint.New("git.worktree.before_files")
	fpWorktreeRename = failpoint.New("git.worktree.before_rename")
	fpWorktreeMoved  = failpoint.New("git.worktree.after_rename")
	fpWorktreeMade   = failpoint.New("git.worktree.made")
)

// Make makes the worktree on its branch, which begins at the commit base if there is none yet. It is made beside its place and
// moved there whole, so that no crash leaves half of it. One that is there is left as it is; one that somebody removed is made again from
// its branch, with the files of its newest snapshot if the branch did not go on since; what a crash or a full disk left half-made is cleared. Conflict when something else stands in its place, when its
// branch is checked out elsewhere, or cannot be because of another branch.
func (w Worktree) Make(ctx context.Context, base string) error {
	common, err := w.common()
	if err != nil {
		return err
	}
	switch cond, p, err := w.look(ctx, common); {
	case err != nil:
		return err
	case cond == Good:
		return nil
	case p != nil:
		return p.onBranch(ctx)
	case cond == Foreign:
		return w.foreign()
	}
	if base, err = commitOf(ctx, w.Repo, base); err != nil {
		return err
	}
	head, err := RefAt(ctx, w.Repo, w.ref())
	if err != nil {
		return err
	}
	shot, err := w.snapshotOn(ctx, head)
	if err != nil {
		return err
	}
	return w.build(ctx, common, base, func(ctx context.Context, p *place) error {
		if _, err := p.run(ctx, "reset", "--quiet", "--hard", "--no-recurse-submodules"); err != nil {
			return w.noRoom(err)
		}
		if shot != "" {
			if err := p.dress(ctx, head, shot); err != nil {
				return w.noRoom(err)
			}
		}
		return p.written()
	})
}

// snapshotOn is the newest snapshot of what the worktree held, if that was taken when its branch was at head; else empty.
func (w Worktree) snapshotOn(ctx context.Context, head string) (string, error) {
	if head == "" {
		return "", nil // a new branch: what was before is not its own
	}
	shot, err := RefAt(ctx, w.Repo, StepsPrefix+filepath.Base(w.Path))
	if err != nil || shot == "" {
		return "", err
	}
	parents, err := line(ctx, call{dir: w.Repo, args: []string{"log", "-1", "--no-color", "--format=%P", shot, "--"}})
	if err != nil || !slices.Contains(strings.Fields(parents), head) {
		return "", err
	}
	if whole, err := w.covers(ctx, shot, head); err != nil || !whole {
		return "", err
	}
	return shot, nil
}

// covers reports whether a snapshot has all files of a commit that are too large for snapshots: one that lacks them would seem to have removed
// them.
func (w Worktree) covers(ctx context.Context, shot, head string) (bool, error) {
	out, err := run(ctx, call{dir: w.Repo, args: []string{"ls-tree", "-r", "-l", "-z", "--full-tree", head}})
	if err != nil {
		return false, err
	}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		meta, path, ok := strings.Cut(entry, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 4 {
			continue
		}
		if size, err := strconv.ParseInt(f[3], 10, 64); err != nil || size <= maxStepFile {
			continue
		}
		if at, err := resolve(ctx, w.Repo, shot+":"+path); err != nil || at != f[2] {
			return false, err
		}
	}
	return true, nil
}

// dress gives a checkout that holds one commit the files of another; what is staged and the branch stay.
func (p *place) dress(ctx context.Context, is, files string) error {
	if _, err := p.run(ctx, "read-tree", "-m", "-u", "--no-recurse-submodules", is, files); err != nil {
		return err
	}
	_, err := p.run(ctx, "read-tree", "-m", is)
	return err
}

// noRoom says how much room there is if git could not write a file: git itself does not say why.
func (w Worktree) noRoom(err error) error {
	var st unix.Statfs_t
	if td.IsKind(err, td.Storage) || !strings.Contains(err.Error(), "unable to write") || unix.Statfs(w.Repo, &st) != nil {
		return err
	}
	free := fmt.Sprintf("%d MiB", st.Bavail*uint64(st.Bsize)>>20)
	if st.Files > 0 {
		free += fmt.Sprintf(" and %d inodes", st.Ffree)
	}
	return td.Errorf(td.Storage, "the files of the worktree cannot be written, with %s free: %w", free, err).
		WithHint("make room on the disk of %s, or taskdaemon worktree prune", w.Repo)
}

// ignoreAll has git ignore the folder of worktrees from within, too: a .gitignore of the project wins over what git excludes, and with "!/.worktrees" in one
// the person's next "git add -A" would take the worktrees of all tasks for submodules.
func (w Worktree) ignoreAll() error {
	in := filepath.Dir(w.Path)
	if filepath.Base(in) != worktreesFolder {
		return nil
	}
	raw, err := gitfile.Read(filepath.Join(in, ".gitignore"), maxExclude)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || string(raw) == "*\n" {
		return err
	}
	if err := addTo(filepath.Dir(in), worktreesFolder, ".gitignore", "*\n"); err != nil {
		return td.Errorf(td.Storage, "have git ignore %s: %w", in, err)
	}
	return nil
}

// build makes the worktree and lets fill give it its files, so that they last.
func (w Worktree) build(ctx context.Context, common, start string, fill func(context.Context, *place) error) (err error) {
	if err := exclude(common, "/"+worktreesFolder+"/"); err != nil {
		return err
	}
	if err := w.ignoreAll(); err != nil {
		return err
	}
	admin, born, err := w.link(ctx, common, start)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.unmake(ctx, common, start, born))
		}
	}()
	if err != nil {
		return err
	}
	fpWorktreeFiles.Hit()
	if err := fill(ctx, &place{repo: w.Repo, top: w.draft(), git: admin, common: common, ref: w.ref()}); err != nil {
		return err
	}
	if err := know(filepath.Join(admin, "index"), common, admin, time.Now()); err != nil { // nobody has worked here yet
		return err
	}
	fpWorktreeRename.Hit()
	if err := os.Rename(w.draft(), w.Path); err != nil {
		return td.Errorf(td.Storage, "make worktree: %w", err)
	}
	fpWorktreeMoved.Hit()
	if err := w.rejoin(common); err != nil {
		return err
	}
	if err := syncPath(filepath.Dir(w.Path)); err != nil {
		return td.Errorf(td.Storage, "make worktree: %w", err)
	}
	fpWorktreeMade.Hit()
	return nil
}

// link makes the branch, if there is none, and an empty worktree of it. One at a time in a repository: whether a name is free
// must still be so when it is taken.
func (w Worktree) link(ctx context.Context, common, start string) (admin string, born bool, err error) {
	unlock, err := lockWorktrees(ctx, common)
	if err != nil {
		return "", false, err
	}
	defer unlock()
	if err := w.clear(ctx, common); err != nil {
		return "", false, err
	}
	head, err := RefAt(ctx, w.Repo, w.ref())
	if err != nil {
		return "", false, err
	}
	if head == "" {
		if err := clash(ctx, w.Repo, w.ref()); err != nil {
			return "", false, err
		}
		fpWorktreeBranch.Hit()
		if err := MoveRef(ctx, w.Repo, w.ref(), start, ""); err != nil {
			return "", false, err
		}
		born = true
	}
	if err := os.MkdirAll(filepath.Dir(w.draft()), 0o777); err != nil {
		return "", born, td.Errorf(td.Storage, "make worktree: %w", err)
	}
	fpWorktreeLink.Hit()
	_, err = run(ctx, call{
		dir: w.Repo, keep: true, set: append([]string{"worktree.useRelativePaths=false"}, placeSettings...),
		args: []string{"worktree", "add", "--quiet", "--no-checkout", w.draft(), w.Branch},
	})
	if err != nil {
		return "", born, err
	}
	if admin = linked(w.draft(), common); admin == "" {
		return "", born, td.Errorf(td.Internal, "make worktree %s: git made none", w.draft())
	}
	return admin, born, nil
}

// clear removes what is left of the worktree where its folder is gone, and fails when its branch is checked out elsewhere. The
// worktrees must be locked.
func (w Worktree) clear(ctx context.Context, common string) error {
	if err := disk.RemoveAll(w.draft()); err != nil {
		return td.Errorf(td.Storage, "clear half-made worktree: %w", err)
	}
	left, err := os.ReadDir(filepath.Dir(w.drafts()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return td.Errorf(td.Storage, "look for half-made worktrees: %w", err)
	}
	for _, e := range left {
		if strings.HasPrefix(e.Name(), filepath.Base(w.drafts())) {
			_ = disk.RemoveAll(filepath.Join(filepath.Dir(w.drafts()), e.Name())) // a git that still writes there is in nobody's way
		}
	}
	all, err := listings(ctx, common, w.Repo)
	if err != nil {
		return err
	}
	for _, r := range all {
		switch here := r.path == w.Path || strings.HasPrefix(r.path, w.drafts()); {
		case r.admin == "" && r.branch == w.ref():
			return td.Errorf(td.Conflict, "the branch %s is checked out in %s itself", w.Branch, w.Repo).WithHint("git -C %s switch -", w.Repo)
		case r.admin == "" || !here && r.branch != w.ref():
		case r.locked && !r.unready:
			return td.Errorf(td.Conflict, "the worktree %s of the branch %s is gone, but locked", r.path, r.short()).
				WithHint("git -C %s worktree unlock %s", w.Repo, r.path)
		case !here && !r.gone:
			return td.Errorf(td.Conflict, "the branch %s is checked out in %s", w.Branch, r.path).
				WithHint("git -C %s worktree remove %s", w.Repo, r.path)
		default:
			if err := forgetCheckout(common, r.admin); err != nil {
				return td.Errorf(td.Storage, "forget worktree: %w", err)
			}
		}
	}
	return nil
}

// unmake clears what could not be made: a full disk should not stay full because of it.
func (w Worktree) unmake(ctx context.Context, common, start string, born bool) error {
	if _, err := os.Lstat(w.Path); err == nil {
		return nil // it is whole
	}
	admin := gitfile.Gitdir(filepath.Join(w.draft(), ".git"))
	if err := disk.RemoveAll(w.draft()); err != nil {
		return td.Errorf(td.Storage, "clear half-made worktree: %w", err)
	}
	if admin != "" && sameFile(filepath.Dir(admin), filepath.Join(common, "worktrees")) {
		if err := forgetCheckout(common, admin); err != nil {
			return td.Errorf(td.Storage, "clear half-made worktree: %w", err)
		}
	}
	_ = os.Remove(filepath.Dir(w.draft())) // unless another one is being made
	if !born || ctx.Err() != nil {         // a branch without a commit of its own does no harm
		return nil
	}
	_, err := run(ctx, call{dir: w.Repo, keep: true, args: updateRef(true, "-d", w.ref(), start)})
	return err
}

// lockWorktrees keeps others from making or removing worktrees of the repository.
func lockWorktrees(ctx context.Context, common string) (unlock func(), err error) {
	return lockFile(ctx, filepath.Join(common, "taskdaemon-worktrees.lock"))
}
