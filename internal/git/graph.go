package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

// GraphFile is the log of changes on the graph branch: the one file whose versions GraphOptions.Merge merges.
const GraphFile = "tasks.jsonl"

const (
	graphFolder = ".taskdaemon"
	graphBranch = "taskdaemon/graph"
	graphRef    = "refs/heads/" + graphBranch
	// graphNext names the commit that the worktree is on its way to.
	graphNext = "refs/taskdaemon/graph-next"
)

// Merge makes one of two versions of GraphFile that came from base, which is empty when that is not known. It
// must not matter which of the two comes first.
type Merge func(base, one, other []byte) ([]byte, error)

// GraphOptions say how a graph branch is kept.
type GraphOptions struct {
	Self  string // the binary that git is told to merge GraphFile with; empty: git is told nothing
	Merge Merge  // without one GraphFile is merged like any other file
	// Hold keeps every other writer off the files of the worktree while they are read, moved or replaced; nil
	// when there is none. A file may be another one afterwards, so what was opened before must be opened again.
	Hold func(ctx context.Context) (release func(), err error)
}

// Graph is the orphan branch taskdaemon/graph of a user's repository, checked out as a linked worktree in the
// folder .taskdaemon of the main checkout. It writes to that folder, that branch and refs of its own, and never
// to the user's index, HEAD or files. Its methods may be called by many at once, and by many processes: they
// wait for one another, but not while one of them waits for a remote.
//
// Files go from the folder into git and back byte by byte: no filter, hook, attribute or merge driver that
// settings name has a part in it. Only plain files are shared; symbolic links and repositories inside the folder
// stay where they are.
type Graph struct {
	GraphOptions
	root   string // top of the main checkout
	common string // the repository's folder, the same for all checkouts
	dir    string // the worktree
	admin  string // what git keeps of the worktree
	format int    // letters in an object's name
}

