package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

var (
	fpCheckoutFill   = failpoint.New("git.checkout.before_files")
	fpCheckoutRename = failpoint.New("git.checkout.before_rename")
	fpCheckoutDone   = failpoint.New("git.checkout.after_rename")
	fpCheckoutGone   = failpoint.New("git.checkout.removed")
)

// CheckoutBranch is the branch that a checkout made by Checkout is on.
const CheckoutBranch = "taskdaemon/checkout"

// Draft is the end of the name under which a checkout is made, beside its place.
const Draft = ".making"

// borrowers are the folders in which repositories of ours lie that borrow the objects of others.
var borrowers folders

type folders struct {
	mu   sync.Mutex
	list []string
}

func (f *folders) add(dir string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if dir = real(dir); !slices.Contains(f.list, dir) {
		f.list = append(f.list, dir)
	}
}

func (f *folders) have(path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.list, func(dir string) bool { return covers(path, dir) })
}

// CheckoutsIn says where the checkouts lie that were made by Checkout: they may go on borrowing objects. Nobody else may be able to make a
// repository there.
func CheckoutsIn(dir string) { borrowers.add(dir) }

// Checkout makes the folder into a checkout of exactly tree, which the checkout around dir must hold: tracked and
// untracked files, not ignored ones. Conflict when it holds something else by now.
//
// It is a repository of its own, with one commit of that tree on top of HEAD: it borrows the objects of the one it
// is made from, has copies of its branches and tags, and shares no ref, no setting and no hook with it, so that nothing done in it reaches the other.
// No filter runs: files are what the workspace has, large files of LFS included, but for line endings that git's
// attributes or settings make others. Repositories in the checkout, submodules among them, are empty folders.
//
// It is made beside its place and moved there whole, and is on disk by then: what stands at into is taken for one
// that was made before, and what a crash left half-made is made anew.
func Checkout(ctx context.Context, dir, tree, into string) error {
	return whole(into, func(at string) error { return fill(ctx, dir, tree, at) })
}

// CheckoutCommit is Checkout for a commit of the repository around dir, whatever its checkout holds.
func CheckoutCommit(ctx context.Context, dir, commit, into string) error {
	return whole(into, func(at string) error {
		w, err := openWork(ctx, dir)
		if err != nil {
			return err
		}
		defer w.close()
		if err := found(ctx, w, at); err != nil {
			return err
		}
		return reset(ctx, at, commit)
	})
}

// Altered are the files of a commit that are not as they were any more in a checkout that was made of it. New ones do not count.
func Altered(ctx context.Context, at, commit string) ([]string, error) {
	committed, err := Changed(ctx, at, commit, "HEAD")
	if err != nil {
		return nil, err
	}
	out, err := run(ctx, call{dir: at, args: []string{"status", "--porcelain=v1", "--untracked-files=no", "--no-renames", "-z", notInside}})
	if err != nil {
		return nil, err
	}
	changed, err := parseUncommitted(string(out))
	return append(committed, changed...), err
}

// whole makes a folder beside its place and moves it there when it is whole.
func whole(into string, fill func(at string) error) error {
	CheckoutsIn(filepath.Dir(into))
	switch _, err := os.Lstat(into); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return td.Errorf(td.Storage, "look for the checkout: %w", err)
	}
	making := into + Draft
	if err := disk.RemoveAll(making); err != nil {
		return td.Errorf(td.Storage, "clear half-made checkout: %w", err)
	}
	if err := os.MkdirAll(making, 0o700); err != nil {
		return td.Errorf(td.Storage, "make checkout: %w", err)
	}
	if err := fill(making); err != nil {
		return errors.Join(err, disk.RemoveAll(making))
	}
	if err := syncDisk(making); err != nil {
		return td.Errorf(td.Storage, "make checkout: %w", err)
	}
	fpCheckoutRename.Hit()
	if err := os.Rename(making, into); err != nil {
		return td.Errorf(td.Storage, "make checkout: %w", err)
	}
	fpCheckoutDone.Hit()
	if err := syncPath(filepath.Dir(into)); err != nil {
		return td.Errorf(td.Storage, "make checkout: %w", err)
	}
	return nil
}

