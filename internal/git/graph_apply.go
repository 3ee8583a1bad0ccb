package git

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var (
	fpGraphFile   = failpoint.New("git.graph.before_file")
	fpGraphSwap   = failpoint.New("git.graph.before_swap")
	fpGraphMove   = failpoint.New("git.graph.before_move")
	fpGraphMoved  = failpoint.New("git.graph.after_move")
	fpGraphIntent = failpoint.New("git.graph.before_intent")
	fpGraphMeant  = failpoint.New("git.graph.after_intent")
)

// The files of a worktree cannot all change at one instant. So a ref says first which commit they are to become;
// then the files change, each at one instant, then the index, then the branch. Whoever comes after a crash finds
// the ref and goes on. Until the branch has moved nothing is committed, so that half a change never is.

// goTo brings files, index and branch to a commit that descends from where they are.
func (g *Graph) goTo(ctx context.Context, to string) (conflicts []string, err error) {
	fpGraphIntent.Hit()
	if err := g.moveRef(ctx, graphNext, to, ""); err != nil {
		return nil, err
	}
	fpGraphMeant.Hit()
	return g.settle(ctx)
}

// settle ends what a crash, or goTo, has left to do.
func (g *Graph) settle(ctx context.Context) (conflicts []string, err error) {
	head, err := g.tip(ctx, graphRef)
	if err != nil {
		return nil, err
	}
	// git makes a worktree without files and without an index, and the index is the last that is put there.
	if _, err := os.Lstat(filepath.Join(g.admin, "index")); errors.Is(err, fs.ErrNotExist) {
		if conflicts, err = g.apply(ctx, "", head); err != nil {
			return nil, err
		}
	}
	next, err := g.tip(ctx, graphNext)
	if err != nil || next == "" {
		return conflicts, err
	}
	if next != head {
		onward, err := g.descends(ctx, next, head)
		if err != nil {
			return nil, err
		}
		// Otherwise somebody has committed by hand. Files that had changed by then are changes like any other.
		if onward {
			more, err := g.apply(ctx, head, next)
			if err != nil {
				return nil, err
			}
			conflicts = append(conflicts, more...)
			fpGraphMove.Hit()
			if err := g.moveRef(ctx, graphRef, next, head); err != nil {
				return nil, err
			}
			fpGraphMoved.Hit()
		}
	}
	_, err = g.run(ctx, true, "update-ref", "-d", graphNext, next)
	return conflicts, err
}

