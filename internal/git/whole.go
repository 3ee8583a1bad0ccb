package git

import (
	"context"
	"regexp"

	"taskdaemon/internal/td"
)

// Whole fails unless everything that a commit refers to is in the repository: its history, and the files of each commit in that. What the refs known refer to
// is not looked at again; those that do not exist do not count. Conflict names an object that is missing: whoever has such a commit in a branch can neither
// push nor clone nor pack it.
func Whole(ctx context.Context, repo, commit string, known ...string) error {
	args := append([]string{"rev-list", "--objects", "--quiet", commit, "--ignore-missing", "--not"}, known...)
	_, err := run(ctx, call{dir: repo, args: args, env: []string{"GIT_NO_REPLACE_OBJECTS=1"}})
	if !td.IsKind(err, td.Corrupt) && !td.IsKind(err, td.Internal) {
		return err
	}
	if lacks := lacking.FindString(err.Error()); lacks != "" {
		return td.Errorf(td.Conflict, "the history of %.12s refers to the object %s, which is missing from the repository", commit, lacks)
	}
	return err
}

// lacking matches the object that git names when it cannot go on.
var lacking = regexp.MustCompile(`\b[0-9a-f]{40}(?:[0-9a-f]{24})?\b`)
