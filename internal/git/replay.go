package git

import (
	"context"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/td"
)

// Replay makes commits of what head has and neither onto nor without, on top of onto, and says which is the last, or which files conflict. Only objects are written.
// A merge stays one, with what was decided in it. One with a commit of onto or without, a former tip of the trunk, keeps what its own side had beyond that.
func Replay(ctx context.Context, repo, head, onto, without string) (to string, conflicts []string, err error) {
	if onto, err = commitOf(ctx, repo, onto); err != nil {
		return "", nil, err
	}
	c := call{dir: repo, keep: true, env: identity(ctx, repo)}
	own, err := ownCommits(ctx, c, head, onto, without)
	if err != nil {
		return "", nil, err
	}
	return replayAll(ctx, c, repo, own, onto)
}

// ownCommits are what head has and neither onto nor without, parents first: each with its parents.
func ownCommits(ctx context.Context, c call, head, onto, without string) (own [][]string, err error) {
	c.args = []string{"rev-list", "--reverse", "--topo-order", "--parents", head, "^" + onto}
	if without != "" {
		c.args = append(c.args, "^"+without)
	}
	out, err := line(ctx, c)
	if err != nil || out == "" {
		return nil, err
	}
	for l := range strings.SplitSeq(out, "\n") {
		own = append(own, strings.Fields(l))
	}
	return own, nil
}

// replayAll makes commits anew on top of onto. Parents that are not among them become onto.
func replayAll(ctx context.Context, c call, repo string, own [][]string, onto string) (to string, conflicts []string, err error) {
	made := map[string]string{}
	to = onto
	for _, f := range own {
		id, parents := f[0], f[1:]
		if len(parents) == 0 {
			return "", nil, td.Errorf(td.Conflict, "%.12s and %.12s have no history in common", id, onto)
		}
		r := replay{commit: id, from: parents[0], merge: len(parents) > 1}
		if i := slices.IndexFunc(parents, func(p string) bool { return made[p] == "" }); i >= 0 {
			r.from = parents[i] // the rest is the branch's own, and all that it did since
		}
		r.at = onto
		if made[r.from] != "" {
			r.at = made[r.from]
		}
		for _, p := range parents {
			if n := made[p]; n != "" && n != onto && !slices.Contains(r.parents, n) {
				r.parents = append(r.parents, n)
			}
		}
		if len(r.parents) == 0 {
			r.parents = []string{onto}
		}
		if to, conflicts, err = r.make(ctx, c, repo); err != nil || len(conflicts) > 0 {
			return "", conflicts, err
		}
		made[id] = to
	}
	return to, nil, nil
}

// replay is a commit that is to be made anew.
type replay struct {
	commit  string
	from    string   // the parent that says what it did
	at      string   // where that is done again
	parents []string // of the new one
	merge   bool     // the old one is a merge
}

// make does on top of at what the commit did to its parent.
func (r replay) make(ctx context.Context, c call, repo string) (to string, conflicts []string, err error) {
	tree, err := treeOf(ctx, repo, r.at)
	if err != nil {
		return "", nil, err
	}
	// git merges two commits by what they have in common. This one has just the parent in common with the commit.
	c.args = []string{"commit-tree", "--no-gpg-sign", tree, "-p", r.from, "-m", "stand-in"}
	stand, err := line(ctx, c)
	if err != nil {
		return "", nil, err
	}
	m, err := mergeTree(ctx, c, stand, r.commit)
	if err != nil || len(m.Conflicts) > 0 {
		return "", m.Conflicts, err
	}
	if there, err := r.there(ctx, repo, m.Tree); err != nil || there {
		return r.parents[0], nil, err
	}
	c.args = []string{"cat-file", "commit", r.commit}
	raw, err := run(ctx, c)
	if err != nil {
		return "", nil, err
	}
	again, ok := recommit(string(raw), m.Tree, committer(identity(ctx, repo), time.Now()), r.parents...)
	if !ok {
		return "", nil, td.Errorf(td.Corrupt, "read commit %.12s: it is none", r.commit)
	}
	c.args, c.stdin = []string{"hash-object", "-t", "commit", "-w", "--stdin"}, strings.NewReader(again)
	to, err = line(ctx, c)
	return to, nil, err
}

// there reports whether all that the commit does is in its only new parent already. A commit that did nothing stays one.
func (r replay) there(ctx context.Context, repo, tree string) (bool, error) {
	if len(r.parents) != 1 {
		return false, nil
	}
	if has, err := treeOf(ctx, repo, r.parents[0]); err != nil || has != tree || r.merge {
		return has == tree, err
	}
	was, err := treeOf(ctx, repo, r.from)
	if err != nil {
		return false, err
	}
	did, err := treeOf(ctx, repo, r.commit)
	return was != did, err
}