// descends reports whether commit has that other one among its ancestors, or is it.
func (g *Graph) descends(ctx context.Context, commit, from string) (bool, error) {
	_, err := g.line(ctx, "merge-base", "--is-ancestor", from, commit)
	if exitCode(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// apply changes the files that differ between two commits, then the index. A file that is neither as in the one
// nor as in the other is somebody's work and is merged.
func (g *Graph) apply(ctx context.Context, from, to string) (conflicts []string, err error) {
	is, was := tree{}, tree{}
	if is, err = g.readTree(ctx, to); err != nil {
		return nil, err
	}
	if from != "" {
		if was, err = g.readTree(ctx, from); err != nil {
			return nil, err
		}
	}
	changed := slices.DeleteFunc(paths(is, was), func(p string) bool { return is[p] == was[p] })
	// What goes makes room for what comes: a file may become a folder.
	slices.SortStableFunc(changed, func(a, b string) int { return rank(is[a]) - rank(is[b]) })
	root, err := os.OpenRoot(g.dir)
	if err != nil {
		return nil, td.Errorf(td.Storage, "change worktree: %w", err)
	}
	defer func() { _ = root.Close() }()
	s := &swap{Graph: g, root: root}
	for _, p := range changed {
		if err := s.change(ctx, p, was[p], is[p]); err != nil {
			return nil, err
		}
	}
	index, err := g.writeIndex(ctx, is)
	if err != nil {
		return nil, err
	}
	fpGraphIndex.Hit()
	return s.conflicts, g.placeIndex(index)
}

func rank(e entry) int {
	if e == none {
		return 0
	}
	return 1
}

// swap changes files of the worktree one by one.
type swap struct {
	*Graph
	root      *os.Root
	conflicts []string
}

func (s *swap) change(ctx context.Context, name string, was, is entry) error {
	found, err := s.look(name)
	if err != nil {
		return err
	}
	switch {
	case found.id == is.id && found.mode == is.mode:
		return nil
	case found.id != was.id && found != none && is == none:
		return nil // removed there, changed here: it stays
	case found.id == was.id || found == none:
		if is == none {
			return s.remove(name)
		}
		content, err := s.blob(ctx, is)
		if err != nil {
			return err
		}
		return s.write(name, content, is.mode)
	}
	base, err := s.blob(ctx, was)
	if err != nil {
		return err
	}
	here, err := s.root.ReadFile(name)
	if err != nil {
		return td.Errorf(td.Storage, "read worktree: %w", err)
	}
	there, err := s.blob(ctx, is)
	if err != nil {
		return err
	}
	whole, ok, err := s.mergeContent(ctx, name, base, here, there)
	switch {
	case err != nil:
		return err
	case ok && bytes.Equal(whole, here):
		return nil
	case ok:
		return s.write(name, whole, is.mode)
	}
	beside := conflictPath(name, is.id, func(p string) bool {
		e, err := s.look(p)
		return err != nil || e != none && e.id != is.id
	})
	s.conflicts = append(s.conflicts, beside)
	return s.write(beside, there, is.mode)
}

// look is the file that stands in the worktree now, none when there is nothing or no plain file.
func (s *swap) look(name string) (entry, error) {
	info, err := lstat(s.root, name)
	if gone(err) || errors.Is(err, errLink) {
		return none, nil
	}
	if err != nil {
		return none, td.Errorf(td.Storage, "read worktree: %w", err)
	}
	if !info.Mode().IsRegular() {
		return none, nil
	}
	f, err := s.root.Open(name)
	if err != nil {
		return none, td.Errorf(td.Storage, "read worktree: %w", err)
	}
	defer func() { _ = f.Close() }()
	e := entry{mode: modeOf(info)}
	if e.id, err = s.nameOf(f, info.Size()); err != nil {
		return none, td.Errorf(td.Storage, "read worktree: %w", err)
	}
	return e, nil
}

func modeOf(info fs.FileInfo) string {
	if info.Mode()&0o100 != 0 {
		return modeProgram
	}
	return modePlain
}

// remove removes a plain file and the folders that are empty without it.
func (s *swap) remove(name string) error {
	info, err := lstat(s.root, name)
	if gone(err) || errors.Is(err, errLink) || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	fpGraphFile.Hit()
	if err == nil {
		err = s.root.Remove(name)
	}
	if err != nil {
		return td.Errorf(td.Storage, "change worktree: %w", err)
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if s.root.Remove(dir) != nil {
			return nil
		}
	}
	return nil
}

// write gives a file its content at one instant.
func (s *swap) write(name string, content []byte, mode string) error {
	if err := s.makeRoom(name); err != nil {
		return err
	}
	fpGraphFile.Hit()
	perm := fs.FileMode(0o644)
	if mode == modeProgram {
		perm = 0o755
	}
	if err := replace(s.root, name, content, perm); err != nil {
		return td.Errorf(td.Storage, "change worktree: %w", err)
	}
	return nil
}

// makeRoom makes the folders above a file. What stands in the way and is not on the branch gets another name.
func (s *swap) makeRoom(name string) error {
	parts := strings.Split(name, "/")
	for i := range parts {
		at := strings.Join(parts[:i+1], "/")
		info, err := s.root.Lstat(at)
		last := i == len(parts)-1
		if gone(err) {
			break
		}
		if err != nil {
			return td.Errorf(td.Storage, "change worktree: %w", err)
		}
		if last && info.Mode().IsRegular() || !last && info.IsDir() {
			continue
		}
		aside := conflictPath(at, "local", func(p string) bool { _, err := s.root.Lstat(p); return !gone(err) })
		if err := s.root.Rename(at, aside); err != nil {
			return td.Errorf(td.Storage, "change worktree: %w", err)
		}
		s.conflicts = append(s.conflicts, aside)
		break
	}
	if err := s.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return td.Errorf(td.Storage, "change worktree: %w", err)
	}
	return nil
}

// replace writes a file beside its place, makes it last, and moves it there.
func replace(root *os.Root, name string, content []byte, perm fs.FileMode) error {
	dir := path.Dir(name)
	temp := path.Join(dir, ".taskdaemon-graph"+unfinished)
	if err := root.Remove(temp); err != nil && !gone(err) { // left by a crash
		return err
	}
	f, err := root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = root.Remove(temp)
		return err
	}
	fpGraphSwap.Hit()
	if err := root.Rename(temp, name); err != nil {
		return err
	}
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	_ = d.Close()
	return err
}
