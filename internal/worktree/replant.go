package worktree

import (
	"context"
	"fmt"
	"strings"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/git"
	"taskdaemon/internal/merge"
	"taskdaemon/internal/td"
)

var (
	fpReplantKept = failpoint.New("worktree.replant.kept")
	fpReplanted   = failpoint.New("worktree.replant.moved")
)

// Intos are the integration branches of a repository that a trunk follows.
func (t *Trees) Intos(ctx context.Context, repo, trunk string) ([]string, error) {
	refs, err := t.Git.Refs(ctx, repo, "refs/heads/"+git.IntoPrefix)
	if err != nil {
		return nil, err
	}
	var all []string
	for ref := range refs {
		if into := strings.TrimPrefix(ref, "refs/heads/"); git.TrunkFollowing(into) == trunk {
			all = append(all, into)
		}
	}
	return all, nil
}

// Stranded are those of some works that an integration branch has and its trunk, which was rewritten, never had. is reports whether there is anything of that kind on the branch.
func (t *Trees) Stranded(ctx context.Context, w td.Worktree, works []merge.Work) (own []merge.Work, is bool, err error) {
	into, trunk, had, err := t.stranded(ctx, w)
	if err != nil || had == "" {
		return nil, false, err
	}
	for _, one := range works {
		if in, err := t.Git.IsAncestor(ctx, w.Repo, one.Commit, into); err != nil {
			return nil, false, err
		} else if !in {
			continue
		}
		landed := false
		for _, at := range []string{had, trunk} {
			in, err := t.Git.IsAncestor(ctx, w.Repo, one.Commit, at)
			if err != nil {
				return nil, false, err
			}
			landed = landed || in
		}
		if !landed {
			own = append(own, one)
		}
	}
	return own, true, nil
}

// stranded is where an integration branch and its trunk are, and where they were last the same, if the trunk was rewritten and the branch has work that was never in it. had is empty
// if not.
func (t *Trees) stranded(ctx context.Context, w td.Worktree) (into, trunk, had string, err error) {
	if into, trunk, err = t.line(w).Heads(ctx); err != nil || into == "" || trunk == "" {
		return "", "", "", err
	}
	if had, err = t.Git.RefAt(ctx, w.Repo, sharedRef(w)); err != nil || into == had {
		return "", "", "", err
	}
	if is, err := taken(ctx, t.Git, w, had, into, trunk); err != nil || !is {
		return "", "", "", err
	}
	return into, trunk, had, nil
}

// Replant brings the work that an integration branch has, and its trunk never had, onto the trunk, which was rewritten. The checks of works have to pass there. What the branch was is
// kept. before is called ahead of any change. What keeps it from being done is returned.
func (t *Trees) Replant(ctx context.Context, w td.Worktree, works []merge.Work, check merge.Check, before func() error) (td.Obstacle, error) {
	into, trunk, had, err := t.stranded(ctx, w)
	if err != nil || had == "" {
		return td.Obstacle{}, err
	}
	if err := before(); err != nil {
		return td.Obstacle{}, err
	}
	if err := keepLost(ctx, t.Git, w, into); err != nil {
		return td.Obstacle{}, err
	}
	fpReplantKept.Hit()
	res, err := merge.Replant(ctx, t.line(w), had, works, check)
	byHand := td.Typed("git -C %s rebase --onto %s %s %s", w.Repo, w.Trunk, had[:min(len(had), 12)], w.Into)
	switch {
	case err != nil:
		return td.Obstacle{}, err
	case len(res.Conflicts) > 0:
		return td.Obstacle{Reason: fmt.Sprintf("it conflicts with %s in %s", w.Trunk, strings.Join(res.Conflicts, ", ")), Hint: byHand}, nil
	case res.Failed != "":
		return td.Obstacle{Reason: fmt.Sprintf("on %s, as it is now, the work does not pass: %s", w.Trunk, res.Failed), Hint: byHand}, nil
	}
	fpReplanted.Hit()
	return td.Obstacle{}, set(ctx, t.Git, w.Repo, sharedRef(w), trunk, had)
}

// resumeTrunk is what a person types to have work go onto a trunk that was rewritten.
func resumeTrunk(w td.Worktree) string {
	return td.Typed("taskdaemon resume --trunk %s -C %s", w.Trunk, w.Repo)
}
