package worktree

import (
	"context"
	"sync"

	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

// attempts are the last attempts to update trunks, by integration branch. A task and the daemon may try at the same time: the one that began last has seen the newest of both branches, and
// its outcome counts, whichever ends last.
type attempts struct {
	mu    sync.Mutex
	begun uint64
	last  map[attempted]attempt
}

// attempted is an integration branch of a repository.
type attempted struct{ repo, into string }

// attempt is one that has ended.
type attempt struct {
	nth uint64 // in the order of their beginnings
	in  td.Obstacle
}

// try counts an attempt that begins. What it returns is called with what the attempt came to, which it passes on. An error is in the way, too, unless the attempt was broken off: that says
// nothing.
func (a *attempts) try(ctx context.Context, w td.Worktree) func(td.Obstacle, error) (td.Obstacle, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun++
	nth := a.begun
	return func(in td.Obstacle, err error) (td.Obstacle, error) {
		switch {
		case err == nil:
			a.ended(w, nth, in)
		case ctx.Err() == nil:
			a.ended(w, nth, td.ObstacleOf(err))
		}
		return in, err
	}
}

func (a *attempts) ended(w td.Worktree, nth uint64, in td.Obstacle) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		a.last = map[attempted]attempt{}
	}
	if at := (attempted{w.Repo, w.Into}); a.last[at].nth < nth {
		a.last[at] = attempt{nth, in}
	}
}

// obstacle is what was in the way at the last attempt; without a reason if nothing was, or nobody has tried yet.
func (a *attempts) obstacle(repo, into string) td.Obstacle {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last[attempted{repo, into}].in
}

// Hindered are the integration branches whose trunk could not be updated at the last attempt.
func (t *Trees) Hindered() (all []td.Worktree) {
	t.attempts.mu.Lock()
	defer t.attempts.mu.Unlock()
	for at, last := range t.attempts.last {
		if last.in.Reason != "" {
			all = append(all, td.Worktree{Repo: at.repo, Into: at.into, Trunk: git.TrunkFollowing(at.into)})
		}
	}
	return all
}
