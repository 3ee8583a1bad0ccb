package git

import (
	"context"
	"slices"
	"strings"

	"taskdaemon/internal/td"
)

// Merged is what comes out when two commits are merged.
type Merged struct {
	Tree      string   // with conflicts, files in it hold both sides
	Conflicts []string // files that a person or an agent has to merge, sorted
}

// MergeTree merges two commits without a checkout: nothing but objects is written. Commands that settings name for merging are not
// run; their files are merged as text. Conflict when the two have no history in common.
func MergeTree(ctx context.Context, repo, ours, theirs string) (Merged, error) {
	return mergeTree(ctx, call{dir: repo, keep: true}, ours, theirs)
}

func mergeTree(ctx context.Context, c call, ours, theirs string) (Merged, error) {
	c.args = []string{"merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs}
	out, err := run(ctx, c)
	if err != nil && exitCode(err) != 1 {
		return Merged{}, err
	}
	m := parseMerge(string(out))
	if m.Tree == "" || (err != nil) != (len(m.Conflicts) > 0) {
		return Merged{}, td.Errorf(td.Internal, "merge %.12s and %.12s: git said %.100q", ours, theirs, out)
	}
	return m, nil
}

// parseMerge reads `git merge-tree --write-tree -z --name-only --no-messages`.
func parseMerge(out string) Merged {
	tree, rest, _ := strings.Cut(out, "\x00")
	m := Merged{Tree: tree}
	for f := range strings.SplitSeq(rest, "\x00") {
		if f != "" {
			m.Conflicts = append(m.Conflicts, f)
		}
	}
	slices.Sort(m.Conflicts)
	m.Conflicts = slices.Compact(m.Conflicts)
	return m
}
