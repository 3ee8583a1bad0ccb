package git

import (
	"context"
	"strings"
)

// Changed are the files that differ between two commits of a repository, in its order; a file that moved is there by both
// its names.
func Changed(ctx context.Context, repo, from, to string) ([]string, error) {
	out, err := run(ctx, call{dir: repo, args: []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", "--end-of-options", from, to}})
	if err != nil {
		return nil, err
	}
	var files []string
	for f := range strings.SplitSeq(string(out), "\x00") {
		if f != "" {
			files = append(files, f)
		}
	}
	return files, nil
}

// TreeOf is the tree of a commit.
func TreeOf(ctx context.Context, repo, commit string) (string, error) {
	return line(ctx, call{dir: repo, args: []string{"rev-parse", "--verify", "--end-of-options", commit + "^{tree}"}})
}
