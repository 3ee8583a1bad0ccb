package git

import (
	"context"
	"strings"

	"taskdaemon/internal/td"
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

// Difference is a file that two commits do not have alike.
type Difference struct {
	Path  string
	Added bool // the first commit has no such file
}

// Differing are the files of one name, in whatever folder, that differ between two commits in content or kind.
func Differing(ctx context.Context, repo, from, to, name string) ([]Difference, error) {
	out, err := run(ctx, call{dir: repo, args: []string{"diff-tree", "-r", "-z", "--raw", "--no-renames", "--end-of-options", from, to, "--", ":(top,glob)**/" + name}})
	if err != nil {
		return nil, err
	}
	raw, ok := parseRaw(string(out))
	if !ok {
		return nil, td.Errorf(td.Internal, "compare %s: git said %.100q", name, out)
	}
	var found []Difference
	for _, d := range raw {
		found = append(found, Difference{Path: d.path, Added: d.was == none})
	}
	return found, nil
}

// TreeOf is the tree of a commit.
func TreeOf(ctx context.Context, repo, commit string) (string, error) {
	return line(ctx, call{dir: repo, args: []string{"rev-parse", "--verify", "--end-of-options", commit + "^{tree}"}})
}
