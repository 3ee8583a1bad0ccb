package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"taskdaemon/internal/engine"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/git"
	"taskdaemon/internal/merge"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

var (
	fpLandChecking = failpoint.New("daemon.landing.checking")
	fpLandIntended = failpoint.New("daemon.landing.intended")
	fpLanded       = failpoint.New("daemon.landing.before_record")
)

// checkLimit bounds a validator that is run on a trunk's new commits.
const checkLimit = 30 * time.Minute

// mostFailed bounds how many checks are remembered that did not pass.
const mostFailed = 100

// landing updates trunks with merged work that they lack (K-4): a task tries when it ends, and landing goes on trying whenever the repository changes.
type landing struct {
	*Daemon

	mu     sync.Mutex
	known  map[string]bool          // repositories that had tasks in worktrees
	lacks  map[string][]td.Unlanded // by repository, with what was in the way at the last attempt
	failed map[string]string        // what validators said, by what they depend on (checkKey): the same is not validated again
	using  map[string]bool          // the checkouts that validators run in
	again  map[string]bool          // the repositories that a worker is at, and whether it is to look once more
	at     sync.WaitGroup           // the workers

	// slots bounds how many repositories are looked at together. Who runs a validator, which may take long, has none meanwhile.
	slots chan struct{}
}

// mostLooks is how many.
const mostLooks = 4

func newLanding(d *Daemon) *landing {
	return &landing{
		Daemon: d, known: map[string]bool{}, lacks: map[string][]td.Unlanded{}, failed: map[string]string{}, using: map[string]bool{}, again: map[string]bool{},
		slots: make(chan struct{}, mostLooks),
	}
}

// begin learns which repositories had tasks, and what became of updates that a crash cut off.
func (l *landing) begin(ctx context.Context) error {
	by, err := l.inWorktrees(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	for repo := range by {
		l.known[repo] = true
	}
	l.mu.Unlock()
	cut, err := l.underWay(ctx, td.FollowStep)
	if err != nil {
		return err
	}
	for _, in := range cut {
		// Updating a trunk either happened or not, and is tried again: what is lacking is computed from the repository.
		err := l.own.append(ctx, td.StepEnded{Outcome: td.Outcome{Key: in.Key, Via: td.Probed, Tool: &td.ToolResult{Content: "cut off; what " + in.Name + " lacks is looked at anew"}}})
		if err != nil {
			return err
		}
	}
	return nil
}

// knows adds a repository to those that are looked at.
func (l *landing) knows(repo string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[repo] = true
}

// unlanded is what trunks lack: as of the last look, and where a task could not update its trunk since then, as of now.
func (l *landing) unlanded(ctx context.Context) []td.Unlanded {
	l.mu.Lock()
	lacks := maps.Clone(l.lacks)
	l.mu.Unlock()
	for _, w := range l.trees.Hindered() {
		if slices.ContainsFunc(lacks[w.Repo], func(u td.Unlanded) bool { return u.Into == w.Into }) {
			continue
		}
		if now, err := l.trees.Unlanded(ctx, w.Repo); err == nil { // else the next look tells
			lacks[w.Repo] = now
		}
	}
	var all []td.Unlanded
	for _, repo := range slices.Sorted(maps.Keys(lacks)) {
		all = append(all, lacks[repo]...)
	}
	return all
}

// look has every repository looked at by a worker of its own, so that a validator that takes long holds up only its own. tell is called with what a trunk still lacks. Whoever calls
// look waits, before it returns, for the workers to end, which they do with ctx.
func (l *landing) look(ctx context.Context, tell func(td.Unlanded)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, repo := range slices.Sorted(maps.Keys(l.known)) {
		if _, is := l.again[repo]; is {
			l.again[repo] = true
			continue
		}
		l.again[repo] = false
		l.at.Go(func() { l.work(ctx, repo, tell) })
	}
}

// wait waits for the workers.
func (l *landing) wait() { l.at.Wait() }

// work looks at a repository, and once more if it was asked to meanwhile.
func (l *landing) work(ctx context.Context, repo string, tell func(td.Unlanded)) {
	for more := true; more; {
		if ctx.Err() == nil {
			lacks, err := l.lookAt(ctx, repo)
			if err != nil && ctx.Err() == nil && !td.IsKind(err, td.NotFound) { // a repository that is gone lacks nothing
				l.o.Log.Warn("update trunks", "repo", repo, "err", err)
			}
			for _, u := range lacks {
				tell(u)
			}
		}
		l.mu.Lock()
		if more = l.again[repo] && ctx.Err() == nil; more {
			l.again[repo] = false
		} else {
			delete(l.again, repo)
		}
		l.mu.Unlock()
	}
}

// lookAt tries to land what a repository has, and says what its trunks lack then.
func (l *landing) lookAt(ctx context.Context, repo string) ([]td.Unlanded, error) {
	l.slots <- struct{}{}
	defer func() { <-l.slots }()
	lacks, err := l.trees.Unlanded(ctx, repo)
	if err != nil {
		return nil, err
	}
	for i, u := range lacks {
		if lacks[i].Obstacle, err = l.land(ctx, u); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			lacks[i].Obstacle = td.ObstacleOf(err)
		}
	}
	lacks = slices.DeleteFunc(lacks, func(u td.Unlanded) bool { return u.Reason == "" })
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lacks[repo] = lacks; len(lacks) == 0 {
		delete(l.lacks, repo)
	}
	return lacks, nil
}