// RemoveCheckout removes what Checkout made, or began to make. It is no error if there is nothing.
func RemoveCheckout(into string) error {
	for _, path := range []string{into + Draft, into} {
		if err := disk.RemoveAll(path); err != nil {
			return td.Errorf(td.Storage, "remove checkout: %w", err)
		}
	}
	fpCheckoutGone.Hit()
	return nil
}

// fill makes the repository in the empty folder at, and its files.
func fill(ctx context.Context, dir, tree, at string) error {
	w, err := openWork(ctx, dir)
	if err != nil {
		return err
	}
	defer w.close()
	if err := found(ctx, w, at); err != nil {
		return err
	}
	lent, objects := filepath.Join(w.common, "objects"), filepath.Join(at, ".git", "objects")
	w.env = append(w.env, "GIT_OBJECT_DIRECTORY="+objects, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+gitfile.QuoteAlternate(lent))
	switch holds, err := w.writeTree(ctx, false); {
	case err != nil:
		return err
	case holds != tree:
		return td.Errorf(td.Conflict, "%s holds the tree %s by now, not %s", w.top, holds, tree)
	}
	head, err := resolve(ctx, w.top, "HEAD^{commit}")
	if err != nil {
		return err
	}
	commit := []string{"commit-tree", "--no-gpg-sign", tree, "-m", "The workspace as it stands"}
	if head != "" {
		commit = append(commit, "-p", head)
	}
	made, err := line(ctx, call{dir: at, own: true, args: commit})
	if err != nil {
		return err
	}
	return reset(ctx, at, made)
}

// found makes an empty repository in the folder at, which borrows the objects of the one that w is a checkout of.
func found(ctx context.Context, w *work, at string) error {
	format, err := line(ctx, call{dir: w.top, args: []string{"rev-parse", "--show-object-format"}})
	if err != nil {
		return err
	}
	if _, err := run(ctx, call{dir: at, own: true, args: []string{
		"init", "--quiet", "--template=", "--object-format=" + format, "--initial-branch=" + CheckoutBranch, ".",
	}}); err != nil {
		return err
	}
	if err := borrow(w.common, filepath.Join(w.common, "objects"), at); err != nil {
		return td.Errorf(td.Storage, "make checkout: %w", err)
	}
	return copyRefs(ctx, w, at)
}

// copyRefs lets a validator in the repository at find the person's branches and tags: one compares with main, another asks which version this is.
func copyRefs(ctx context.Context, w *work, at string) error {
	refs, err := Refs(ctx, w.top, "refs/heads", "refs/remotes", "refs/tags")
	if err != nil {
		return err
	}
	list := []byte("# pack-refs with: sorted\n")
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		if !strings.HasPrefix(name+"/", "refs/heads/taskdaemon/") {
			list = fmt.Appendf(list, "%s %s\n", refs[name], name)
		}
	}
	if err := os.WriteFile(filepath.Join(at, ".git", "packed-refs"), list, 0o600); err != nil {
		return td.Errorf(td.Storage, "make checkout: %w", err)
	}
	return nil
}

// reset puts the files of a commit into the checkout.
func reset(ctx context.Context, at, commit string) error {
	fpCheckoutFill.Hit()
	_, err := run(ctx, call{dir: at, own: true, set: []string{"checkout.workers=0"}, args: []string{"reset", "--quiet", "--hard", commit}})
	return err
}

// mostShallow is how many bytes a list may have of the commits where a history is cut off: a line each.
const mostShallow = 64 << 20

// borrow lets the repository at have the objects of another, and end where that one's history is cut off.
func borrow(common, lent, at string) error {
	info := filepath.Join(at, ".git", "objects", "info")
	if err := os.MkdirAll(info, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(info, "alternates"), []byte(gitfile.QuoteAlternate(lent)+"\n"), 0o600); err != nil {
		return err
	}
	shallow, err := gitfile.Read(filepath.Join(common, "shallow"), mostShallow)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(at, ".git", "shallow"), shallow, 0o600)
}

// syncDisk makes all that was written to the disk that path is on last: one call for thousands of files.
func syncDisk(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}
