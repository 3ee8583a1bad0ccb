package git

import (
	"context"
	"fmt"
	"slices"
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
// What without has, a former tip of a trunk that was rewritten, is not the branch's own, and goes; empty: nothing does. Then merges are made anew, as Replay does.
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
	if without == "" {
		common, err := MergeBase(ctx, p.repo, head, onto)
		if err != nil {
			return "", nil, err
		}
		if common == "" {
			return "", nil, td.Errorf(td.Conflict, "%.12s and %.12s have no history in common", head, onto)
		}
	}
	own, err := ownCommits(ctx, p.call(true), head, onto, without)
	if err != nil {
		return "", nil, err
	}
	if without == "" && slices.ContainsFunc(own, func(c []string) bool { return len(c) != 2 }) {
		return p.mergeWith(ctx, head, onto)
	}
	return replayAll(ctx, p.call(true), p.repo, own, onto)
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

// recommit is a commit with another tree, other parents and another committer. Author, encoding and message stay byte by byte; signatures
// would no longer hold, and go.
func recommit(raw, tree, committer string, parents ...string) (string, bool) {
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
	return "tree " + tree + "\nparent " + strings.Join(parents, "\nparent ") + "\n" + author + "committer " + committer + "\n" + encoding + "\n" + message, author != ""
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
