package git

import (
	"context"
	"slices"
	"strings"

	"taskdaemon/internal/td"
)

// Borrowed finds a commit of another task in the history of a commit: one that the other's branch has, and that is in none of the refs known. Whoever merges such
// a commit has git believe that the other's work is in, whatever became of its content. handle is the task whose commit it is. Empty: there is none.
//
// What the other's branch has by a merge may be anybody's. It counts unless it is on a branch of the person's, or the commit has what it changed: then nothing of it is lost.
//
// What a task was begun on, its ref of BegunRefs, is not its own: forks begin with commits of others.
func Borrowed(ctx context.Context, repo, commit, handle string, known ...string) (found, of string, err error) {
	not := append([]string{"--not", BegunRefs + handle}, known...)
	if found, of, err = borrowed(ctx, repo, commit, handle, not, "--first-parent"); err != nil || found != "" {
		return found, of, err
	}
	return borrowed(ctx, repo, commit, handle, append(not, personsRefs...), "--topo-order")
}

// mostKept is of how many commits it is looked whether their changes are there.
const mostKept = 100

// borrowed is Borrowed for the commits that other branches come to in one way: by themselves, or also by merges.
func borrowed(ctx context.Context, repo, commit, handle string, not []string, way string) (found, of string, err error) {
	out, err := run(ctx, call{dir: repo, args: append([]string{
		"log", "--no-color", "--format=%H%x09%S", "--ignore-missing", way, "--exclude=" + runRefs + handle, "--exclude=" + runRefs + handle + "/*", "--glob=" + runRefs + "*",
	}, not...)})
	if err != nil || len(out) == 0 {
		return "", "", err
	}
	mine, err := run(ctx, call{dir: repo, args: append([]string{"rev-list", commit, "--ignore-missing"}, not...)})
	if err != nil {
		return "", "", err
	}
	own := map[string]bool{}
	for id := range strings.Lines(string(mine)) {
		own[strings.TrimSpace(id)] = true
	}
	looked := 0
	for rec := range strings.Lines(string(out)) {
		id, ref, ok := strings.Cut(strings.TrimSpace(rec), "\t")
		if !ok {
			return "", "", td.Errorf(td.Internal, "look for commits of others: git said %.100q", rec)
		}
		if !own[id] {
			continue
		}
		other, _, _ := strings.Cut(strings.TrimPrefix(ref, runRefs), "/")
		begun, err := RefAt(ctx, repo, BegunRefs+other)
		if err != nil {
			return "", "", err
		}
		if begun != "" {
			if before, err := IsAncestor(ctx, repo, id, begun); err != nil {
				return "", "", err
			} else if before {
				continue
			}
		}
		if looked++; way != "--first-parent" && begun != "" && looked <= mostKept {
			if lost, err := Undone(ctx, repo, begun, id, commit); err != nil {
				return "", "", err
			} else if len(lost) == 0 {
				continue
			}
		}
		return id, other, nil
	}
	return "", "", nil
}

// Undone are the files that a later commit has as they were before the changes from one commit to another: a merge may have a commit as a parent and nothing of its content.
func Undone(ctx context.Context, repo, from, to, later string) ([]string, error) {
	between := func(a, b string) ([]difference, error) {
		out, err := run(ctx, call{dir: repo, args: []string{"diff-tree", "-r", "-z", "--raw", "--no-renames", "--end-of-options", a, b}})
		if err != nil {
			return nil, err
		}
		all, ok := parseRaw(string(out))
		if !ok {
			return nil, td.Errorf(td.Internal, "compare commits: git said %.100q", out)
		}
		return all, nil
	}
	did, err := between(from, to)
	if err != nil || len(did) == 0 {
		return nil, err
	}
	since, err := between(to, later)
	if err != nil {
		return nil, err
	}
	was := map[string]entry{}
	for _, d := range did {
		was[d.path] = d.was
	}
	var undone []string
	for _, d := range since {
		if old, is := was[d.path]; is && old == d.is {
			undone = append(undone, d.path)
		}
	}
	slices.Sort(undone)
	return undone, nil
}
