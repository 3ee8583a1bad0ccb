package daemon

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/git"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/worktree"
)

var (
	fpTrunkMoved = failpoint.New("daemon.trunk.before_tell")
	fpTrunkTold  = failpoint.New("daemon.trunk.told")
)

// trunksEvery is how often trunks are looked at without being told that they moved, and trunksRest how long a change is
// left to settle: one commit changes several files.
const (
	trunksEvery = 30 * time.Second
	trunksRest  = 200 * time.Millisecond
)

// trunks watches the branches that tasks in worktrees work for (K-3). Tasks that fall behind are told to bring their branch
// onto what is new; a trunk that is deleted or loses history pauses them all.
type trunks struct {
	*Daemon
	poke    chan struct{}
	landing *landing
	// looking is held from when it is known who works for a trunk until they are told: whoever comes to work for it meanwhile has seen it as it is.
	looking chan struct{}

	mu     sync.Mutex
	worked map[string]map[trunk]bool // the trunks that runs which are open have had tasks for
}

// trunk is a branch of a repository.
type trunk struct{ repo, branch string }

// seenRef is where a repository keeps where its trunk was when it was last looked at. It also keeps what a trunk that lost history
// had.
func (t trunk) seenRef() string { return worktree.SeenRef(t.branch) }
func (t trunk) ref() string     { return "refs/heads/" + t.branch }

func newTrunks(d *Daemon) *trunks {
	return &trunks{Daemon: d, poke: make(chan struct{}, 1), landing: newLanding(d), looking: make(chan struct{}, 1), worked: map[string]map[trunk]bool{}}
}

// begun has all trunks looked at if a task that was started, or taken up again, works for one: it may be a trunk that nobody has looked at yet.
func (w *trunks) begun(t td.Task) {
	if t.Worktree == nil {
		return
	}
	w.landing.knows(t.Worktree.Repo)
	w.works(t)
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// run watches until ctx ends.
func (w *trunks) run(ctx context.Context) error {
	var (
		events <-chan fsnotify.Event
		errs   <-chan error
		watch  = func(string) {}
	)
	if changes, err := fsnotify.NewWatcher(); err != nil {
		w.o.Log.Warn("changes of files are not told of; trunks are looked at from time to time", "err", err)
	} else {
		defer func() { _ = changes.Close() }()
		events, errs = changes.Events, changes.Errors
		watch = func(dir string) { _ = changes.Add(dir) } // what is not there, or no folder, is looked at from time to time
	}
	return w.loop(ctx, events, errs, watch)
}

// loop looks at the trunks from time to time and when it is told to.
func (w *trunks) loop(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error, watch func(dir string)) error {
	if err := w.landing.begin(ctx); err != nil {
		return err
	}
	if err := w.recall(ctx); err != nil {
		return err
	}
	defer w.landing.wait()
	tick := time.NewTicker(trunksEvery)
	defer tick.Stop()
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-w.poke:
		case <-rest.C:
		case <-events:
			rest.Reset(trunksRest)
			continue
		case err := <-errs:
			w.o.Log.Warn("watch trunks", "err", err)
			continue
		}
		w.look(ctx, watch)
		w.land(ctx, watch)
	}
}

// catchUp looks at a trunk that no task works for, before one begins to: what became of it until then does not concern that task.
func (w *trunks) catchUp(ctx context.Context, t trunk) error {
	w.looking <- struct{}{}
	defer func() { <-w.looking }()
	live, err := w.live(ctx)
	if err != nil || len(live[t]) > 0 {
		return err
	}
	return w.compare(ctx, t, nil)
}

// live are the tasks that have not ended, by the trunk that they work for. Those of runs that are under way are among them without any.
func (w *trunks) live(ctx context.Context) (map[trunk][]td.Task, error) {
	tasks, err := w.journal.Tasks(ctx, store.TaskFilter{States: store.Live, Brief: true})
	if err != nil {
		return nil, fmt.Errorf("look for tasks in worktrees: %w", err)
	}
	out := map[trunk][]td.Task{}
	for _, t := range tasks {
		if t.Worktree != nil {
			at := trunk{t.Worktree.Repo, t.Worktree.Trunk}
			out[at] = append(out[at], t)
		}
	}
	open, err := w.journal.Runs(ctx, store.RunFilter{Open: true})
	if err != nil {
		return nil, fmt.Errorf("look for runs: %w", err)
	}
	for _, g := range open {
		for _, at := range w.trunksOf(g.Run) {
			out[at] = append(out[at], nil...) // also between two of its tasks
		}
	}
	return out, nil
}

// look looks at every trunk that tasks work for. One that cannot be looked at holds up no other.
func (w *trunks) look(ctx context.Context, watch func(dir string)) {
	w.looking <- struct{}{}
	defer func() { <-w.looking }()
	live, err := w.live(ctx)
	if err != nil {
		w.o.Log.Error("watch trunks", "err", err)
		return
	}
	for t, tasks := range live {
		for _, dir := range watched(t.repo, t.branch) {
			watch(dir)
		}
		if err := w.compare(ctx, t, tasks); err != nil && ctx.Err() == nil {
			w.o.Log.Warn("watch trunk", "repo", t.repo, "branch", t.branch, "err", err)
		}
	}
}

// land tries to update the trunks that lack merged work, and has their repositories watched: a commit, a stash or the end of a rebase may help.
func (w *trunks) land(ctx context.Context, watch func(dir string)) {
	w.landing.look(ctx, func(u td.Unlanded) {
		for _, dir := range watched(u.Repo, u.Trunk) {
			watch(dir)
		}
	})
}

