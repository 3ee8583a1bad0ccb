package git

import (
	"context"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/td"
)

// Pristine reports whether a fresh checkout of a tree would have the same files as the checkout around dir: what a validator finds here, it finds there.
// It would not where something lies here that git ignores or keeps nothing of (caches, empty folders, repositories), nor where git writes files otherwise than it reads
// them. Every file is read: one that is written through a mapping changes without a new time, so that what is known of it proves nothing.
func Pristine(ctx context.Context, dir, tree string) (bool, error) {
	w, err := openWork(ctx, dir)
	if err != nil {
		return false, err
	}
	defer w.close()
	w.env = []string{"GIT_INDEX_FILE=" + filepath.Join(w.temp, "read")}
	if err := w.leaveNothing(); err != nil {
		return false, err
	}
	if read, err := w.writeTree(ctx, false); err != nil || read != tree {
		return false, err
	}
	raw, err := run(ctx, call{dir: w.top, env: w.env, set: placeSettings, args: []string{"ls-files", "-z", "--cached"}})
	if err != nil {
		return false, err
	}
	if all, err := w.onlyHas(string(raw)); err != nil || !all {
		return false, err
	}
	return w.unconverted(ctx, string(raw))
}

// onlyHas reports whether nothing lies in the checkout but the files of a list, and the folders that they are in.
func (w *work) onlyHas(names string) (bool, error) {
	known := map[string]bool{".": true}
	for name := range strings.SplitSeq(names, "\x00") {
		known[name] = true
		for up := path.Dir(name); !known[up]; up = path.Dir(up) {
			known[up] = true
		}
	}
	only := true
	err := filepath.WalkDir(w.top, func(at string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(w.top, at)
		switch {
		case err != nil:
			return err
		case name == ".git" && e.IsDir():
			return fs.SkipDir
		case name == ".git", known[filepath.ToSlash(name)] && (e.IsDir() || e.Type()&^fs.ModeSymlink == 0):
			return nil
		}
		only = false
		return fs.SkipAll
	})
	if err != nil {
		return false, td.Errorf(td.Storage, "look at the checkout: %w", err)
	}
	return only, nil
}

// harmless are the attributes that change no file of a checkout.
var harmless = []string{"diff", "merge", "binary", "delta", "whitespace", "conflict-marker-size", "export-ignore", "export-subst"}

// unconverted reports whether git writes files as it reads them.
func (w *work) unconverted(ctx context.Context, names string) (bool, error) {
	for _, key := range []string{"core.autocrlf", "core.eol"} {
		value, err := line(ctx, call{dir: w.top, set: placeSettings, args: []string{"config", "--default", "", "--get", key}})
		if err != nil || value != "" && value != "false" {
			return false, err
		}
	}
	raw, err := run(ctx, call{dir: w.top, env: w.env, set: placeSettings, stdin: strings.NewReader(names), args: []string{"check-attr", "-z", "--stdin", "--all"}})
	if err != nil {
		return false, err
	}
	for fields := range slices.Chunk(strings.Split(string(raw), "\x00"), 3) {
		if len(fields) < 3 {
			break
		}
		name, value := fields[1], fields[2]
		off := value == "unset" && (name == "text" || name == "crlf")
		if !off && !slices.Contains(harmless, name) && !strings.HasPrefix(name, "linguist-") {
			return false, nil
		}
	}
	return true, nil
}
