package worktree

import (
	"context"

	"taskdaemon/internal/git"
)

// Git is what is done to repositories. Program does it; simulations, which have no time for processes, do it to a model of one.
// Each method is what package git says of the function or method of that name.
type Git interface {
	Refs
	Commits
	Worktrees
}

// Refs are the names of commits in a repository.
type Refs interface {
	RefAt(ctx context.Context, repo, ref string) (string, error)
	MoveRef(ctx context.Context, repo, ref, to, from string) error
	MoveRefUnless(ctx context.Context, repo, ref, to, from string, others ...string) error
	IsAncestor(ctx context.Context, repo, old, young string) (bool, error)
	MergeBase(ctx context.Context, repo, a, b string) (string, error)
	LineageOf(ctx context.Context, repo, base string, commits ...string) (*git.Lineage, error)
	TrunkOf(ctx context.Context, dir string) (git.Trunk, error)
	TrunksOf(ctx context.Context, repo, feature string) (map[string]string, error)
	Free(ctx context.Context, repo, branch string) error
	Refs(ctx context.Context, repo string, prefixes ...string) (map[string]string, error)
	FastForward(ctx context.Context, repo, branch, to string, before func() error) error
	DemandsOf(ctx context.Context, repo string) (git.Demands, error)
	CheckoutOf(ctx context.Context, repo, branch string) (string, error)
}

// Commits are the commits of a repository, and what they hold.
type Commits interface {
	TreeOf(ctx context.Context, repo, commit string) (string, error)
	CommitTree(ctx context.Context, repo, tree, message string, parents ...string) (string, error)
	MergeTree(ctx context.Context, repo, ours, theirs string) (git.Merged, error)
	Replay(ctx context.Context, repo, head, onto, without string) (to string, conflicts []string, err error)
	Log(ctx context.Context, repo, head string, n int) ([]git.Past, error)
	Changed(ctx context.Context, repo, from, to string) ([]string, error)
	Differing(ctx context.Context, repo, from, to, name string) (git.Notable, error)
	UntakableOf(ctx context.Context, repo, branch, from string, n git.Notable) (git.Untakable, error)
	CheckoutCommit(ctx context.Context, repo, commit, into string) error
	Altered(ctx context.Context, at, commit string) ([]string, error)
	Whole(ctx context.Context, repo, commit string, known ...string) error
	Sound(ctx context.Context, repo, commit string, known ...string) error
	Borrowed(ctx context.Context, repo, commit, handle string, known ...string) (found, of string, err error)
	Emptied(ctx context.Context, repo, commit, handle string, known ...string) (found, of string, lost []string, err error)
	Undone(ctx context.Context, repo, from, to, later string) ([]string, error)
}

// Worktrees are the worktrees of a repository, and what is left of them.
type Worktrees interface {
	At(w git.Worktree) Folder
	Worktrees(ctx context.Context, repo string) ([]git.WorktreeInfo, error)
	RunBranches(ctx context.Context, repo string) ([]git.RunBranch, error)
	RetireBranches(ctx context.Context, repo string, names []string, before func([]git.Retired) error) ([]git.Retired, error)
	KeptOf(ctx context.Context, repo string) ([]git.Kept, error)
	SetAside(ctx context.Context, repo string, refs ...string) error
	Tidy(ctx context.Context, repo string) error
}

// Folder is one worktree.
type Folder interface {
	Look(ctx context.Context) (git.Condition, error)
	Head(ctx context.Context) (string, error)
	Make(ctx context.Context, base string) error
	Commit(ctx context.Context, message string) (string, error)
	Merging(ctx context.Context) (bool, error)
	Rebase(ctx context.Context, onto, without string) (git.Rebased, error)
	Keep(ctx context.Context, ref string) (string, error)
	Restore(ctx context.Context, ref string) error
	Remove(ctx context.Context, proof string, before func(head string) error) error
	Locked(ctx context.Context) (why string, is bool, err error)
	Lock(ctx context.Context, why string) error
	Unlock(ctx context.Context) error
}

// Program is git itself.
type Program struct{}

func (Program) RefAt(ctx context.Context, repo, ref string) (string, error) {
	return git.RefAt(ctx, repo, ref)
}

func (Program) MoveRef(ctx context.Context, repo, ref, to, from string) error {
	return git.MoveRef(ctx, repo, ref, to, from)
}

func (Program) MoveRefUnless(ctx context.Context, repo, ref, to, from string, others ...string) error {
	return git.MoveRefUnless(ctx, repo, ref, to, from, others...)
}

func (Program) MergeBase(ctx context.Context, repo, a, b string) (string, error) {
	return git.MergeBase(ctx, repo, a, b)
}

func (Program) IsAncestor(ctx context.Context, repo, old, young string) (bool, error) {
	return git.IsAncestor(ctx, repo, old, young)
}

