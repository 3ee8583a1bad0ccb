// Package worktree keeps the worktrees that tasks work in, and the branches that their work goes to.
//
// A task's worktree lies under .worktrees/ of its project, on a branch of its own. It is begun where the work of others
// was merged, so that a task sees the work of those it waited for. It is removed only with proof that everything
// in it is kept elsewhere (G-6), and can be brought back.
package worktree

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"taskdaemon/internal/config"
	"taskdaemon/internal/git"
	"taskdaemon/internal/merge"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

// Trees are the worktrees of all projects.
type Trees struct {
	Git Git
	// Config is how tasks of a repository work.
	Config func(repo string) config.Worktree
	// Checkouts is the folder for throw-away checkouts.
	Checkouts string
	// Theirs says why no file of a task's work is written into a checkout by itself, or nothing.
	Theirs  func(checkout string) string
	Log     *slog.Logger
	Journal Journal
	// Using are the processes that use a folder.
	Using func(path string) ([]sandbox.User, error)

	locks    sync.Map // by what is held: the path of a worktree, or a trunk
	attempts attempts // to update trunks
}

// For gives a task of a repository a worktree to work in, and the folder in it that corresponds to the one it was added in.
// feature is the slug of the PRD that it is part of, or empty.
func For(trunk git.Trunk, s td.Spec, feature string) (td.Spec, error) {
	sub, err := filepath.Rel(trunk.Root, s.Dir)
	if err != nil || !filepath.IsLocal(sub) {
		return s, td.Errorf(td.Refused, "%s is itself a worktree of %s", s.Dir, trunk.Root).WithHint("add the task there, or with --in-place")
	}
	path := filepath.Join(trunk.Root, td.WorktreeFolder, s.Handle)
	s.Dir = filepath.Join(path, sub)
	s.Worktree = &td.Worktree{
		Repo: trunk.Root, Path: path, Branch: git.BranchName(s.Handle, s.Title), Into: git.IntoBranch(trunk.Branch, feature), Trunk: trunk.Branch,
	}
	return s, nil
}

func of(w td.Worktree) git.Worktree {
	return git.Worktree{Repo: w.Repo, Path: w.Path, Branch: w.Branch}
}

func (t *Trees) at(w td.Worktree) Folder { return t.Git.At(of(w)) }

// Look reports whether the worktree is there and is the task's.
func (t *Trees) Look(ctx context.Context, w td.Worktree) (bool, error) {
	defer t.lock(w)()
	switch c, err := t.at(w).Look(ctx); {
	case err != nil:
		return false, err
	case c == git.Foreign:
		return false, td.Errorf(td.Conflict, "%s is there and is no worktree on %s", w.Path, w.Branch).WithHint("move it out of the way, then taskdaemon resume")
	default:
		return c == git.Good, nil
	}
}

// Make makes the worktree, or what is missing of it.
func (t *Trees) Make(ctx context.Context, w td.Worktree) error {
	defer t.lock(w)()
	if err := t.room(ctx, w); err != nil {
		return err
	}
	return t.build(ctx, w, func() (string, error) { return t.base(ctx, w) })
}

// build makes the worktree as it was when it was removed, or else from its branch; one that has neither begins at base. What was kept
// is set aside then: the worktree goes on from it, and must not be set back to it when it is removed and made again.
func (t *Trees) build(ctx context.Context, w td.Worktree, base func() (string, error)) error {
	old := []string{keptRef(w)}
	err := t.at(w).Restore(ctx, keptRef(w))
	if td.IsKind(err, td.NotFound) {
		old = nil
	}
	if td.IsKind(err, td.NotFound) || td.IsKind(err, td.Conflict) { // it was never removed, or has gone on since
		from := ""
		if from, err = t.Git.RefAt(ctx, w.Repo, "refs/heads/"+w.Branch); err == nil && from == "" {
			kept := git.KeptBranch(w.Branch)
			if from, err = t.Git.RefAt(ctx, w.Repo, kept); from != "" {
				old = append(old, kept)
			}
		}
		if err == nil && from == "" {
			if from, err = base(); err == nil {
				err = t.begins(ctx, w, from)
			}
		}
		if err == nil {
			err = t.at(w).Make(ctx, from)
		}
	}
	if err == nil && len(old) > 0 {
		err = t.Git.SetAside(ctx, w.Repo, old...)
	}
	if err != nil {
		return err
	}
	for _, path := range t.Config(w.Repo).Copies() {
		if err := copyTree(w.Repo, w.Path, path); err != nil {
			return td.Errorf(td.Storage, "copy %s into the worktree: %w", path, err)
		}
	}
	return nil
}

