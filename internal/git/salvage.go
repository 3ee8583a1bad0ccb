package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var (
	fpSalvageExchange = failpoint.New("git.salvage.before_exchange")
	fpSalvaged        = failpoint.New("git.salvage.after_exchange")
)

// asideName is the name under which what stood in a repository's place is kept.
func asideName(path string) string { return fmt.Sprintf("%s.broken-%d", path, time.Now().UnixNano()) }

// PutAside are the folders that were moved out of a repository's place because they did not hold together.
func PutAside(path string) []string {
	found, _ := filepath.Glob(path + ".broken-*") // it fails only for a bad pattern
	return found
}

// salvageBatch is how many refs are brought over at once. If one of them cannot be read, each goes by itself.
const salvageBatch = 64

// Salvage makes a repository that does not hold together anew, with all refs that can be read whole, and with the files of these names. What stood there is
// kept under the name aside; lost are the refs that are only there.
func (r *Repo) Salvage(ctx context.Context, files ...string) (aside string, lost []string, err error) {
	tips, err := r.refs(ctx)
	if err != nil {
		return "", nil, err
	}
	// The new one is made under the name that the old one will have, and then they change places: there is a repository at
	// any moment.
	aside = asideName(r.path)
	if err := os.Mkdir(aside, 0o700); err != nil {
		return "", nil, td.Errorf(td.Storage, "salvage repository: %w", err)
	}
	fresh := &Repo{path: aside}
	if err := fresh.init(ctx, aside); err != nil {
		return aside, nil, err
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(tips)), salvageBatch) {
		if r.bring(ctx, fresh, tips, some...) == nil {
			continue
		}
		for _, name := range some {
			if err := r.bring(ctx, fresh, tips, name); err != nil {
				if cause := context.Cause(ctx); cause != nil {
					return aside, nil, cause
				}
				if td.IsKind(err, td.Storage) {
					return aside, nil, err
				}
				lost = append(lost, name)
			}
		}
	}
	for _, name := range files {
		raw, err := os.ReadFile(filepath.Join(r.path, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(aside, name), raw, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return aside, nil, td.Errorf(td.Storage, "salvage repository: %w", err)
		}
	}
	if err := syncTree(aside); err != nil {
		return aside, nil, td.Errorf(td.Storage, "salvage repository: %w", err)
	}
	fpSalvageExchange.Hit()
	if err := unix.Renameat2(unix.AT_FDCWD, aside, unix.AT_FDCWD, r.path, unix.RENAME_EXCHANGE); err != nil {
		return aside, nil, td.Errorf(td.Storage, "salvage repository: %w", err)
	}
	fpSalvaged.Hit()
	return aside, lost, syncPath(filepath.Dir(r.path))
}

// refs are the tips of all refs by their full names.
func (r *Repo) refs(ctx context.Context) (map[string]string, error) {
	out, err := r.run(ctx, false, "for-each-ref", "--format=%(objectname) %(refname)")
	if err != nil {
		return nil, err
	}
	return parseTips(out), nil
}

// bring copies refs into another repository, with all that they lead to, or none of them.
func (r *Repo) bring(ctx context.Context, to *Repo, tips map[string]string, names ...string) error {
	var want, updates strings.Builder
	for _, name := range names {
		fmt.Fprintln(&want, tips[name])
		fmt.Fprintf(&updates, "create %s %s\n", name, tips[name])
	}
	c := r.call(false, "pack-objects", "--revs", "--stdout", "--quiet")
	c.stdin = strings.NewReader(want.String())
	pack, err := run(ctx, c)
	if err != nil {
		return err
	}
	c = to.call(true, "index-pack", "--stdin", "--strict")
	c.stdin = bytes.NewReader(pack)
	if _, err := run(ctx, c); err != nil {
		return err
	}
	c = to.call(true, "update-ref", "--stdin")
	c.stdin = strings.NewReader(updates.String())
	_, err = run(ctx, c)
	return err
}
