package git

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var (
	fpGraphCommit = failpoint.New("git.graph.before_commit")
	fpGraphIndex  = failpoint.New("git.graph.before_index")
	fpGraphRef    = failpoint.New("git.graph.before_ref")
	fpGraphDone   = failpoint.New("git.graph.after_ref")
)

// unfinished is how files end that somebody is about to rename.
const unfinished = ".tmp"

// Commit records what the worktree holds, as the user if they have told git who they are. Without a change it
// makes no commit and returns the last one. A nil error means that it is on disk.
func (g *Graph) Commit(ctx context.Context, message string) (hash string, changed bool, err error) {
	leave, err := g.enter(ctx)
	if err != nil {
		return "", false, err
	}
	defer leave()
	return g.commit(ctx, message)
}

// Committed is the newest commit of the branch, and GraphFile as it is there.
func (g *Graph) Committed(ctx context.Context) (hash string, text []byte, err error) {
	if hash, err = g.tip(ctx, graphRef); err != nil {
		return "", nil, err
	}
	files, err := g.readTree(ctx, hash)
	if err != nil {
		return "", nil, err
	}
	text, err = g.blob(ctx, files[GraphFile])
	return hash, text, err
}

func (g *Graph) commit(ctx context.Context, message string) (hash string, changed bool, err error) {
	head, err := g.tip(ctx, graphRef)
	if err != nil {
		return "", false, err
	}
	was, err := g.readTree(ctx, head)
	if err != nil {
		return "", false, err
	}
	is, err := g.scan(ctx, was)
	if err != nil {
		return "", false, err
	}
	if was[GraphFile] != none && is[GraphFile] == none {
		// Lines only ever come: a log that is gone is an accident, and must not become everybody's.
		return "", false, td.Errorf(td.Conflict, "%s is gone from %s", GraphFile, g.dir).
			WithHint("git -C %s restore --source=HEAD --staged --worktree %s", g.dir, GraphFile)
	}
	if maps.Equal(is, was) {
		return head, false, nil
	}
	id, index, err := g.writeTree(ctx, is)
	if err != nil {
		return "", false, err
	}
	fpGraphCommit.Hit()
	if hash, err = g.commitTree(ctx, id, message, identity(ctx, g.root), head); err != nil {
		return "", false, err
	}
	fpGraphIndex.Hit()
	// The index goes first: should it end here, git shows the change as about to be committed, not as undone.
	if err := g.placeIndex(index); err != nil {
		return "", false, err
	}
	fpGraphRef.Hit()
	if err := g.moveRef(ctx, graphRef, hash, head); err != nil {
		return "", false, err
	}
	fpGraphDone.Hit()
	return hash, true, nil
}

// scan makes objects of what has changed in the worktree since it was as in was, and lists all that it holds.
// What is no plain file counts as unchanged if it was one, and not at all otherwise.
func (g *Graph) scan(ctx context.Context, was tree) (tree, error) {
	index, err := g.writeIndex(ctx, was)
	if err != nil {
		return nil, err
	}
	// Of rules about what to leave out only those on the branch itself hold: they are the same for everybody.
	c := g.call(false, "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore")
	c.env = append(c.env, "GIT_INDEX_FILE="+index)
	out, err := run(ctx, c)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(g.dir)
	if err != nil {
		return nil, td.Errorf(td.Storage, "read worktree: %w", err)
	}
	defer func() { _ = root.Close() }()
	is := tree{}
	for _, p := range paths(was) {
		switch e, err := g.take(ctx, root, p, was[p]); {
		case gone(err):
		case err != nil:
			return nil, err
		case e == none:
			is[p] = was[p]
		default:
			is[p] = e
		}
	}
	for p := range strings.SplitSeq(string(out), "\x00") {
		if !sharable(p) || strings.HasSuffix(p, unfinished) { // git lists repositories with a slash at the end
			continue
		}
		e, err := g.take(ctx, root, p, none)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if e != none {
			is[p] = e
		}
	}
	return is, nil
}

// take makes an object of a file unless it is still as it was. It is none for what is no plain file of this folder.
func (g *Graph) take(ctx context.Context, root *os.Root, name string, was entry) (entry, error) {
	info, err := lstat(root, name)
	switch {
	case gone(err):
		return none, err
	case errors.Is(err, errLink):
		return none, nil
	case err != nil:
		return none, td.Errorf(td.Storage, "read worktree: %w", err)
	case !info.Mode().IsRegular():
		return none, nil
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return none, td.Errorf(td.Storage, "read worktree: %w", err)
	}
	defer func() { _ = f.Close() }()
	e := entry{mode: modeOf(info)}
	if was != none {
		if e.id, err = g.nameOf(f, info.Size()); err != nil {
			return none, td.Errorf(td.Storage, "read worktree: %w", err)
		}
		if e.id == was.id {
			return e, nil
		}
		if _, err := f.Seek(0, 0); err != nil {
			return none, td.Errorf(td.Storage, "read worktree: %w", err)
		}
	}
	e.id, err = g.putBlob(ctx, f)
	return e, err
}

// gone reports whether an error says that there is no such file, nor a folder it could be in: a link that leads to itself is none.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

var errLink = errors.New("a symbolic link is above it")

// lstat looks at a file without following any link, be it at its end or above.
func lstat(root *os.Root, name string) (fs.FileInfo, error) {
	for i, c := range name {
		if c != '/' {
			continue
		}
		info, err := root.Lstat(name[:i])
		if err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil, errLink
		}
	}
	return root.Lstat(name)
}

// commitTree makes a commit that no ref names yet.
func (g *Graph) commitTree(ctx context.Context, tree, message string, env []string, parents ...string) (string, error) {
	args := []string{"commit-tree", "--no-gpg-sign", tree}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	c := g.call(true, append(args, "-F", "-")...)
	c.env, c.stdin = append(c.env, env...), strings.NewReader(message)
	return line(ctx, c)
}

// placeIndex gives the worktree an index that was made by writeIndex.
func (g *Graph) placeIndex(index string) error {
	err := os.Rename(index, filepath.Join(g.admin, "index"))
	if err == nil {
		err = syncPath(g.admin)
	}
	if err != nil {
		return td.Errorf(td.Storage, "replace index: %w", err)
	}
	return nil
}