// lock keeps others in this process from a worktree. Whoever is to work in a worktree has the task before they look for it,
// and whoever removes one sees with it locked that nobody has the task.
func (t *Trees) lock(w td.Worktree) (unlock func()) { return t.hold(w.Path) }

// hold keeps others in this process from something.
func (t *Trees) hold(what string) (release func()) {
	m, _ := t.locks.LoadOrStore(what, make(chan struct{}, 1))
	held := m.(chan struct{})
	held <- struct{}{}
	return func() { <-held }
}

// joinedSubject is the message of a commit that brings the integration branch and the trunk together.
const joinedSubject = "Merge the trunk"

// base is where a new worktree begins: with what is merged, if that has all of the trunk, else with both.
func (t *Trees) base(ctx context.Context, w td.Worktree) (string, error) {
	if err := t.renew(ctx, t.Git, w); err != nil {
		return "", err
	}
	l := t.line(w)
	into, trunk, err := l.Heads(ctx)
	switch {
	case err != nil:
		return "", err
	case into == "" && trunk == "":
		return "", td.Errorf(td.NotFound, "the branch %s of %s is gone", w.Trunk, w.Repo)
	case into == "":
		return trunk, nil
	case trunk == "":
		return into, nil
	}
	if in, err := l.Contains(ctx, trunk, into); err != nil || in {
		return trunk, err
	}
	if in, err := l.Contains(ctx, into, trunk); err != nil || in {
		return into, err
	}
	joined, conflicts, err := l.Join(ctx, into, trunk, joinedSubject)
	if err != nil || len(conflicts) == 0 {
		return joined, err
	}
	return into, nil // it shows when the work is merged
}

// Setup is the command that makes a new worktree ready to work in.
func (t *Trees) Setup(w td.Worktree) (string, error) { return t.Config(w.Repo).Setup, nil }

// Commit commits everything in the worktree and says where its branch is then. Commits of work in progress at the end of the branch
// become part of a commit of work that is done. Conflict also when the agent's own commits refer to what the repository does not have, and when commits of another task are among
// those of work that is done.
func (t *Trees) Commit(ctx context.Context, w td.Worktree, message string) (string, error) {
	head, err := t.at(w).Commit(ctx, message)
	if err != nil {
		return "", err
	}
	if err := t.whole(ctx, w, head); err != nil || strings.HasPrefix(message, td.InProgress) {
		return head, err
	}
	if err := t.sound(ctx, w, head); err != nil {
		return "", err
	}
	if err := t.own(ctx, w, head); err != nil {
		return "", err
	}
	log, err := t.Git.Log(ctx, w.Repo, head, mostInProgress)
	if err != nil {
		return "", err
	}
	n := 0
	if subject, _, _ := strings.Cut(message, "\n"); log[0].Subject == subject {
		n = 1
	}
	made := n
	for n < len(log) && strings.HasPrefix(log[n].Subject, td.InProgress) && len(log[n].Parents) == 1 {
		n++
	}
	if n == made || n == len(log) {
		return head, nil
	}
	tree, err := t.Git.TreeOf(ctx, w.Repo, head)
	if err != nil {
		return "", err
	}
	whole, err := t.Git.CommitTree(ctx, w.Repo, tree, message, log[n].ID)
	if err != nil {
		return "", err
	}
	return whole, t.Git.MoveRef(ctx, w.Repo, "refs/heads/"+w.Branch, whole, head) // the files are the same
}

// whole fails unless all that the branch refers to is in the repository: merged, its history would keep people from pushing and cloning theirs.
func (t *Trees) whole(ctx context.Context, w td.Worktree, head string) error {
	err := t.Git.Whole(ctx, w.Repo, head, "refs/heads/"+w.Into, "refs/heads/"+w.Trunk)
	if !td.IsKind(err, td.Conflict) {
		return err
	}
	return td.Errorf(td.Conflict, "%w. Make your commits anew: %s", err, t.anew(ctx, w))
}

// sound fails unless what the branch adds has the form of git's objects: merged, it would keep people from pushing to a server that checks them.
func (t *Trees) sound(ctx context.Context, w td.Worktree, head string) error {
	err := t.Git.Sound(ctx, w.Repo, head, "refs/heads/"+w.Into, "refs/heads/"+w.Trunk, begunRef(filepath.Base(w.Path)))
	if !td.IsKind(err, td.Conflict) {
		return err
	}
	return td.Errorf(td.Conflict, "%w. Put it right, and make your commits anew: %s", err, t.anew(ctx, w))
}

