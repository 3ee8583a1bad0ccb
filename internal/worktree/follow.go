package worktree

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"taskdaemon/internal/config"
	"taskdaemon/internal/git"
	"taskdaemon/internal/merge"
	"taskdaemon/internal/td"
)

// Asks reports whether the trunk is to follow only if a person agrees: where they want to be asked, or where their own commits there go
// through something that ours lack, which is named. A trunk that has nothing to follow is not asked about.
func (t *Trees) Asks(ctx context.Context, w td.Worktree) (wanted bool, lacks string, err error) {
	set := t.Config(w.Repo).Trunk
	if set == config.TrunkBranch {
		return false, "", nil
	}
	into, trunk, err := t.line(w).Heads(ctx)
	if err != nil || into == "" || trunk == "" {
		return false, "", err
	}
	if in, err := t.Git.IsAncestor(ctx, w.Repo, into, trunk); err != nil || in {
		return false, "", err
	}
	demands, err := t.Git.DemandsOf(ctx, w.Repo)
	return set == config.TrunkAsk, lacking(demands), err
}

// lacking says what commits of ours lack.
func lacking(d git.Demands) string {
	var all []string
	if len(d.Hooks) > 0 {
		all = append(all, "have not passed your git hooks ("+strings.Join(d.Hooks, ", ")+")")
	}
	if d.Signed {
		all = append(all, "are not signed, as your commit.gpgSign asks for")
	}
	return strings.Join(all, " and ")
}

// mostFollows bounds how often the trunk is caught up with that goes on meanwhile, or that another git of the person's is at, which is waited for.
const (
	mostFollows = 10
	followRest  = 200 * time.Millisecond
)

// Follow updates the trunk to the integration branch, if the config wants that and nothing of the person's is touched. If the trunk has new commits, they are merged in
// first and the check of own has to pass. What keeps the trunk from being updated is returned; unless the config wants it so, the work is recorded as unlanded.
func (t *Trees) Follow(ctx context.Context, w td.Worktree, own merge.Work, check merge.Check) (td.Obstacle, error) {
	if t.Config(w.Repo).Trunk == config.TrunkBranch {
		return t.LeftToPerson(ctx, w)
	}
	ended := t.attempts.try(ctx, w)
	in, err := t.land(ctx, w, []merge.Work{own}, check, nil)
	if td.IsKind(err, td.Conflict) || td.IsKind(err, td.Refused) {
		in, err = td.Obstacle{Reason: err.Error(), Hint: cmp.Or(td.HintOf(err), t.ByHand(ctx, w))}, nil
	}
	if err == nil && in.Reason != "" {
		err = t.markUnlanded(ctx, w, own.Handle)
	}
	return ended(in, err)
}

// NotFollowed records that an update of the trunk was broken off for good: whoever looks for what it lacks finds it.
func (t *Trees) NotFollowed(ctx context.Context, w td.Worktree, handle string) error {
	if t.Config(w.Repo).Trunk == config.TrunkBranch {
		return nil
	}
	_, _ = t.attempts.try(ctx, w)(t.notYet(ctx, w), nil)
	return t.markUnlanded(ctx, w, handle)
}

// LeftToPerson is Follow where a person merges everything.
func (t *Trees) LeftToPerson(ctx context.Context, w td.Worktree) (td.Obstacle, error) {
	into, trunk, err := t.line(w).Heads(ctx)
	if err != nil || into == "" {
		return td.Obstacle{}, err
	}
	if trunk != "" {
		if in, err := t.Git.IsAncestor(ctx, w.Repo, into, trunk); err != nil || in {
			return td.Obstacle{}, err
		}
	}
	return td.Obstacle{Reason: "your config leaves the merge to you", Hint: t.ByHand(ctx, w)}, nil
}

