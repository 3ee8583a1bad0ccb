package daemon

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"taskdaemon/internal/config"
	"taskdaemon/internal/git"
	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/worktree"
	"taskdaemon/internal/worktree/worktreetest"
)

const (
	simTrunk = "main"
	simInto  = "taskdaemon/into/main"
)

// orchard is the repository that tasks have their worktrees of, and the ledger of what agents wrote in them.
type orchard struct {
	w    *world
	repo *worktreetest.Repo
	room atomic.Bool // the disk is not full any more

	taken atomic.Int64 // commits that a person took from the trunk again
	held  atomic.Int64 // runs that were paused by it, and went on

	mu      sync.Mutex
	tasks   map[string]td.TaskID // by the folder of their worktree
	lines   map[td.TaskID]td.Worktree
	byHand  map[string]string      // what people committed, and to which branch
	deleted map[string]bool        // folders that a person deleted
	wanted  map[string]bool        // folders that a person wanted back
	marks   map[td.TaskID][]string // what a task's agents wrote, each once
	due     map[td.TaskID][]string // what a task has to have that was started, or taken up again
	done    map[td.TaskID][]string // of these, what it had when it was last completed; nil: it is not
	written int
	merged  int // tasks completed
	cleared int // worktrees gone

	features, others int // tasks completed of a feature, for a second trunk
	midst            int // times that a person was in the middle of something
	quiet, named     int // quiet moments, and those in which a trunk lacked work and said so
}

func newOrchard(w *world) *orchard {
	o := &orchard{
		w: w, repo: worktreetest.New(w.root, simTrunk), tasks: map[string]td.TaskID{}, deleted: map[string]bool{}, wanted: map[string]bool{},
		marks: map[td.TaskID][]string{}, done: map[td.TaskID][]string{}, due: map[td.TaskID][]string{},
		lines: map[td.TaskID]td.Worktree{}, byHand: map[string]string{},
	}
	o.repo.Made = o.begins
	if w.shape.trunks && o.repo.Switch(simOther) && w.seed%2 == 0 {
		o.repo.Switch(simTrunk)
	}
	return o
}

// of is the repository, if there is one.
func (o *orchard) of() *worktreetest.Repo {
	if o == nil {
		return nil
	}
	return o.repo
}

var errFull = td.Errorf(td.Storage, "no space left on device")

// git is the repository in the hands of this daemon: slow, now and then on a full disk, and its end.
func (l *life) git(ctx context.Context, changes bool, deed func()) error {
	dice := l.dice()
	wait := time.Duration(dice.Int64N(int64(30 * time.Millisecond)))
	if dice.IntN(20) == 0 {
		wait = time.Duration(dice.Int64N(int64(3 * time.Second)))
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if l.isDead() {
		return errDead
	}
	if changes && !l.trees.room.Load() && l.shape.failing > 0 && dice.IntN(l.shape.failing) == 0 {
		return errFull
	}
	deed()
	if changes && l.burn() {
		return errDead
	}
	return nil
}

// planted notes where a task works.
func (l *life) planted(s td.Spec) {
	if l.trees == nil {
		return
	}
	if s.Worktree == nil {
		l.faultf("%s has no worktree", s.Handle)
		return
	}
	l.trees.mu.Lock()
	defer l.trees.mu.Unlock()
	l.trees.tasks[s.Worktree.Path], l.trees.lines[s.ID] = s.ID, *s.Worktree
	l.trees.due[s.ID] = l.trees.needs(s.ID)
}

// uprooted takes back that a task works somewhere: it was not created.
func (l *life) uprooted(s td.Spec) {
	if l.trees == nil || s.Worktree == nil {
		return
	}
	l.trees.mu.Lock()
	defer l.trees.mu.Unlock()
	if l.trees.tasks[s.Worktree.Path] == s.ID {
		delete(l.trees.tasks, s.Worktree.Path)
	}
}

// begins holds what a new worktree begins with against what the tasks had made that its task waited for when it was started.
func (o *orchard) begins(w git.Worktree, files worktreetest.Files) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if id := o.tasks[w.Path]; !o.wanted[w.Path] { // else it was brought back as it was
		o.has(id, files, o.due[id])
	}
}