// land tries to update one trunk.
func (l *landing) land(ctx context.Context, u td.Unlanded) (td.Obstacle, error) {
	works, err := l.worksOf(ctx, u)
	if err != nil {
		return td.Obstacle{}, err
	}
	return l.step(ctx, u, u.Trunk+" updated", func(before func() error) (td.Obstacle, error) {
		return l.trees.Land(ctx, u, works, l.check(u), before)
	})
}

// step does something that changes a trunk or its integration branch. From when it calls before, it is a step of the daemon's own stream: the tasks have ended.
func (l *landing) step(ctx context.Context, u td.Unlanded, done string, do func(before func() error) (td.Obstacle, error)) (td.Obstacle, error) {
	var key td.StepKey
	in, err := do(func() error {
		if key != "" {
			return nil // the trunk went on meanwhile: it is the same step still
		}
		next := td.StepKey("land/" + string(td.NewRequestID()))
		if err := l.own.append(ctx, td.StepIntended{Intent: td.Intent{Key: next, Kind: td.FollowStep, Name: u.Trunk, Effect: td.Keyed}}); err != nil {
			return err
		}
		key = next
		fpLandIntended.Hit()
		return nil
	})
	if key == "" {
		return in, err
	}
	fpLanded.Hit()
	res := td.ToolResult{Content: fmt.Sprintf("%s with the work of %s", done, strings.Join(u.Tasks, ", "))}
	switch {
	case err != nil:
		res = td.ToolResult{Content: err.Error(), IsError: true}
	case in.Reason != "":
		res.Content = fmt.Sprintf("%s not updated: %s", u.Trunk, in.Reason)
	default:
		l.o.Log.Info(done, "repo", u.Repo, "trunk", u.Trunk, "tasks", u.Tasks)
	}
	if rerr := l.own.append(context.WithoutCancel(ctx), td.StepEnded{Outcome: td.Outcome{Key: key, Via: td.Ran, Tool: &res}}); rerr != nil {
		return in, rerr
	}
	return in, err
}

// worksOf are the tasks whose work is lacking, for their validators.
func (l *landing) worksOf(ctx context.Context, u td.Unlanded) ([]merge.Work, error) {
	var works []merge.Work
	for _, handle := range u.Tasks {
		id, err := l.resolve(ctx, handle)
		if td.IsKind(err, td.NotFound) {
			continue // of another state folder
		}
		if err != nil {
			return nil, err
		}
		t, err := l.journal.Task(ctx, id)
		if err != nil {
			return nil, err
		}
		works = append(works, merge.Work{Task: t.ID, Handle: t.Handle, Title: t.Title, Commit: t.Offered, Check: t.Validator})
	}
	return works, nil
}

// check runs validators on a throw-away checkout, held to it and without a network. One that a crash cuts off is removed with what it left.
func (l *landing) check(u td.Unlanded) merge.Check {
	return func(ctx context.Context, commit string, of []merge.Work) (string, error) {
		w := td.Worktree{Repo: u.Repo, Into: u.Into, Trunk: u.Trunk}
		setup, err := l.trees.Setup(w)
		if err != nil {
			return "", err
		}
		tree, err := l.trees.Git.TreeOf(ctx, u.Repo, commit)
		if err != nil {
			return "", err
		}
		var commands []merge.Work
		for _, c := range slices.Concat([]merge.Work{{Check: setup}}, of) {
			if c.Check != "" {
				commands = append(commands, c)
			}
		}
		key := checkKey(tree, setup, of)
		l.mu.Lock()
		said := l.failed[key]
		l.mu.Unlock()
		if said != "" {
			return said, nil
		}
		<-l.slots
		said, lasting, err := l.validateAll(ctx, w, commit, commands)
		l.slots <- struct{}{}
		if said != "" && lasting {
			l.mu.Lock()
			defer l.mu.Unlock()
			if len(l.failed) >= mostFailed {
				clear(l.failed)
			}
			l.failed[key] = said
		}
		return said, err
	}
}

