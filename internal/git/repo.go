package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var (
	fpOpenRename = failpoint.New("git.open.before_rename")
	fpOpenDone   = failpoint.New("git.open.after_rename")
)

// Repo is a bare repository of taskdaemon's own. One process at a time may write to it.
type Repo struct {
	path  string
	aside string // where OpenBare put what stood there
}

// opening holds one while a repository is opened: of two who find the same one broken, the second finds it mended.
var opening = make(chan struct{}, 1)

// OpenBare opens the bare repository at path and makes it first if it is not there. It is made beside its
// place and moved there whole, so a crash leaves either nothing or all of it. What stands at path and is
// no repository is moved aside, never removed. It is safe for concurrent use.
func OpenBare(ctx context.Context, path string) (*Repo, error) {
	select {
	case opening <- struct{}{}:
		defer func() { <-opening }()
	case <-ctx.Done():
		return nil, fmt.Errorf("open repository: %w", context.Cause(ctx))
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	r := &Repo{path: path}
	switch _, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return r, r.make(ctx)
	case err != nil:
		return nil, td.Errorf(td.Storage, "open repository: %w", err)
	}
	err = r.sound(ctx)
	if td.IsKind(err, td.NotFound) || td.IsKind(err, td.Internal) {
		err = r.mend(ctx)
	}
	if !td.IsKind(err, td.NotFound) {
		return r, err
	}
	r.aside = asideName(path)
	if err := os.Rename(path, r.aside); err != nil {
		return nil, td.Errorf(td.Storage, "move what is no repository aside: %w", err)
	}
	return r, r.make(ctx)
}

// Path is the repository's folder.
func (r *Repo) Path() string { return r.path }

// Aside is where what stood in its place was put when it was opened, because it was no repository; empty: nothing was.
func (r *Repo) Aside() string { return r.aside }

// sound fails with NotFound unless path itself, not some folder above it, is a repository.
func (r *Repo) sound(ctx context.Context) error {
	if st, err := os.Stat(r.path); err != nil || !st.IsDir() {
		return td.Errorf(td.NotFound, "%s is no folder", r.path)
	}
	_, err := r.run(ctx, false, "rev-parse", "--git-dir")
	return err
}

// mend gives a repository that has its objects but lost its small files new ones.
func (r *Repo) mend(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(r.path, "objects")); err != nil {
		return td.Errorf(td.NotFound, "%s holds no repository", r.path)
	}
	// git init keeps what it finds, so a HEAD that says nothing has to go first.
	if err := os.Remove(filepath.Join(r.path, "HEAD")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return td.Errorf(td.Storage, "mend repository: %w", err)
	}
	// The same goes for a config that git cannot read. It holds nothing but what git init writes.
	settings := filepath.Join(r.path, "config")
	if _, err := run(ctx, call{dir: filepath.Dir(r.path), own: true, args: []string{"config", "--file", settings, "--list"}}); td.IsKind(err, td.Internal) {
		if err := os.Remove(settings); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return td.Errorf(td.Storage, "mend repository: %w", err)
		}
	}
	// A git that was killed while it wrote one leaves its lock.
	if err := os.Remove(settings + ".lock"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return td.Errorf(td.Storage, "mend repository: %w", err)
	}
	if err := r.init(ctx, r.path); err != nil {
		return err
	}
	return r.sound(ctx)
}

func (r *Repo) init(ctx context.Context, at string) error {
	_, err := run(ctx, call{dir: at, own: true, keep: true, args: []string{
		"init", "--quiet", "--bare", "--template=", "--initial-branch=main", ".",
	}})
	return err
}

func (r *Repo) make(ctx context.Context) error {
	draft := r.path + ".making"
	if err := os.RemoveAll(draft); err != nil {
		return td.Errorf(td.Storage, "clear half-made repository: %w", err)
	}
	if err := os.MkdirAll(draft, 0o700); err != nil {
		return td.Errorf(td.Storage, "make repository: %w", err)
	}
	if err := r.init(ctx, draft); err != nil {
		return err
	}
	if err := syncTree(draft); err != nil {
		return td.Errorf(td.Storage, "make repository: %w", err)
	}
	fpOpenRename.Hit()
	if err := os.Rename(draft, r.path); err != nil {
		return td.Errorf(td.Storage, "make repository: %w", err)
	}
	fpOpenDone.Hit()
	if err := syncPath(filepath.Dir(r.path)); err != nil {
		return td.Errorf(td.Storage, "make repository: %w", err)
	}
	return nil
}

// run runs git in the repository, and in no other that may lie above it.
func (r *Repo) run(ctx context.Context, keep bool, args ...string) ([]byte, error) {
	return run(ctx, r.call(keep, args...))
}

func (r *Repo) call(keep bool, args ...string) call {
	return call{dir: r.path, own: true, keep: keep, env: []string{"GIT_DIR=" + r.path}, args: args}
}

// Tip is the commit ref points to, or empty when there is no such ref.
func (r *Repo) Tip(ctx context.Context, ref string) (string, error) {
	out, err := r.run(ctx, false, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	if err != nil && len(out) == 0 && td.IsKind(err, td.Internal) {
		return "", nil
	}
	return strings.TrimSpace(string(out)), err
}

// Branches are the tips of all branches by their full names.
func (r *Repo) Branches(ctx context.Context) (map[string]string, error) {
	out, err := r.run(ctx, false, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/")
	if err != nil {
		return nil, err
	}
	return parseTips(out), nil
}

func parseTips(out []byte) map[string]string {
	tips := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if tip, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			tips[name] = tip
		}
	}
	return tips
}

// Files are the names of all files in a folder of a commit, sorted.
func (r *Repo) Files(ctx context.Context, commit, dir string) ([]string, error) {
	out, err := r.run(ctx, false, "ls-tree", "-r", "-z", "--name-only", commit, "--", dir+"/")
	if err != nil {
		return nil, err
	}
	names := strings.FieldsFunc(string(out), func(c rune) bool { return c == 0 })
	slices.Sort(names)
	return names, nil
}

// Rename moves a ref to another name. A ref whose commit is lost has nothing to keep and goes.
func (r *Repo) Rename(ctx context.Context, from, to string) error {
	tip, err := r.Tip(ctx, from)
	if err != nil {
		return err
	}
	if tip != "" {
		if _, err := r.run(ctx, true, "update-ref", to, tip); err != nil {
			return err
		}
	}
	_, err = r.run(ctx, true, "update-ref", "-d", from)
	return err
}

// syncTree makes a new folder and all in it last.
func syncTree(root string) error {
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncPath(path)
	})
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
