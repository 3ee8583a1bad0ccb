package git

import (
	"context"
	"strings"

	"taskdaemon/internal/td"
)

// Uncommitted are the files of the checkout around dir that differ from the last commit, untracked ones with them, by their path
// from its root. tracked is false where there is no checkout.
func Uncommitted(ctx context.Context, dir string) (files []string, tracked bool, err error) {
	top, err := topOf(ctx, dir)
	if err != nil || top == "" {
		return nil, false, err
	}
	out, err := run(ctx, call{dir: top, args: []string{"status", "--porcelain=v1", "--untracked-files=all", "-z", notInside}})
	if err != nil {
		return nil, false, err
	}
	files, err = parseUncommitted(string(out))
	return files, true, err
}

// Ahead are the files that the commits of the checkout around dir changed since they left a branch.
func Ahead(ctx context.Context, dir, branch string) ([]string, error) {
	base, err := line(ctx, call{dir: dir, args: []string{"merge-base", "HEAD", "refs/heads/" + branch}})
	if err != nil {
		return nil, err
	}
	return Changed(ctx, dir, base, "HEAD")
}

// parseUncommitted reads `git status --porcelain=v1 -z`: two letters, a space and a path; behind a path that was moved or
// copied stands the one that it was.
func parseUncommitted(out string) (files []string, err error) {
	was := false
	for rec := range strings.SplitSeq(out, "\x00") {
		switch {
		case was, rec == "":
			was = false
			continue
		case len(rec) < 4 || rec[2] != ' ':
			return nil, td.Errorf(td.Internal, "read the status of git: %.80q is no record", rec)
		}
		was = strings.ContainsAny(rec[:2], "RC")
		files = append(files, rec[3:])
	}
	return files, nil
}