// needs is what the tasks made that a task waits for and that are completed.
func (o *orchard) needs(id td.TaskID) (marks []string) {
	all := o.w.fold(func(jsonl.Stamp) bool { return true })
	for up, steps := id, 0; up != "" && steps <= len(all); up, steps = td.TaskID(all[up].parent), steps+1 {
		for _, b := range all[up].blockers {
			if v := all[td.TaskID(b)].verdict; v != nil && v.State == td.Completed && v.Run != "" { // else nobody's work is in it
				marks = append(marks, o.done[td.TaskID(b)]...)
			}
		}
	}
	return marks
}

func (o *orchard) has(id td.TaskID, files worktreetest.Files, marks []string) {
	for _, mark := range marks {
		if !holds(files, mark) {
			o.w.story(id)
			o.w.faultf("%s begins without %s, which a task made that it waited for", id, mark)
		}
	}
}

// ordered notes what a task that is taken up again has to have when it goes on.
func (l *life) ordered(id td.TaskID) {
	if o := l.trees; o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.due[id] = o.needs(id)
	}
}

// leftBehind notes that a conflict with what was merged is left to the agent, or to the merge of its work.
func (l *life) leftBehind(id td.TaskID, b td.FellBehind) {
	if o := l.trees; o != nil && b.Commit == "" && !b.Resolved {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.due, id)
	}
}

// resumes holds what is in the worktree of a task that was taken up again against what it waited for.
func (l *life) resumes(id td.TaskID) {
	o := l.trees
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	t, err := l.journal.Task(l.ctx, id)
	if files := o.repo.Files(t.Worktree.Path); err == nil && files != nil {
		o.has(id, files, o.due[id])
	}
	delete(o.due, id)
}