// checkKey names all that the outcome of a check depends on, but for the rules.
func checkKey(tree, setup string, of []merge.Work) string {
	parts := []string{tree, setup}
	for _, c := range of {
		parts = append(parts, c.Check)
	}
	return strings.Join(parts, "\x00")
}

// validateAll runs commands, one after the other, on a checkout of a commit, and says what is wrong. lasting is set if that is so again the next time; what a rule
// forbids may be allowed by then.
func (l *landing) validateAll(ctx context.Context, w td.Worktree, commit string, commands []merge.Work) (said string, lasting bool, err error) {
	name := "land-" + string(td.NewRequestID())
	l.uses(name, true)
	leave := l.spool.Room(name)
	defer func() {
		if rerr := errors.Join((checkouts{CheckoutsDir(l.o.StateDir)}).Remove(name), leave()); rerr != nil {
			l.o.Log.Warn("remove checkout", "name", name, "err", rerr)
		}
		l.uses(name, false)
	}()
	dir, err := l.trees.Checkout(ctx, w, commit, name)
	if err != nil {
		return "", false, fmt.Errorf("make a checkout of what would be merged: %w", err)
	}
	p, err := l.book.Policy(dir, "", nil)
	if err != nil {
		return "", false, err
	}
	for _, c := range commands { // before the first is run: it may take long, and would be run again at every look
		if d, is := p.Forbids(c.Check, dir); is {
			return fmt.Sprintf("`%s` is forbidden (%s)", c.Check, d.Rule), false, nil
		}
	}
	rewriting := merge.Rewriting{Altered: l.trees.Altered}
	for i, c := range commands {
		said, err := l.validate(ctx, name, i, c, dir)
		if err == nil && said == "" {
			said, err = rewriting.Said(ctx, c, dir, commit)
		}
		if err != nil || said != "" {
			return said, true, err
		}
	}
	return "", false, nil
}

// validate runs one command of a check, in the room of the check, and says what is wrong.
func (l *landing) validate(ctx context.Context, room string, nth int, c merge.Work, dir string) (string, error) {
	name := fmt.Sprintf("%s.%d", room, nth)
	cmd := sandbox.Command{Shell: c.Check, Dir: dir, Timeout: checkLimit, Task: c.Task, Step: td.StepKey(name), Room: room}
	if profile := profiles(l.o); profile != nil {
		cmd.Profile = engine.HeldTo(profile(dir, ""), policy.HeldToWorkspace)
	}
	proc, err := l.spool.Start(ctx, name, cmd)
	if err != nil {
		return "", err
	}
	fpLandChecking.Hit()
	res, err := proc.Wait(ctx, nil)
	if err != nil {
		_ = proc.Kill(context.WithoutCancel(ctx)) // it is run again
	}
	if rerr := l.spool.Remove(name); rerr != nil {
		l.o.Log.Warn("remove spool", "name", name, "err", rerr) // swept at the next start
	}
	switch {
	case err != nil:
		return "", err
	case res.Exit != 0:
		return fmt.Sprintf("`%s` ended with %d", c.Check, res.Exit), nil
	}
	return "", nil
}

// checksIn are the checkouts that validators use now.
func (l *landing) checksIn() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.using))
}

// validates reports whether a command of this name in the spool is part of a check that is under way: the tasks it is for have ended.
func (l *landing) validates(spool string) bool {
	name, _, _ := strings.Cut(spool, ".")
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.using[name]
}

// uses says whether a validator uses a checkout.
func (l *landing) uses(name string, is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if is {
		l.using[name] = true
	} else {
		delete(l.using, name)
	}
}

// watched are the folders of a repository that change when something is committed, stashed or checked out there. Refs are files in some repositories and in tables in
// others.
func watched(repo, trunk string) []string {
	common := git.CommonDir(repo)
	if common == "" {
		return nil
	}
	heads := filepath.Join(common, "refs/heads")
	return []string{common, heads, filepath.Dir(filepath.Join(heads, trunk)), filepath.Join(common, "reftable")}
}
