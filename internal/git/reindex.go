package git

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var fpReindex = failpoint.New("git.reindex.before_rename")

// Reindex makes the index of every pack anew whose own is missing or says something else than the pack, and reports how many. All that an index says stands in its
// pack, so nothing is lost with the old one. A pack that is damaged itself keeps the index it has.
func (r *Repo) Reindex(ctx context.Context) (made int, err error) {
	packs, err := filepath.Glob(filepath.Join(r.path, "objects", "pack", "pack-*.pack"))
	if err != nil {
		return 0, td.Errorf(td.Storage, "look for packs: %w", err)
	}
	// No object is in there: git would compare each with what a damaged index leads to.
	empty := filepath.Join(r.path, "objects", "tmp_index")
	defer os.RemoveAll(empty)
	if err := errors.Join(os.RemoveAll(empty), os.Mkdir(empty, 0o700)); err != nil {
		return 0, td.Errorf(td.Storage, "index packs: %w", err)
	}
	for _, pack := range packs {
		again, err := r.reindex(ctx, pack, empty)
		if err != nil {
			return made, err
		}
		if again {
			made++
		}
	}
	if made == 0 {
		return 0, nil
	}
	// These are made of the indexes, and git takes their word for what is in packs.
	for _, made := range []string{"pack/multi-pack-index", "info/commit-graph"} {
		if err := os.Remove(filepath.Join(r.path, "objects", made)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, td.Errorf(td.Storage, "index packs: %w", err)
		}
	}
	return made, nil
}

// reindex does it for one pack, by way of a folder of objects that is empty.
func (r *Repo) reindex(ctx context.Context, pack, empty string) (bool, error) {
	stem := strings.TrimSuffix(pack, ".pack")
	draft := filepath.Join(empty, filepath.Base(stem)+".idx")
	c := r.call(true, "index-pack", "-o", draft, pack)
	c.env = append(c.env, "GIT_OBJECT_DIRECTORY="+empty)
	_, err := run(ctx, c)
	if td.IsKind(err, td.Internal) || td.IsKind(err, td.Corrupt) {
		return false, nil // the pack is damaged, too
	}
	if err != nil {
		return false, err
	}
	right, err := os.ReadFile(draft)
	if err != nil {
		return false, td.Errorf(td.Storage, "index a pack: %w", err)
	}
	if found, err := os.ReadFile(stem + ".idx"); err == nil && bytes.Equal(found, right) {
		return false, nil
	}
	for _, made := range []string{".rev", ".bitmap"} {
		if err := os.Remove(stem + made); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, td.Errorf(td.Storage, "index a pack: %w", err)
		}
	}
	fpReindex.Hit()
	if err := os.Rename(draft, stem+".idx"); err != nil {
		return false, td.Errorf(td.Storage, "index a pack: %w", err)
	}
	return true, syncPath(filepath.Dir(pack))
}
