package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var (
	fpGraphAside = failpoint.New("git.graph.before_aside")
	fpGraphBack  = failpoint.New("git.graph.before_back")
)

// asideMark is what the folder's name is continued with while the worktree takes its place.
const asideMark = ".aside"

// moveAside makes room for the worktree.
func (g *Graph) moveAside() error {
	files, err := os.ReadDir(g.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return td.Errorf(td.Storage, "move %s aside: %w", g.dir, err)
	}
	fpGraphAside.Hit()
	if len(files) == 1 && files[0].Name() == ".git" { // of a worktree that was never filled
		err = os.Remove(filepath.Join(g.dir, ".git"))
	} else if len(files) > 0 {
		err = os.Rename(g.dir, free(g.dir+asideMark))
	}
	if err == nil {
		err = syncPath(g.root)
	}
	if err != nil {
		return td.Errorf(td.Storage, "move %s aside: %w", g.dir, err)
	}
	return nil
}

// free is a name that nothing has, as close to this one as can be.
func free(name string) string {
	to := name
	for n := 2; ; n++ {
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			return to
		}
		to = fmt.Sprintf("%s-%d", name, n)
	}
}

// putBack moves what was in the folder before into the worktree.
func (g *Graph) putBack(ctx context.Context) (conflicts []string, err error) {
	all, err := os.ReadDir(g.root)
	if err != nil {
		return nil, td.Errorf(td.Storage, "put files back: %w", err)
	}
	in := &moveIn{Graph: g}
	for _, d := range all {
		if !d.IsDir() || !strings.HasPrefix(d.Name(), graphFolder+asideMark) {
			continue
		}
		from := filepath.Join(g.root, d.Name())
		if info, err := os.Lstat(filepath.Join(from, ".git")); err == nil && info.Mode().IsRegular() {
			if err := os.Remove(filepath.Join(from, ".git")); err != nil {
				return nil, td.Errorf(td.Storage, "put files back: %w", err)
			}
		}
		err := in.folder(ctx, from, "")
		if err != nil && td.KindOf(err) == td.Internal {
			err = &td.Error{Kind: td.Storage, Err: err}
		}
		if err != nil {
			return nil, fmt.Errorf("put files back: %w", err)
		}
	}
	return in.conflicts, nil
}

// moveIn moves files into the worktree, each at one instant, so that it is always in one of the two places.
type moveIn struct {
	*Graph
	conflicts []string
}

// folder moves what a folder holds into the worktree's folder of that name, and removes it when it is empty.
func (in *moveIn) folder(ctx context.Context, from, name string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, d := range files {
		if err := context.Cause(ctx); err != nil {
			return td.Errorf(td.Interrupted, "move files: %w", err)
		}
		fpGraphBack.Hit()
		if err := in.one(ctx, filepath.Join(from, d.Name()), path.Join(name, d.Name())); err != nil {
			return err
		}
	}
	if err := syncPath(filepath.Join(in.dir, name)); err != nil {
		return err
	}
	return os.Remove(from)
}

func (in *moveIn) one(ctx context.Context, from, name string) error {
	to := filepath.Join(in.dir, name)
	mine, err := os.Lstat(from)
	if err != nil {
		return err
	}
	theirs, err := os.Lstat(to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.Rename(from, to)
	case err != nil:
		return err
	case mine.IsDir() && theirs.IsDir():
		return in.folder(ctx, from, name)
	case !mine.Mode().IsRegular() || !theirs.Mode().IsRegular():
		return in.beside(from, name, "local")
	}
	here, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	there, err := os.ReadFile(to)
	if err != nil {
		return err
	}
	if !bytes.Equal(here, there) {
		if name != GraphFile || in.Merge == nil {
			id, err := in.nameOf(bytes.NewReader(here), int64(len(here)))
			if err != nil {
				return err
			}
			return in.beside(from, name, id)
		}
		whole, err := in.Merge(nil, there, here)
		if err != nil {
			return fmt.Errorf("merge %s: %w", name, err)
		}
		if err := replaceFile(to, string(whole)); err != nil {
			return err
		}
	}
	return os.Remove(from)
}

// beside moves a file to a name in the worktree that nothing has.
func (in *moveIn) beside(from, name, id string) error {
	name = conflictPath(name, id, func(p string) bool {
		_, err := os.Lstat(filepath.Join(in.dir, p))
		return !errors.Is(err, fs.ErrNotExist)
	})
	in.conflicts = append(in.conflicts, name)
	return os.Rename(from, filepath.Join(in.dir, name))
}