// compare tells the tasks of a trunk what became of it since it was last seen. It is seen when all are told, so that a crash in
// between tells some again, which counts once.
func (w *trunks) compare(ctx context.Context, t trunk, tasks []td.Task) error {
	seen, err := w.trees.Git.RefAt(ctx, t.repo, t.seenRef())
	if err != nil {
		return err
	}
	now, err := w.trees.Git.RefAt(ctx, t.repo, t.ref())
	if err != nil || now == seen {
		return err
	}
	kept := seen == ""
	if !kept && now != "" {
		if kept, err = w.trees.Git.IsAncestor(ctx, t.repo, seen, now); err != nil {
			return err
		}
	}
	fpTrunkMoved.Hit()
	if !kept {
		if err := w.hold(ctx, t, whyLost(t.branch, seen, now)); err != nil { // before their tasks rest: a run without any would end
			return err
		}
	}
	for _, task := range tasks {
		if kept {
			err = w.behind(ctx, task, now)
		} else {
			err = w.lost(ctx, task, seen, now)
		}
		if err != nil {
			return fmt.Errorf("tell %s: %w", task.Handle, err)
		}
	}
	if kept && seen != "" {
		w.proclaim(ctx, t.repo, time.Now(), td.Letter{
			ID: "trunk/" + t.branch + "/" + now, Topic: td.TopicTrunk, Text: fmt.Sprintf("%s moved from %.12s to %.12s.", t.branch, seen, now),
		})
	}
	fpTrunkTold.Hit()
	if now == "" {
		return nil
	}
	return w.trees.Git.MoveRef(ctx, t.repo, t.seenRef(), now, seen)
}

// behind tells a task whose branch does not build on a commit to bring it there. One that has not begun begins there.
func (w *trunks) behind(ctx context.Context, task td.Task, now string) error {
	head, err := w.trees.Git.RefAt(ctx, task.Worktree.Repo, "refs/heads/"+task.Worktree.Branch)
	if err != nil || head == "" {
		return err
	}
	if has, err := w.trees.Git.IsAncestor(ctx, task.Worktree.Repo, now, head); err != nil || has {
		return err
	}
	return w.tell(ctx, task, td.Command{Key: fmt.Sprintf("rebase/%s/%d", now, task.Head), Type: td.CmdRebase, Text: now})
}

// since is what was merged since a task rested that a run takes up again, or what is new on the trunk, unless its branch builds on both: it may be just what the
// task waited for, which comes by way of the trunk if it was done for another feature.
func (w *trunks) since(ctx context.Context, t td.Worktree) (string, error) {
	head, err := w.stands(ctx, t)
	if err != nil {
		return "", err
	}
	for _, branch := range []string{t.Into, t.Trunk} {
		at, err := w.trees.Git.RefAt(ctx, t.Repo, "refs/heads/"+branch)
		if err != nil {
			return "", err
		}
		if at == "" {
			continue
		}
		if head == "" {
			return at, nil // it begins anew with that, unless a person brings it back as it was before the run has it
		}
		if has, err := w.trees.Git.IsAncestor(ctx, t.Repo, at, head); err != nil || !has {
			return at, err
		}
	}
	return "", nil
}

// stands is where the branch of a task is, or was when it was put away; empty: there is none.
func (w *trunks) stands(ctx context.Context, t td.Worktree) (string, error) {
	for _, ref := range []string{"refs/heads/" + t.Branch, git.KeptRef(filepath.Base(t.Path)), git.KeptBranch(t.Branch)} {
		if head, err := w.trees.Git.RefAt(ctx, t.Repo, ref); err != nil || head != "" {
			return head, err
		}
	}
	return "", nil
}

// lost stops a task whose trunk was deleted or lost history: nobody but a person knows what that means. When it goes on, its own work is brought
// onto what the trunk is then, without what was taken from that.
func (w *trunks) lost(ctx context.Context, task td.Task, seen, now string) error {
	if task.Status.State != td.Paused {
		if err := w.pause(ctx, task, seen, now); err != nil {
			return err
		}
	}
	if now == "" {
		return nil
	}
	head, err := w.trees.Git.RefAt(ctx, task.Worktree.Repo, "refs/heads/"+task.Worktree.Branch)
	if err != nil || head == "" {
		return err
	}
	return w.tell(ctx, task, td.Command{Key: fmt.Sprintf("rebase/%s/%s/%d", seen, now, task.Head), Type: td.CmdRebase, Text: now})
}

func (w *trunks) pause(ctx context.Context, task td.Task, seen, now string) error {
	why := whyLost(task.Worktree.Trunk, seen, now)
	w.o.Log.Warn("a trunk lost history, and a task is paused", "task", task.Handle, "why", why)
	return w.tell(ctx, task, td.Command{Key: fmt.Sprintf("trunk/%s/%s/%d", seen, now, task.Head), Type: td.CmdPause, Text: why, By: td.ByTrunk})
}

// whyLost says what became of a trunk.
func whyLost(branch, seen, now string) string {
	if now == "" {
		return fmt.Sprintf("%s was deleted; it was at %.12s", branch, seen)
	}
	return fmt.Sprintf("%s was moved from %.12s to %.12s, which does not build on it", branch, seen, now)
}

func (w *trunks) tell(ctx context.Context, task td.Task, cmd td.Command) error {
	cmd.At, cmd.By = time.Now().UTC().Round(0), cmp.Or(cmd.By, td.ByTaskdaemon)
	return w.post(ctx, task, cmd)
}