// OpenGraph opens the graph of the repository around dir. NotFound when there is no repository or SetupGraph has
// not been called in it; Conflict when the worktree is not fit for work.
func OpenGraph(ctx context.Context, dir string, o GraphOptions) (*Graph, error) {
	g, err := locateGraph(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	if g.admin = g.linked(); g.admin == "" {
		return nil, td.Errorf(td.NotFound, "%s is no worktree of this repository", g.dir).WithHint("taskdaemon init")
	}
	if err := g.fit(ctx); err != nil {
		return nil, err
	}
	return g, nil
}

// Root is the top of the repository's main checkout.
func (g *Graph) Root() string { return g.root }

// Dir is the folder that the branch is checked out in.
func (g *Graph) Dir() string { return g.dir }

// locateGraph finds where the graph of the repository around dir is or would be.
func locateGraph(ctx context.Context, dir string, o GraphOptions) (*Graph, error) {
	top, err := topOf(ctx, dir)
	if err != nil {
		return nil, err
	}
	if top == "" {
		if err := misfit(dir); err != nil {
			return nil, err
		}
		return nil, td.Errorf(td.NotFound, "%s: %s", dir, notRepository)
	}
	common, err := line(ctx, call{dir: top, args: []string{"rev-parse", "--path-format=absolute", "--git-common-dir"}})
	if err != nil {
		return nil, err
	}
	own, err := line(ctx, call{dir: top, args: []string{"rev-parse", "--absolute-git-dir"}})
	if err != nil {
		return nil, err
	}
	if !sameFile(own, common) { // top is a linked worktree
		if top, err = mainTop(ctx, top, common); err != nil {
			return nil, err
		}
	}
	empty, err := line(ctx, call{dir: top, args: []string{"hash-object", "--stdin"}, stdin: strings.NewReader("")})
	if err != nil {
		return nil, err
	}
	return &Graph{GraphOptions: o, root: top, common: common, dir: filepath.Join(top, graphFolder), format: len(empty)}, nil
}

// mainTop is the top of the main checkout of a repository that linked is a linked worktree of.
func mainTop(ctx context.Context, linked, common string) (string, error) {
	guess := filepath.Dir(common)
	said, err := configs.of(ctx, siteOf(call{dir: linked}))
	if err != nil {
		return "", err
	}
	if at, ok := said.get("core.worktree"); ok {
		guess = gitfile.Beside(common, at) // a submodule
	}
	if CommonDir(guess) != "" && sameFile(CommonDir(guess), common) {
		if top, err := topOf(ctx, guess); err == nil && top != "" && sameFile(top, guess) {
			return top, nil
		}
	}
	return "", td.Errorf(td.Conflict, "the repository %s has no main checkout that the graph could lie in", common).
		WithHint("run it in a clone that is not bare")
}

// fit fails unless the worktree stands on the graph branch and nobody is in the middle of a merge there.
func (g *Graph) fit(ctx context.Context) error {
	if g.linked() != g.admin {
		return td.Errorf(td.Conflict, "%s is no longer a worktree of this repository", g.dir).WithHint("taskdaemon init")
	}
	on, err := g.line(ctx, "symbolic-ref", "--quiet", "HEAD")
	if td.IsKind(err, td.Interrupted) || td.IsKind(err, td.Unavailable) {
		return err
	}
	if on != graphRef {
		return td.Errorf(td.Conflict, "the worktree %s is not on the branch %s", g.dir, graphBranch).
			WithHint("git -C %s switch %s", g.dir, graphBranch)
	}
	if head, err := g.tip(ctx, graphRef); err != nil {
		return err
	} else if head == "" {
		return td.Errorf(td.Conflict, "the branch %s is gone", graphBranch).WithHint("taskdaemon init")
	}
	if _, err := os.Lstat(filepath.Join(g.admin, "MERGE_HEAD")); err == nil {
		return td.Errorf(td.Conflict, "somebody is in the middle of a merge in %s", g.dir).
			WithHint("git -C %s merge --continue, or --abort", g.dir)
	}
	return nil
}

// call prepares a git that works on the worktree, whatever the .git file in it says by now.
func (g *Graph) call(keep bool, args ...string) call {
	c := call{dir: g.root, keep: keep, env: []string{"GIT_NO_REPLACE_OBJECTS=1"}, set: []string{"core.sparseCheckout=false", "i18n.commitEncoding=UTF-8"}, args: args}
	if g.admin != "" {
		c.dir, c.env = g.dir, append(c.env, "GIT_DIR="+g.admin, "GIT_WORK_TREE="+g.dir)
	}
	return c
}

func (g *Graph) run(ctx context.Context, keep bool, args ...string) ([]byte, error) {
	return run(ctx, g.call(keep, args...))
}

func (g *Graph) line(ctx context.Context, args ...string) (string, error) {
	return line(ctx, g.call(false, args...))
}

// fed runs git with something to read.
func (g *Graph) fed(ctx context.Context, in io.Reader, args ...string) (string, error) {
	c := g.call(true, args...)
	c.stdin = in
	return line(ctx, c)
}

// tip is the commit that a name stands for, or empty when there is none.
func (g *Graph) tip(ctx context.Context, name string) (string, error) {
	return resolve(ctx, g.root, name+"^{commit}")
}

// moveRef moves a ref if it still stands where it did.
func (g *Graph) moveRef(ctx context.Context, ref, to, from string) error {
	if from == "" {
		from = strings.Repeat("0", g.format)
	}
	_, err := g.run(ctx, true, "update-ref", "-m", "taskdaemon", ref, to, from)
	return err
}

// lockWait is how often a lock that somebody holds is tried again.
const lockWait = 10 * time.Millisecond

// lock keeps other processes from working on the graph. It goes with the process.
func (g *Graph) lock(ctx context.Context) (unlock func(), err error) {
	unlock, err = lockFile(ctx, filepath.Join(g.common, "taskdaemon-graph.lock"))
	if err != nil {
		return nil, fmt.Errorf("lock graph: %w", err)
	}
	return unlock, nil
}

// lockFile waits until no other process, and nobody else in this one, has locked the file.
func lockFile(ctx context.Context, file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, td.Errorf(td.Storage, "open lock: %w", err)
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, td.Errorf(td.Storage, "lock %s: %w", file, err)
		}
		wait := time.NewTimer(lockWait)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			_ = f.Close()
			return nil, td.Errorf(td.Interrupted, "wait for lock: %w", context.Cause(ctx))
		}
	}
}

// enter locks the graph, keeps other writers off its files, and ends what was begun before.
func (g *Graph) enter(ctx context.Context) (leave func(), err error) {
	unlock, err := g.lock(ctx)
	if err != nil {
		return nil, err
	}
	release := func() {}
	if g.Hold != nil {
		if release, err = g.Hold(ctx); err != nil {
			unlock()
			return nil, err
		}
	}
	leave = func() { release(); unlock() }
	g.sweep()
	if err = g.fit(ctx); err == nil {
		_, err = g.settle(ctx)
	}
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// staleLock is the age at which a lock of git's was left by a machine that went down: git holds it for an instant.
const staleLock = 10 * time.Minute

// sweep removes locks on our refs that nobody can hold any more. The graph must be locked.
func (g *Graph) sweep() {
	sweepLocks(filepath.Join(g.common, filepath.FromSlash(graphRef)), filepath.Join(g.common, filepath.FromSlash(graphNext)), filepath.Join(g.admin, "HEAD"))
}

// sweepLocks removes locks on files that nobody can hold any more.
func sweepLocks(files ...string) {
	for _, file := range files {
		lock := file + ".lock"
		if info, err := os.Lstat(lock); err == nil && time.Since(info.ModTime()) > staleLock {
			_ = os.Remove(lock) // if it cannot be, git will say so
		}
	}
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
