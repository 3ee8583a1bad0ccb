package git

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var (
	fpCommitIndex = failpoint.New("git.worktree.before_commit_index")
	fpCommitRef   = failpoint.New("git.worktree.before_commit_ref")
	fpCommitDone  = failpoint.New("git.worktree.after_commit_ref")
)

// Commit records everything in the worktree that is not ignored on its branch, as the user if they have told git who they are, without
// hooks and signatures. Without a change it makes no commit and returns the branch's. A merge, cherry-pick or revert
// that the agent is in the midst of is concluded. Conflict names files that are not merged or still hold the marks of
// a conflict, and repositories inside the worktree: what is in those would be lost.
func (w Worktree) Commit(ctx context.Context, message string) (commit string, err error) {
	p, err := w.open(ctx)
	if err != nil {
		return "", err
	}
	if err := p.busy(td.Conflict, "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "sequencer"); err != nil {
		return "", err
	}
	if err := p.merged(ctx); err != nil {
		return "", err
	}
	head, err := p.tip(ctx)
	if err != nil {
		return "", err
	}
	index, err := p.ownIndex()
	if err != nil {
		return "", err
	}
	since := time.Now()
	tree, err := p.stage(ctx, index, head)
	if err != nil {
		return "", err
	}
	if err := p.with("GIT_INDEX_FILE=" + index).plainFiles(ctx); err != nil {
		return "", err
	}
	parents, err := p.mergeHeads(ctx, head)
	if err != nil {
		return "", err
	}
	was, err := treeOf(ctx, w.Repo, head)
	if err != nil {
		return "", err
	}
	fpCommitIndex.Hit()
	if err := know(index, p.common, p.git, since); err != nil {
		return "", err
	}
	if err := p.placeIndex(index); err != nil {
		return "", err
	}
	commit = head
	if tree != was || len(parents) > 0 {
		if commit, err = CommitTree(ctx, w.Repo, tree, message, slices.Concat([]string{head}, parents)...); err != nil {
			return "", err
		}
		fpCommitRef.Hit()
		if err := p.transact(ctx, "update "+p.ref+" "+commit+" "+head); err != nil {
			return "", err
		}
		fpCommitDone.Hit()
	}
	return commit, p.conclude()
}

// merged fails unless all that was in conflict is merged.
func (p *place) merged(ctx context.Context) error {
	out, err := run(ctx, p.call(false, "ls-files", "--unmerged", "-z"))
	if err != nil {
		return err
	}
	if names := staged(string(out)); len(names) > 0 {
		return td.Errorf(td.Conflict, "files are not merged: %s", someOf(names)).WithHint("merge them, then git add them")
	}
	// git remembers of files that were in conflict and were then added that they were.
	if out, err = run(ctx, p.call(false, "ls-files", "--resolve-undo", "-z")); err != nil {
		return err
	}
	top, err := beneath.Open(p.top)
	if err != nil {
		return td.Errorf(td.Storage, "look for conflicts: %w", err)
	}
	defer func() { _ = top.Close() }()
	var marked []string
	for _, name := range staged(string(out)) {
		content, _, err := top.Read(name, maxObject)
		if err == nil && hasMarks(content) {
			marked = append(marked, name)
		}
	}
	if len(marked) > 0 {
		return td.Errorf(td.Conflict, "files still hold the marks of a conflict: %s", someOf(marked)).WithHint("merge them")
	}
	return nil
}

// staged are the files that `git ls-files --stage -z` and its likes list, each once.
func staged(out string) []string {
	var names []string
	for rec := range strings.SplitSeq(out, "\x00") {
		if _, name, ok := strings.Cut(rec, "\t"); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// hasMarks reports whether a text holds both versions of something, as git leaves it to people to choose.
func hasMarks(text []byte) bool {
	begun := false
	for l := range bytes.Lines(text) {
		switch {
		case bytes.HasPrefix(l, []byte("<<<<<<< ")):
			begun = true
		case begun && bytes.HasPrefix(l, []byte(">>>>>>> ")):
			return true
		}
	}
	return false
}

// stage makes an index at a place of our own that holds all files of the checkout, and writes it as a tree.
func (p *place) stage(ctx context.Context, index, head string) (tree string, err error) {
	if err := clearIndex(index); err != nil {
		return "", err
	}
	links, err := indexFor(ctx, p.call(true), index, p.top, p.common, filepath.Join(p.git, "index"))
	if err != nil {
		return "", err
	}
	q := p.with("GIT_INDEX_FILE=" + index)
	if err := fits(ctx, q.call(false)); err != nil {
		return "", err
	}
	if err := addAll(ctx, q.call(true), links, nil); err != nil {
		if m := unborn.FindStringSubmatch(err.Error()); m != nil {
			return "", p.embedded(m[1])
		}
		return "", err
	}
	out, err := q.run(ctx, "diff-index", "--cached", "--raw", "-z", "--no-renames", notInside, head, "--")
	if err != nil {
		return "", err
	}
	changed, ok := parseRaw(string(out))
	if !ok {
		return "", td.Errorf(td.Internal, "stage files: git said %.100q", out)
	}
	for _, d := range changed {
		if d.is.mode == modeLink {
			return "", p.embedded(d.path)
		}
	}
	return q.line(ctx, "write-tree")
}

func (p *place) embedded(name string) error {
	return td.Errorf(td.Conflict, "%q in %s is a repository of its own: git would not keep what is in it", name, p.top).
		WithHint("remove its .git to keep its files, or ignore it")
}

// mergeHeads are the commits that a merge in progress brings, and that are not in head yet.
func (p *place) mergeHeads(ctx context.Context, head string) ([]string, error) {
	var heads []string
	for _, h := range strings.Fields(textOf(filepath.Join(p.git, "MERGE_HEAD"))) {
		in, err := IsAncestor(ctx, p.repo, h, head)
		if err != nil {
			return nil, err
		}
		if !in && !slices.Contains(heads, h) {
			heads = append(heads, h)
		}
	}
	return heads, nil
}

// stateFiles are where git remembers a merge and its likes that are in progress in a checkout.
var stateFiles = []string{
	"MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "SQUASH_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD",
	"sequencer/todo", "sequencer/head", "sequencer/opts", "sequencer/abort-safety",
}

// conclude forgets a merge and its likes that were in progress. What they are to bring goes last.
func (p *place) conclude() error {
	git, err := beneath.Open(p.git)
	if err != nil {
		return td.Errorf(td.Storage, "conclude merge: %w", err)
	}
	defer func() { _ = git.Close() }()
	for _, name := range slices.Backward(append([]string{"AUTO_MERGE"}, stateFiles...)) {
		if err := removeIn(git, name); err != nil {
			return td.Errorf(td.Storage, "conclude merge: %w", err)
		}
	}
	if err := git.RemoveFolder("sequencer"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return td.Errorf(td.Storage, "conclude merge: %w", err)
	}
	return nil
}

// removeIn removes a file of a folder, by a path on which nothing is a link.
func removeIn(folder *beneath.Folder, name string) error {
	in, err := folder.Folder(path.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if err := in.Remove(path.Base(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
