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
	own, err := commitsOf(ctx, repo, commit, not)
	if err != nil {
		return "", "", err
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

// Emptied finds a commit of a branch or tag of the person's in the history of a commit that lacks what it changed: one that is in none of the refs known. Merged so, git would
// take the person's work for merged, and delete its branch without a warning. of is the ref that has it, and lost is what is missing. Empty: there is none.
//
// A file may be lacking because it is as it was before; any may have been resolved or edited otherwise, but not all of them so that no line of the person's is left.
//
// Only where the task's own commits join the person's is looked at, so that the cost does not grow with the number of refs.
func Emptied(ctx context.Context, repo, commit, handle string, known ...string) (found, of string, lost []string, err error) {
	not := append([]string{"--not", BegunRefs + handle}, known...)
	own, err := commitsOf(ctx, repo, commit, not)
	if err != nil || len(own) == 0 {
		return "", "", nil, err
	}
	out, err := run(ctx, call{dir: repo, args: slices.Concat([]string{"rev-list", "--boundary", commit, "--ignore-missing"}, not, personsRefs)})
	if err != nil {
		return "", "", nil, err
	}
	looked := 0
	for rec := range strings.Lines(string(out)) {
		join, is := strings.CutPrefix(strings.TrimSpace(rec), "-")
		if !is || !own[join] {
			continue
		}
		if looked++; looked > mostKept {
			of, err = personsRefOf(ctx, repo, join)
			return join, of, nil, err
		}
		from, err := forkPoint(ctx, repo, join, append([]string{BegunRefs + handle}, known...))
		if err != nil {
			return "", "", nil, err
		}
		became, err := compareChanges(ctx, repo, from, join, commit)
		if err != nil {
			return "", "", nil, err
		}
		if lost = became.undone; !became.kept {
			lost = became.gone()
		}
		if len(lost) > 0 {
			of, err = personsRefOf(ctx, repo, join)
			return join, of, lost, err
		}
	}
	return "", "", nil, nil
}

// commitsOf are the commits in the history of one that others do not have.
func commitsOf(ctx context.Context, repo, commit string, not []string) (map[string]bool, error) {
	out, err := run(ctx, call{dir: repo, args: append([]string{"rev-list", commit, "--ignore-missing"}, not...)})
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	for id := range strings.Lines(string(out)) {
		own[strings.TrimSpace(id)] = true
	}
	return own, nil
}

// forkPoint is where the history of a commit leaves that of some refs; the empty tree if they have nothing in common.
func forkPoint(ctx context.Context, repo, commit string, refs []string) (string, error) {
	args := []string{"merge-base", commit}
	for _, ref := range refs {
		at, err := RefAt(ctx, repo, ref)
		if err != nil {
			return "", err
		}
		if at != "" {
			args = append(args, at)
		}
	}
	if len(args) > 2 {
		at, err := line(ctx, call{dir: repo, args: args})
		if exitCode(err) != 1 {
			return at, err
		}
	}
	return line(ctx, call{dir: repo, args: []string{"hash-object", "-t", "tree", "--stdin"}, stdin: strings.NewReader("")})
}

// personsRefOf is the short name of a ref of the person's that has a commit.
func personsRefOf(ctx context.Context, repo, commit string) (string, error) {
	out, err := run(ctx, call{dir: repo, args: []string{"for-each-ref", "--format=%(refname:short)", "--contains=" + commit, "refs/heads/", "refs/remotes/", "refs/tags/"}})
	if err != nil {
		return "", err
	}
	for name := range strings.Lines(string(out)) {
		if name = strings.TrimSpace(name); name != "" && !strings.HasPrefix(name, ours) {
			return name, nil
		}
	}
	return "another branch", nil // it was deleted meanwhile
}