func holds(files worktreetest.Files, mark string) bool {
	for _, text := range files {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return false
}

// harvested holds against the integration branch that a task is completed: all that its agents wrote is in it.
func (l *life) harvested(id td.TaskID, st td.Status) {
	o := l.trees
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done[id] = nil
	line := o.lines[id]
	if st.State != td.Completed || st.Completed.Evidence == nil || st.Completed.Evidence.Merged == nil {
		if st.State == td.Completed && l.works(id) { // who wrote nothing since the last merge has nothing to merge
			for _, mark := range o.marks[id] {
				if !o.repo.Holds(line.Into, mark) && !o.repo.Holds(line.Trunk, mark) {
					l.story(id)
					l.faultf("%s is completed by its agent, and %s is merged nowhere", id, mark)
				}
			}
		}
		return
	}
	o.merged++
	if line.Into != git.IntoBranch(line.Trunk, "") {
		o.features++
	}
	if line.Trunk == simOther {
		o.others++
	}
	o.done[id] = slices.Clone(o.marks[id])
	for _, mark := range o.marks[id] {
		if !o.repo.Holds(line.Into, mark) {
			l.story(id)
			l.faultf("%s is completed, and %s is not merged", id, mark)
		}
	}
}

// works reports whether the task is running now.
func (l *life) works(id td.TaskID) bool {
	t, err := l.journal.Task(l.ctx, id)
	return err == nil && t.Status.State == td.Running
}

// meddle is a person at the repository.
func (l *life) meddle(ctx context.Context, rnd *rand.Rand) {
	o := l.trees
	switch rnd.IntN(18) {
	case 0, 1:
		l.commitByHand(rnd)
	case 2:
		o.repo.Dirty(rnd.IntN(2) == 0)
	case 3:
		l.fmu.Lock()
		l.deaf = time.Now().Add(time.Duration(rnd.IntN(25)) * time.Second)
		l.fmu.Unlock()
	case 4, 5:
		l.prune(ctx, rnd.IntN(2) == 0)
	case 6:
		l.restore(ctx, rnd)
	case 7:
		if there := o.repo.There(); len(there) > 0 {
			path := there[rnd.IntN(len(there))]
			o.mu.Lock()
			o.deleted[path] = o.repo.Delete(path) || o.deleted[path]
			o.mu.Unlock()
		}
	case 8, 9:
		if o.repo.TakeBack() {
			o.taken.Add(1)
		}
	case 11, 12:
		l.beginSomething(rnd)
	case 13, 14, 17:
		o.repo.End(rnd.IntN(2) == 0)
	case 15, 16:
		l.changeBranch()
	}
}

func (l *life) prune(ctx context.Context, all bool) {
	by, err := l.d.inWorktrees(ctx)
	if err != nil {
		return
	}
	// As PruneWorktrees does.
	_, err = l.d.trees.Prune(context.WithoutCancel(ctx), l.root, by[l.root], worktree.PruneOptions{
		Unknown: all, Free: func(ctx context.Context, t worktree.Tree) error { return l.d.left(ctx, t.Task, t.Worktree) },
	})
	l.wrong("prune", err)
}

func (l *life) restore(ctx context.Context, rnd *rand.Rand) {
	by, err := l.d.inWorktrees(ctx)
	if tasks := by[l.root]; err == nil && len(tasks) > 0 {
		t := tasks[rnd.IntN(len(tasks))]
		l.trees.mu.Lock()
		l.trees.wanted[t.Worktree.Path] = true
		l.trees.mu.Unlock()
		// As RestoreWorktree does.
		err = l.d.trees.Restore(context.WithoutCancel(ctx), *t.Worktree, t.Offered, t.Status.State == td.Completed, func(ctx context.Context) error { return l.d.unheld(ctx, t) })
		l.wrong("restore", err)
	}
}

// wrong reports what must not go wrong for a person.
func (l *life) wrong(what string, err error) {
	switch td.KindOf(err) {
	case td.Conflict, td.NotFound, td.Storage, td.Unavailable, td.Interrupted, td.Locked, td.Timeout:
	default:
		if err != nil {
			l.faultf("%s: %v", what, err)
		}
	}
}

// answer is a person who answers what they are asked, and lets tasks go on that could not be given a worktree. It says how many
// wait for something.
func (l *life) answer(ctx context.Context, rnd *rand.Rand) int {
	for _, branch := range []string{simTrunk, simOther} {
		gone, err := l.d.trunks.resume(ctx, trunk{l.root, branch}, "ann")
		l.wrong("go on with the trunk", err)
		l.trees.held.Add(int64(len(gone.Runs)))
	}
	tasks, err := l.journal.Tasks(ctx, store.TaskFilter{States: []td.State{td.Waiting, td.Blocked, td.Paused}})
	if err != nil {
		return 1
	}
	tasks = slices.DeleteFunc(tasks, func(t td.Task) bool { p := t.Status.Paused; return p != nil && !p.Unasked() })
	for _, t := range tasks {
		cmd := td.Command{Key: string(td.NewRequestID()), At: time.Now().UTC().Round(0), By: "ann", Type: td.CmdResume}
		b := t.Status.Blocked
		if b != nil && strings.Contains(b.Cause, "was rewritten") {
			l.trees.repo.BringBack()
		}
		if b != nil && b.Resource == l.root || t.Status.Paused != nil {
			_ = l.d.post(ctx, t, cmd)
		}
		for _, r := range t.Requests {
			cmd.Type, cmd.Answer = td.CmdAnswer, &td.Answer{Request: r.ID, Choice: r.Options[rnd.IntN(len(r.Options))]}
			_ = l.d.post(ctx, t, cmd)
		}
	}
	return len(tasks)
}

// check holds the repository against the journal when all is done.
func (o *orchard) check(l *life) {
	<-time.After(20 * clearEvery) // a full disk is not full for ever
	if l.shape.trunk == config.TrunkAuto {
		l.landed(decided)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, marks := range o.marks {
		for _, mark := range marks {
			if o.repo.Lost(mark) {
				l.faultf("%s, which %s wrote, is lost", mark, id)
			}
			n := o.repo.Brought(mark, o.lines[id].Into, o.lines[id].Trunk)
			if n > 1 || n == 0 && slices.Contains(o.done[id], mark) {
				l.story(id)
				l.faultf("%s, which %s wrote, came into the history %d times", mark, id, n)
			}
		}
	}
	for _, kind := range []td.StepKind{td.RemoveStep, td.FollowStep} {
		if left, err := l.d.underWay(l.ctx, kind); err != nil || len(left) > 0 {
			l.faultf("steps %s without an end: %v %v", kind, left, err)
		}
	}
	if moved := o.repo.Trespass(); moved != "" {
		l.faultf("%s", moved)
	}
	if l.shape.trunks {
		l.apart()
	}
	there := o.repo.There()
	for path, id := range o.tasks {
		t, err := l.journal.Task(l.ctx, id)
		if err != nil {
			l.faultf("look at %s: %v", id, err)
			continue
		}
		st := t.Status
		if asked := st.State == td.Waiting && len(t.Requests) > 0; !st.State.Terminal() && !asked && st.State != td.Paused {
			l.faultf("%s stays %s: %+v", id, st.State, st.Blocked)
		}
		switch is := slices.Contains(there, path); {
		case !is:
			o.cleared++
		case o.done[id] != nil && !o.wanted[path]:
			l.faultf("%s is merged, and its worktree stays", id)
		}
	}
}
