package git

import (
	"context"
	"slices"
	"strings"
)

const (
	recentCommits = "-5"
	maxRecent     = 50 // files
)

// Recent are the files of the checkout that dir is in that were changed lately: those that are not committed as they are, then those of the newest
// commits. A folder that is not under git has none.
func Recent(ctx context.Context, dir string) ([]string, error) {
	top, err := topOf(ctx, dir)
	if err != nil || top == "" {
		return nil, err
	}
	out, err := run(ctx, call{dir: dir, args: []string{"status", "--porcelain", "--no-renames", "--untracked-files=all", "-z", notInside}})
	if err != nil {
		return nil, err
	}
	var files []string
	add := func(path string) bool {
		if path != "" && !slices.Contains(files, path) {
			files = append(files, path)
		}
		return len(files) < maxRecent
	}
	for rec := range strings.SplitSeq(string(out), "\x00") {
		if len(rec) > 3 && !add(rec[3:]) { // two letters say how it differs
			return files, nil
		}
	}
	if _, err := run(ctx, call{dir: dir, args: []string{"rev-parse", "--verify", "--quiet", "HEAD"}}); err != nil {
		return files, nil // there is no commit
	}
	log, err := run(ctx, call{dir: dir, args: []string{"log", recentCommits, "--no-color", "--no-renames", "--name-only", "--format=", "-z"}})
	if err != nil {
		return files, err
	}
	for path := range strings.SplitSeq(string(log), "\x00") {
		if !add(path) {
			break
		}
	}
	return files, nil
}
