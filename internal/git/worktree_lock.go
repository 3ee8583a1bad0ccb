package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

// Lock keeps the worktree from being removed, as `git worktree lock` does, and says why. One that is locked stays so, for the reason it
// was locked.
func (w Worktree) Lock(ctx context.Context, why string) error {
	file, err := w.lockFile(ctx)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(file); err == nil {
		return nil
	}
	if err := replaceFile(file, why+"\n"); err != nil {
		return td.Errorf(td.Storage, "lock worktree: %w", err)
	}
	return nil
}

// Locked is why the worktree was locked, if it is.
func (w Worktree) Locked(ctx context.Context) (why string, is bool, err error) {
	file, err := w.lockFile(ctx)
	if td.IsKind(err, td.NotFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	raw, err := gitfile.Read(file, mostState)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, td.Errorf(td.Storage, "read lock of worktree: %w", err)
	}
	return strings.TrimSpace(string(raw)), true, nil
}

// Unlock lets the worktree be removed again.
func (w Worktree) Unlock(ctx context.Context) error {
	file, err := w.lockFile(ctx)
	if err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return td.Errorf(td.Storage, "unlock worktree: %w", err)
	}
	return nil
}

func (w Worktree) lockFile(ctx context.Context) (string, error) {
	common, err := w.common()
	if err != nil {
		return "", err
	}
	switch cond, p, err := w.look(ctx, common); {
	case err != nil:
		return "", err
	case cond == Missing:
		return "", td.Errorf(td.NotFound, "the worktree %s is gone", w.Path)
	case p == nil:
		return "", w.foreign()
	default:
		return filepath.Join(p.git, "locked"), nil
	}
}