// own fails if commits of another task are in the branch, or commits of a person's other branch without what they changed: merged, they would have git take that
// work for merged, whatever became of its content.
func (t *Trees) own(ctx context.Context, w td.Worktree, head string) error {
	handle, known := filepath.Base(w.Path), []string{"refs/heads/" + w.Into, "refs/heads/" + w.Trunk}
	found, of, err := t.Git.Borrowed(ctx, w.Repo, head, handle, known...)
	if err != nil {
		return err
	}
	if found != "" {
		return td.Errorf(td.Conflict, "your branch contains %.12s, a commit of %s, whose work is not merged yet. Make your commits anew: %s. To take changes of another task, use git cherry-pick or git merge --squash",
			found, of, t.anew(ctx, w))
	}
	found, of, lost, err := t.Git.Emptied(ctx, w.Repo, head, handle, known...)
	if err != nil || found == "" {
		return err
	}
	what := "all that it changed"
	if len(lost) > 0 {
		what = "what it changed in " + some(lost)
	}
	return td.Errorf(td.Conflict, "your branch contains %.12s, a commit of %s, but not %s: git would take that branch for merged. Make your commits anew: %s. To take only some of its changes, use git cherry-pick or git merge --squash",
		found, of, what, t.anew(ctx, w))
}

// some lists the first of some files.
func some(files []string) string {
	const few = 20
	if len(files) > few {
		return strings.Join(files[:few], ", ") + fmt.Sprintf(" and %d more", len(files)-few)
	}
	return strings.Join(files, ", ")
}

// anew is how an agent makes one commit of all that it did.
func (t *Trees) anew(ctx context.Context, w td.Worktree) string {
	begun, err := t.Git.RefAt(ctx, w.Repo, begunRef(filepath.Base(w.Path)))
	if err != nil || begun == "" {
		begun = w.Into
	}
	return fmt.Sprintf("`git reset --soft %.12s && git commit -am '<what you did>'`", begun)
}

// Kept fails if a commit of the task is merged, but what it changed is not there: somebody merged it and took their own side. Then the branch would go on
// without it, and nobody would be told.
func (t *Trees) Kept(ctx context.Context, w td.Worktree, commit string) error {
	into, trunk, err := t.line(w).Heads(ctx)
	if err != nil {
		return err
	}
	for _, base := range []string{into, trunk} {
		if base == "" {
			continue
		}
		if in, err := t.Git.IsAncestor(ctx, w.Repo, commit, base); err != nil {
			return err
		} else if in {
			return t.kept(ctx, w, commit, base)
		}
	}
	return nil
}

// kept is Kept for a commit that base contains.
func (t *Trees) kept(ctx context.Context, w td.Worktree, commit, base string) error {
	from, err := begun(ctx, t.Git, w.Repo, filepath.Base(w.Path), commit)
	if err != nil || from == "" || from == commit || commit == base {
		return err
	}
	lost, err := t.Git.Undone(ctx, w.Repo, from, commit, base)
	if err != nil || len(lost) == 0 {
		return err
	}
	return td.Errorf(td.Conflict, "%s has your commit %.12s, but not what it changed in %s. If it is still wanted: `git reset --hard %.12s && git checkout %.12s -- <file>`; if not, the first of the two alone",
		w.Into, commit, some(lost), base, commit)
}

// mostInProgress bounds how many commits of work in progress become part of another.
const mostInProgress = 200

// Rebase brings the branch onto what is merged and the trunk, as both are now.
func (t *Trees) Rebase(ctx context.Context, w td.Worktree) (changed, conflicts []string, err error) {
	before, err := t.at(w).Head(ctx)
	if err != nil {
		return nil, nil, err
	}
	base, err := t.base(ctx, w)
	if err != nil {
		return nil, nil, err
	}
	without, err := t.foreign(ctx, w, before, base)
	if err != nil {
		return nil, nil, err
	}
	if in, err := t.Git.IsAncestor(ctx, w.Repo, before, base); err != nil {
		return nil, nil, err
	} else if in {
		if err := t.kept(ctx, w, before, base); err != nil {
			return nil, nil, err
		}
	}
	done, err := t.at(w).Rebase(ctx, base, without)
	if err != nil || len(done.Conflicts) > 0 {
		return nil, done.Conflicts, err
	}
	if done.Head != before {
		if err := t.begins(ctx, w, base); err != nil {
			return nil, nil, err
		}
	}
	changed, err = t.Git.Changed(ctx, w.Repo, before, done.Head)
	return changed, nil, err
}

