package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"taskdaemon/internal/config"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// clearEvery is how often worktrees are looked at that could not be removed, and clearSoon how soon after a
// task has completed: its run may still be letting go.
const (
	clearEvery = 30 * time.Second
	clearSoon  = 100 * time.Millisecond
)

// clearing removes the worktrees of tasks that are completed and whose work is merged, with proof that nothing is lost (G-6), and where
// worktree.failed says so those of tasks that ended otherwise. All others stay, until their task completes or a person removes them.
type clearing struct {
	*Daemon
	mu      sync.Mutex
	pending map[td.TaskID]string // tasks whose worktree is to go and may still be there, and why it is
	poke    chan struct{}
}

func newClearing(d *Daemon) *clearing {
	return &clearing{Daemon: d, pending: map[td.TaskID]string{}, poke: make(chan struct{}, 1)}
}

// run removes worktrees until ctx ends.
func (c *clearing) run(ctx context.Context) error {
	if err := c.settleRemovals(ctx); err != nil {
		return err
	}
	from, err := c.journal.Last(ctx)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { c.follow(ctx, from) })
	done, err := c.journal.Tasks(ctx, store.TaskFilter{States: []td.State{td.Completed, td.Failed, td.Cancelled, td.Abandoned}, Brief: true})
	if err != nil {
		return err
	}
	for _, t := range done {
		if c.clears(t) {
			c.add(t.ID)
		}
	}
	wait := time.NewTimer(0)
	defer wait.Stop()
	soon := clearSoon
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.poke:
			soon = clearSoon
		case <-wait.C:
		}
		if c.sweep(ctx) {
			soon = min(2*soon, clearEvery)
		} else {
			soon = clearEvery
		}
		wait.Reset(soon)
	}
}

// clears reports whether the worktree of a task goes by itself.
func (d *Daemon) clears(t td.Task) bool {
	switch {
	case t.Worktree == nil:
		return false
	case t.Status.State == td.Completed:
		return true
	}
	return t.Status.State.Terminal() && d.worktrees(t.Home()).Failed == config.FailedRemove
}

// follow notes the tasks that end.
func (c *clearing) follow(ctx context.Context, from uint64) {
	for ev, err := range c.journal.Follow(ctx, store.EventFilter{Types: []td.EventType{td.Moved{}.Type()}}, from) {
		if err != nil {
			if ctx.Err() == nil {
				c.o.Log.Warn("worktrees of tasks that ended are removed after the next start", "err", err)
			}
			return
		}
		m, is := ev.Body.(td.Moved)
		if !is || !m.Status.State.Terminal() {
			continue
		}
		if t, err := c.journal.Task(ctx, ev.Task); m.Status.State == td.Completed || err == nil && c.clears(t) {
			c.add(ev.Task)
		}
	}
}

func (c *clearing) add(id td.TaskID) {
	c.mu.Lock()
	c.pending[id] = ""
	c.mu.Unlock()
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

// sweep goes through those that may still have a worktree, and reports whether one is only busy.
func (c *clearing) sweep(ctx context.Context) (busy bool) {
	c.mu.Lock()
	ids := make([]td.TaskID, 0, len(c.pending))
	for id := range c.pending {
		ids = append(ids, id)
	}
	c.mu.Unlock()
	branches := map[string]map[string]bool{}
	for _, id := range ids {
		if ctx.Err() != nil {
			return false
		}
		t, err := c.journal.Task(ctx, id)
		if err != nil || !c.clears(t) {
			c.forget(id)
			continue
		}
		has, known := branches[t.Worktree.Repo]
		if !known {
			has = c.branches(ctx, t.Worktree.Repo)
			branches[t.Worktree.Repo] = has
		}
		if _, err := os.Lstat(t.Worktree.Path); errors.Is(err, fs.ErrNotExist) && !has[t.Worktree.Branch] {
			c.forget(id) // it is gone, or the repository is
			continue
		}
		if err := c.clear(ctx, t); err != nil && ctx.Err() == nil {
			c.stays(t, err)
			busy = busy || td.IsKind(err, td.Conflict) || td.IsKind(err, td.Locked)
		}
	}
	return busy
}

// branches are those of runs in a repository; none if it cannot be asked.
func (c *clearing) branches(ctx context.Context, repo string) map[string]bool {
	if err := c.trees.Git.Tidy(ctx, repo); err != nil { // what a crash left of those that were being removed
		c.o.Log.Debug("tidy worktrees", "repo", repo, "err", err)
	}
	has := map[string]bool{}
	all, err := c.trees.Git.RunBranches(ctx, repo)
	if err != nil {
		c.o.Log.Debug("look for branches of tasks", "repo", repo, "err", err)
	}
	for _, b := range all {
		has[b.Name] = true
	}
	return has
}

// clear removes the worktree of a task whose work is merged, or that changed nothing, or that did not complete.
func (c *clearing) clear(ctx context.Context, t td.Task) error {
	w := *t.Worktree
	if t.Status.State == td.Completed && t.Offered != "" {
		if in, err := c.trees.In(ctx, w, t.Offered); err != nil {
			return err
		} else if !in {
			return td.Errorf(td.Refused, "its work is not in %s any more", w.Into)
		}
	}
	// What was begun is brought to its end, also when the daemon stops: a git that is killed leaves locks behind.
	kept, err := c.trees.Clear(context.WithoutCancel(ctx), w, false, func(ctx context.Context) error { return c.left(ctx, &t, w) })
	if err != nil {
		return err
	}
	c.forget(t.ID)
	c.o.Log.Info("worktree removed", "task", t.Handle, "path", w.Path, "kept", kept)
	return nil
}

func (c *clearing) forget(id td.TaskID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// stays says once why a worktree is not removed.
func (c *clearing) stays(t td.Task, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was, is := c.pending[t.ID]; is && was != why.Error() {
		c.pending[t.ID] = why.Error()
		c.o.Log.Info("a worktree stays", "task", t.Handle, "why", why)
	}
}