// land updates the trunk, and merges its new commits in as long as there are any.
func (t *Trees) land(ctx context.Context, w td.Worktree, works []merge.Work, check merge.Check, before func() error) (td.Obstacle, error) {
	for try := range mostFollows {
		in, again, err := t.follow(ctx, w, before)
		if td.IsKind(err, td.Locked) && try+1 < mostFollows {
			select {
			case <-time.After(followRest):
				continue
			case <-ctx.Done():
				return td.Obstacle{}, context.Cause(ctx)
			}
		}
		if err != nil || !again {
			return in, err
		}
		switch res, err := merge.CatchUp(ctx, t.line(w), works, check); {
		case err != nil:
			return td.Obstacle{}, err
		case len(res.Conflicts) > 0:
			return td.Obstacle{Reason: fmt.Sprintf("%s conflicts with %s in %s", w.Trunk, w.Into, strings.Join(res.Conflicts, ", ")), Hint: t.ByHand(ctx, w)}, nil
		case res.Failed != "":
			return td.Obstacle{Reason: fmt.Sprintf("merged with the new commits of %s, the work does not pass: %s", w.Trunk, res.Failed), Hint: t.ByHand(ctx, w)}, nil
		}
	}
	return td.Obstacle{Reason: fmt.Sprintf("%s got new commits during each of %d attempts", w.Trunk, mostFollows), Hint: t.ByHand(ctx, w)}, nil
}

// follow updates a trunk that is an ancestor of the integration branch; again is set if it is not.
func (t *Trees) follow(ctx context.Context, w td.Worktree, before func() error) (in td.Obstacle, again bool, err error) {
	g, err := t.glance(ctx, w)
	if err != nil {
		return td.Obstacle{}, false, err
	}
	into, trunk, err := line{g, w}.Heads(ctx)
	switch {
	case err != nil:
		return td.Obstacle{}, false, err
	case into == "" || into == trunk:
		return td.Obstacle{}, false, nil
	case trunk == "":
		return td.Obstacle{Reason: "the branch " + w.Trunk + " was deleted; the work is on " + w.Into}, false, nil
	}
	if in, err := g.IsAncestor(ctx, w.Repo, into, trunk); err != nil || in {
		return td.Obstacle{}, false, err
	}
	return t.advance(ctx, g, w, into, trunk, before)
}

// advance moves the trunk to a commit of the integration branch. before, if set, is called when nothing is in the way any more.
func (t *Trees) advance(ctx context.Context, g Git, w td.Worktree, to, trunk string, before func() error) (in td.Obstacle, again bool, err error) {
	had, err := g.RefAt(ctx, w.Repo, sharedRef(w))
	if err != nil {
		return td.Obstacle{}, false, err
	}
	if taken, err := taken(ctx, g, w, had, to, trunk); err != nil {
		return td.Obstacle{}, false, err
	} else if taken {
		return td.Obstacle{Reason: fmt.Sprintf("%s was rewritten; the work is on %s", w.Trunk, w.Into), Hint: resumeTrunk(w)}, false, nil
	}
	// A merge may have brought in newer commits of the trunk: they are the person's to take away, too.
	if had, err = share(ctx, g, w, to, trunk, had); err != nil {
		return td.Obstacle{}, false, err
	}
	if in, err := t.theirs(ctx, g, w); err != nil || in.Reason != "" {
		return in, false, err
	}
	defer t.hold(w.Repo + "\x00" + w.Trunk)() // a concurrent one would take this for one that a crash cut off
	switch err = g.FastForward(ctx, w.Repo, w.Trunk, to, before); {
	case td.IsKind(err, td.Refused):
		hint := td.HintOf(err)
		if hint == "" {
			hint = t.ByHand(ctx, w)
		}
		return td.Obstacle{Reason: err.Error(), Hint: hint}, false, nil
	case td.IsKind(err, td.Conflict):
		return td.Obstacle{}, true, nil
	case err != nil:
		return td.Obstacle{}, false, err
	}
	return td.Obstacle{}, false, set(ctx, g, w.Repo, sharedRef(w), to, had)
}

// theirs is what is in the way if the trunk's checkout is a place that the person's own programs read: what comes there is for them to see first.
func (t *Trees) theirs(ctx context.Context, g Git, w td.Worktree) (td.Obstacle, error) {
	if t.Theirs == nil {
		return td.Obstacle{}, nil
	}
	top, err := g.CheckoutOf(ctx, w.Repo, w.Trunk)
	if err != nil || top == "" {
		return td.Obstacle{}, err
	}
	why := t.Theirs(top)
	if why == "" {
		return td.Obstacle{}, nil
	}
	return td.Obstacle{
		Reason: fmt.Sprintf("no work lands by itself in %s: %s, and it could change what you run", top, why),
		Hint:   td.Typed("look at it: git -C %s diff %s %s; then %s", top, w.Trunk, w.Into, td.Words(td.MergeLine(top, w.Trunk, w.Into))),
	}, nil
}