// Rebased reports whether the branch builds on all that is merged and on the trunk, as both are now.
func (t *Trees) Rebased(ctx context.Context, w td.Worktree) (bool, error) {
	head, err := t.at(w).Head(ctx)
	if err != nil {
		return false, err
	}
	into, trunk, err := t.line(w).Heads(ctx)
	if err != nil {
		return false, err
	}
	for _, base := range []string{into, trunk} {
		if base == "" {
			continue
		}
		if is, err := t.Git.IsAncestor(ctx, w.Repo, base, head); err != nil || !is {
			return false, err
		}
	}
	return stands(ctx, t.Git, w, filepath.Base(w.Path), head, into, trunk)
}

// Holds reports whether the branch holds a commit.
func (t *Trees) Holds(ctx context.Context, w td.Worktree, commit string) (bool, error) {
	head, err := t.at(w).Head(ctx)
	if err != nil {
		return false, err
	}
	return t.Git.IsAncestor(ctx, w.Repo, commit, head)
}

// Follows reports whether a commit builds on an earlier one.
func (t *Trees) Follows(ctx context.Context, w td.Worktree, commit, earlier string) (bool, error) {
	return t.Git.IsAncestor(ctx, w.Repo, earlier, commit)
}

// Merging reports whether somebody is in the midst of a merge in the worktree, or of something like it.
func (t *Trees) Merging(ctx context.Context, w td.Worktree) (bool, error) {
	return t.at(w).Merging(ctx)
}

// Resolves reports whether agents resolve conflicts with the trunk before a person is asked.
func (t *Trees) Resolves(w td.Worktree) bool {
	return t.Config(w.Repo).Conflicts == config.ConflictsAgent
}

// Merge merges the work of a task, and of others that wait, into the integration branch.
func (t *Trees) Merge(ctx context.Context, w td.Worktree, own merge.Work, beside []merge.Work, check merge.Check) (merge.Result, error) {
	g, err := t.glance(ctx, w, slices.Concat([]merge.Work{own}, beside)...)
	if err != nil {
		return merge.Result{}, err
	}
	if err := t.renew(ctx, g, w); err != nil {
		return merge.Result{}, err
	}
	stale, beside, err := standing(ctx, g, w, own, beside)
	if err != nil || stale != "" {
		return merge.Result{Stale: stale}, err
	}
	res, err := merge.Merge(ctx, line{g, w}, w.Into, own, beside, check)
	if err == nil && res.Commit != "" {
		if err := t.renew(ctx, g, w); err != nil { // what it took in of the trunk is remembered; if not now, by the next
			t.Log.Warn("remember what is merged", "repo", w.Repo, "err", err)
		}
	}
	return res, err
}

// Merged says where the integration branch is, if it holds the commit.
func (t *Trees) Merged(ctx context.Context, w td.Worktree, commit string) (*td.Merged, error) {
	l := t.line(w)
	into, _, err := l.Heads(ctx)
	if err != nil || into == "" || commit == "" {
		return nil, err
	}
	if in, err := l.Contains(ctx, into, commit); err != nil || !in {
		return nil, err
	}
	tree, err := l.Tree(ctx, into)
	return &td.Merged{Into: w.Into, Commit: into, Tree: tree}, err
}

// Withdraw sees to it that nobody merges a commit of the task that is not merged yet, and says where the integration branch is if that is too
// late.
func (t *Trees) Withdraw(ctx context.Context, w td.Worktree, commit string) (*td.Merged, error) {
	ref := withdrawnRef(filepath.Base(w.Path), commit)
	at, err := t.Git.RefAt(ctx, w.Repo, ref)
	if err == nil && at == "" {
		err = t.Git.MoveRef(ctx, w.Repo, ref, commit, "")
	}
	if err != nil {
		return nil, err
	}
	return t.Merged(ctx, w, commit)
}

// Altered are the files of a commit that were changed in its checkout.
func (t *Trees) Altered(ctx context.Context, dir, commit string) ([]string, error) {
	return t.Git.Altered(ctx, dir, commit)
}

// Checkout makes a throw-away checkout of a commit.
func (t *Trees) Checkout(ctx context.Context, w td.Worktree, commit, name string) (string, error) {
	into := filepath.Join(t.Checkouts, name)
	if err := t.Git.CheckoutCommit(ctx, w.Repo, commit, into); err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(into)
	if err != nil {
		return "", td.Errorf(td.Storage, "find the checkout: %w", err)
	}
	return real, nil
}