// LineageOf is git.LineageOf.
func (Program) LineageOf(ctx context.Context, repo, base string, commits ...string) (*git.Lineage, error) {
	return git.LineageOf(ctx, repo, base, commits...)
}

func (Program) Free(ctx context.Context, repo, branch string) error {
	return git.Free(ctx, repo, branch)
}

func (Program) TrunkOf(ctx context.Context, dir string) (git.Trunk, error) {
	return git.TrunkOf(ctx, dir)
}

func (Program) TrunksOf(ctx context.Context, repo, feature string) (map[string]string, error) {
	return git.TrunksOf(ctx, repo, feature)
}

func (Program) Refs(ctx context.Context, repo string, prefixes ...string) (map[string]string, error) {
	return git.Refs(ctx, repo, prefixes...)
}

func (Program) FastForward(ctx context.Context, repo, branch, to string, before func() error) error {
	return git.FastForward(ctx, repo, branch, to, before)
}

// CheckoutOf is git.CheckoutOf.
func (Program) CheckoutOf(ctx context.Context, repo, branch string) (string, error) {
	return git.CheckoutOf(ctx, repo, branch)
}

// DemandsOf is git.DemandsOf.
func (Program) DemandsOf(ctx context.Context, repo string) (git.Demands, error) {
	return git.DemandsOf(ctx, repo)
}

func (Program) TreeOf(ctx context.Context, repo, commit string) (string, error) {
	return git.TreeOf(ctx, repo, commit)
}

func (Program) CommitTree(ctx context.Context, repo, tree, message string, parents ...string) (string, error) {
	return git.CommitTree(ctx, repo, tree, message, parents...)
}

func (Program) MergeTree(ctx context.Context, repo, ours, theirs string) (git.Merged, error) {
	return git.MergeTree(ctx, repo, ours, theirs)
}

// Replay is git.Replay.
func (Program) Replay(ctx context.Context, repo, head, onto, without string) (to string, conflicts []string, err error) {
	return git.Replay(ctx, repo, head, onto, without)
}

func (Program) Log(ctx context.Context, repo, head string, n int) ([]git.Past, error) {
	return git.Log(ctx, repo, head, n)
}

func (Program) Changed(ctx context.Context, repo, from, to string) ([]string, error) {
	return git.Changed(ctx, repo, from, to)
}

// Differing is git.Differing.
func (Program) Differing(ctx context.Context, repo, from, to, name string) (git.Notable, error) {
	return git.Differing(ctx, repo, from, to, name)
}

// UntakableOf is git.UntakableOf.
func (Program) UntakableOf(ctx context.Context, repo, branch, from string, n git.Notable) (git.Untakable, error) {
	return git.UntakableOf(ctx, repo, branch, from, n)
}

// Altered is git.Altered.
func (Program) Altered(ctx context.Context, at, commit string) ([]string, error) {
	return git.Altered(ctx, at, commit)
}

// CheckoutCommit is git.CheckoutCommit.
func (Program) CheckoutCommit(ctx context.Context, repo, commit, into string) error {
	return git.CheckoutCommit(ctx, repo, commit, into)
}

// Whole is git.Whole.
func (Program) Whole(ctx context.Context, repo, commit string, known ...string) error {
	return git.Whole(ctx, repo, commit, known...)
}

// Sound is git.Sound.
func (Program) Sound(ctx context.Context, repo, commit string, known ...string) error {
	return git.Sound(ctx, repo, commit, known...)
}

// Borrowed is git.Borrowed.
func (Program) Borrowed(ctx context.Context, repo, commit, handle string, known ...string) (found, of string, err error) {
	return git.Borrowed(ctx, repo, commit, handle, known...)
}

// Emptied is git.Emptied.
func (Program) Emptied(ctx context.Context, repo, commit, handle string, known ...string) (found, of string, lost []string, err error) {
	return git.Emptied(ctx, repo, commit, handle, known...)
}

// Undone is git.Undone.
func (Program) Undone(ctx context.Context, repo, from, to, later string) ([]string, error) {
	return git.Undone(ctx, repo, from, to, later)
}

func (Program) At(w git.Worktree) Folder { return w }

func (Program) Worktrees(ctx context.Context, repo string) ([]git.WorktreeInfo, error) {
	return git.Worktrees(ctx, repo)
}

func (Program) RunBranches(ctx context.Context, repo string) ([]git.RunBranch, error) {
	return git.RunBranches(ctx, repo)
}

func (Program) RetireBranches(ctx context.Context, repo string, names []string, before func([]git.Retired) error) ([]git.Retired, error) {
	return git.RetireBranches(ctx, repo, names, before)
}

func (Program) KeptOf(ctx context.Context, repo string) ([]git.Kept, error) {
	return git.KeptOf(ctx, repo)
}

func (Program) SetAside(ctx context.Context, repo string, refs ...string) error {
	return git.SetAside(ctx, repo, refs...)
}

func (Program) Tidy(ctx context.Context, repo string) error { return git.Tidy(ctx, repo) }
