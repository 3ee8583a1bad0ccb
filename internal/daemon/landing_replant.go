package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"taskdaemon/internal/merge"
	"taskdaemon/internal/td"
)

// replant brings merged work that a trunk never had onto that trunk, which was rewritten, and says what became of it. It fails if the work conflicts with the trunk or does not pass
// there: then nothing is changed.
func (l *landing) replant(ctx context.Context, at trunk) ([]td.Unlanded, error) {
	intos, err := l.trees.Intos(ctx, at.repo, at.branch)
	if err != nil {
		return nil, err
	}
	slices.Sort(intos)
	var all []td.Unlanded
	for _, into := range intos {
		u := td.Unlanded{Repo: at.repo, Trunk: at.branch, Into: into}
		switch is, err := l.replantOne(ctx, &u); {
		case err != nil:
			return nil, err
		case is:
			all = append(all, u)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	lacks, err := l.lookAt(ctx, at.repo)
	if err != nil {
		return nil, err
	}
	for i, u := range all {
		if n := slices.IndexFunc(lacks, func(lack td.Unlanded) bool { return lack.Into == u.Into }); n >= 0 {
			all[i].Obstacle = lacks[n].Obstacle
		} else if all[i].Obstacle, err = l.trees.LeftToPerson(ctx, td.Worktree{Repo: u.Repo, Into: u.Into, Trunk: u.Trunk}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// replantOne does so for one integration branch, and reports whether there was anything to do.
func (l *landing) replantOne(ctx context.Context, u *td.Unlanded) (bool, error) {
	l.slots <- struct{}{}
	defer func() { <-l.slots }()
	w := td.Worktree{Repo: u.Repo, Into: u.Into, Trunk: u.Trunk}
	by, err := l.inWorktrees(ctx)
	if err != nil {
		return false, err
	}
	var works []merge.Work
	for _, t := range by[u.Repo] {
		if t.Worktree.Into == u.Into && t.Offered != "" && t.Status.State == td.Completed {
			works = append(works, merge.Work{Task: t.ID, Handle: t.Handle, Title: t.Title, Commit: t.Offered, Check: t.Validator})
		}
	}
	works, is, err := l.trees.Stranded(ctx, w, works)
	if err != nil || !is {
		return false, err
	}
	for _, one := range works {
		u.Tasks = append(u.Tasks, one.Handle)
	}
	in, err := l.step(ctx, *u, fmt.Sprintf("%s brought onto %s", u.Into, u.Trunk), func(before func() error) (td.Obstacle, error) {
		return l.trees.Replant(ctx, w, works, l.check(*u), before)
	})
	if err == nil && in.Reason != "" {
		err = &td.Error{Kind: td.Conflict, Hint: in.Hint, Err: fmt.Errorf("the work of %s stays on %s: %s", strings.Join(u.Tasks, ", "), u.Into, in.Reason)}
	}
	return true, err
}
