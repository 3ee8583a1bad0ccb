package git

import (
	"context"
	"fmt"
	"strings"
	"time"

	"taskdaemon/internal/td"
)

// Rebased is how a rebase ended.
type Rebased struct {
	Head      string   // the branch's commit
	Conflicts []string // files that kept it from being rebased; nothing was changed then
}

// Rebase puts the branch's own commits on top of the commit onto: all that it has is in the branch then. The commits are made
// without a checkout, and the worktree goes from the old ones to the new only when all are there. So a conflict leaves it
// as it was, and a crash as it was or with files on their way, which the next call to the worktree brings to one end or the
// other. A branch that has merges of its own gets a merge with onto on top instead: what was decided in them is kept.
//
// What without has, a former tip of a trunk that was rewritten, is not the branch's own, and goes; empty: nothing does.
//
// Refused when there are changes that are not committed, or ignored files where onto has others; Conflict when the
// worktree is in the midst of something, or the two have no history in common.
func (w Worktree) Rebase(ctx context.Context, onto, without string) (Rebased, error) {
	p, err := w.open(ctx)
	if err != nil {
		return Rebased{}, err
	}
	if onto, err = commitOf(ctx, w.Repo, onto); err != nil {
		return Rebased{}, err
	}
	head, err := p.tip(ctx)
	if err != nil {
		return Rebased{}, err
	}
	switch in, err := IsAncestor(ctx, w.Repo, onto, head); {
	case err != nil:
		return Rebased{}, err
	case in && without == "":
		return Rebased{Head: head}, nil
	}
	if err := p.busy(td.Conflict); err != nil {
		return Rebased{}, err
	}
	switch changed, err := p.changes(ctx, true); {
	case err != nil:
		return Rebased{}, err
	case len(changed) > 0:
		return Rebased{}, td.Errorf(td.Refused, "%s has uncommitted changes: %s", w.Path, someOf(changed)).
			WithHint("%s", p.advice("git -C %s commit", w.Path))
	}
	to, conflicts, err := p.onto(ctx, head, onto, without)
	if err != nil {
		return Rebased{}, fmt.Errorf("rebase %s onto %.12s: %w", w.Branch, onto, err)
	}
	if len(conflicts) > 0 {
		return Rebased{Head: head, Conflicts: conflicts}, nil
	}
	if err := p.free(ctx, head, to); err != nil {
		return Rebased{}, err
	}
	if err := p.advance(ctx, head, to); err != nil {
		return Rebased{}, fmt.Errorf("rebase %s onto %.12s: %w", w.Branch, onto, err)
	}
	return Rebased{Head: to}, nil
}

// onto makes commits of what head has and neither onto nor without, on top of onto.
func (p *place) onto(ctx context.Context, head, onto, without string) (to string, conflicts []string, err error) {
	list := []string{"rev-list", "--reverse", "--topo-order", "--parents", head, "^" + onto}
	if without != "" {
		list = append(list, "^"+without)
	} else if common, err := MergeBase(ctx, p.repo, head, onto); err != nil {
		return "", nil, err
	} else if common == "" {
		return "", nil, td.Errorf(td.Conflict, "%.12s and %.12s have no history in common", head, onto)
	}
	out, err := p.line(ctx, list...)
	if err != nil {
		return "", nil, err
	}
	own := strings.Split(out, "\n")
	if out == "" {
		own = nil
	}
	for _, l := range own {
		if len(strings.Fields(l)) == 2 {
			continue
		}
		if without != "" {
			return "", nil, td.Errorf(td.Conflict, "the branch has merges, and commits that were taken from its trunk")
		}
		return p.mergeWith(ctx, head, onto)
	}
	to = onto
	for _, l := range own {
		f := strings.Fields(l)
		if to, conflicts, err = p.replay(ctx, f[0], f[1], to); err != nil || len(conflicts) > 0 {
			return "", conflicts, err
		}
	}
	return to, nil, nil
}

// mergeWith merges onto into head.
func (p *place) mergeWith(ctx context.Context, head, onto string) (to string, conflicts []string, err error) {
	m, err := mergeTree(ctx, p.call(true), head, onto)
	if err != nil || len(m.Conflicts) > 0 {
		return "", m.Conflicts, err
	}
	message := fmt.Sprintf("Merge %.12s into %s\n", onto, shortRef(p.ref))
	to, err = CommitTree(ctx, p.repo, m.Tree, message, head, onto)
	return to, nil, err
}

// replay does on top of at what a commit did to its parent.
func (p *place) replay(ctx context.Context, commit, parent, at string) (to string, conflicts []string, err error) {
	tree, err := treeOf(ctx, p.repo, at)
	if err != nil {
		return "", nil, err
	}
	// git merges two commits by what they have in common. This one has just the parent in common with the commit.
	stand, err := p.line(ctx, "commit-tree", "--no-gpg-sign", tree, "-p", parent, "-m", "stand-in")
	if err != nil {
		return "", nil, err
	}
	m, err := mergeTree(ctx, p.call(true), stand, commit)
	if err != nil || len(m.Conflicts) > 0 {
		return "", m.Conflicts, err
	}
	if m.Tree == tree {
		was, err := treeOf(ctx, p.repo, parent)
		if err != nil {
			return "", nil, err
		}
		did, err := treeOf(ctx, p.repo, commit)
		if err != nil {
			return "", nil, err
		}
		if was != did {
			return at, nil, nil // all it does is there already
		}
	}
	raw, err := p.run(ctx, "cat-file", "commit", commit)
	if err != nil {
		return "", nil, err
	}
	again, ok := recommit(string(raw), m.Tree, at, committer(identity(ctx, p.repo), time.Now()))
	if !ok {
		return "", nil, td.Errorf(td.Corrupt, "read commit %.12s: it is none", commit)
	}
	to, err = p.fed(ctx, again, "hash-object", "-t", "commit", "-w", "--stdin")
	return to, nil, err
}

// recommit is a commit with another tree, parent and committer. Author, encoding and message stay byte by byte; signatures
// would no longer hold, and go.
func recommit(raw, tree, parent, committer string) (string, bool) {
	head, message, ok := strings.Cut(raw, "\n\n")
	if !ok {
		return "", false
	}
	author, encoding := "", ""
	for l := range strings.SplitSeq(head, "\n") {
		switch {
		case strings.HasPrefix(l, "author ") && author == "":
			author = l + "\n"
		case strings.HasPrefix(l, "encoding "):
			encoding = l + "\n"
		}
	}
	return "tree " + tree + "\nparent " + parent + "\n" + author + "committer " + committer + "\n" + encoding + "\n" + message, author != ""
}

// committer is a line that names who made a commit, of the variables that would tell git.
func committer(identity []string, at time.Time) string {
	name, email := authorName, authorEmail
	for _, v := range identity {
		if n, is := strings.CutPrefix(v, "GIT_COMMITTER_NAME="); is {
			name = n
		}
		if e, is := strings.CutPrefix(v, "GIT_COMMITTER_EMAIL="); is {
			email = e
		}
	}
	plain := strings.NewReplacer("<", "", ">", "", "\n", " ")
	return fmt.Sprintf("%s <%s> %d +0000", plain.Replace(name), plain.Replace(email), at.Unix())
}
