package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// unpackLimit keeps every import a pack of its own. Against loose objects that is a third faster, as there
// are three files to sync and not six for each commit, and takes a thirtieth of the space.
const unpackLimit = 1

// What counts as tidy.
const (
	manyPacks = 30
	manyRefs  = 500
)

// Untidiness is how far the repository has grown beyond what Upkeep would leave: below 1 there is
// nothing to do.
func (r *Repo) Untidiness() float64 {
	packs, _ := filepath.Glob(filepath.Join(r.path, "objects/pack/*.pack"))
	refs, _ := os.ReadDir(filepath.Join(r.path, "refs/heads"))
	return max(float64(len(packs))/manyPacks, float64(len(refs))/manyRefs)
}

// Upkeep packs small packs and refs together. What it does grows with what is new, not
// with the whole repository. Nothing reachable or unreachable is dropped.
func (r *Repo) Upkeep(ctx context.Context) error {
	if _, err := r.run(ctx, true, "repack", "-d", "-l", "-q", "--geometric=2"); err != nil {
		return err
	}
	_, err := r.run(ctx, true, "pack-refs", "--all")
	return err
}

// Sweep removes what git processes that were killed left behind: locks, crash notes and half-written
// files. Only what has not been touched for age goes, so that a process that still lives is not robbed.
// It returns the names it removed. No git of this process may be writing to the repository.
func (r *Repo) Sweep(age time.Duration) ([]string, error) {
	var gone []string
	limit := time.Now().Add(-age)
	err := filepath.WalkDir(r.path, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if d.IsDir() || !leftover(d.Name()) {
			return nil
		}
		info, err := d.Info()
		if err != nil || info.ModTime().After(limit) {
			return nil
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		gone = append(gone, strings.TrimPrefix(path, r.path+string(filepath.Separator)))
		return nil
	})
	return gone, err
}

func leftover(name string) bool {
	return strings.HasSuffix(name, ".lock") || strings.HasPrefix(name, "fast_import_crash_") ||
		strings.HasPrefix(name, "tmp_") || strings.HasPrefix(name, ".tmp-")
}
