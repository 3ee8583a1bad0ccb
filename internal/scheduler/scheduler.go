// Package scheduler turns ready tasks into runs.
//
// One goroutine owns the queue. A task runs when it is queued, its folder is free (one running task a
// folder) and a place is free, of all and of its project, by priority and age. A task that is not running and has a command
// in its inbox is attended to first: claimed, its commands carried out, released. Tasks that wait, are
// paused or are blocked cost a map entry.
//
// The scheduler knows nothing of what a run does: that is the Runner's business.
package scheduler

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"taskdaemon/internal/coord"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

var (
	fpAttend = failpoint.New("scheduler.attend.claimed")
	fpStart  = failpoint.New("scheduler.run.claimed")
	fpEnded  = failpoint.New("scheduler.run.ended")
	fpExpire = failpoint.New("scheduler.expire.before_post")
)

// Runner executes tasks. Its methods record what they do under the claim and return the task as they
// left it, or an error; they leave releasing the claim to the caller.
type Runner interface {
	// Attend carries out the commands in the inbox of a task that is not running, and looks whether a
	// blocked one may go on.
	Attend(ctx context.Context, held *coord.Held) (*td.Task, error)
	// Run starts a queued task and goes on until it ends, waits or pauses, or until ctl says stop.
	Run(ctx context.Context, held *coord.Held, ctl *Control) (*td.Task, error)
	// Crashed records that a run panicked.
	Crashed(ctx context.Context, held *coord.Held, panicked string) (*td.Task, error)
}

// Options are what a Scheduler needs.
type Options struct {
	Journal store.Journal
	Keeper  *coord.Keeper
	Runner  Runner
	Loops   int                      // runs at once
	Project func(project string) int // runs at once of one project; 0, or nil: any number
	Log     *slog.Logger
	// Retry is how long a task rests after its run could not record what it did, or while it is
	// blocked, before it is tried again.
	Retry time.Duration
	// Wait is how long a task may be blocked on leases.
	Wait time.Duration
}

// Scheduler decides what runs.
type Scheduler struct {
	Options
	wakes chan wake
	done  chan ended
	freed chan struct{} // leases were given back
	stop  chan struct{} // closed: start nothing more
	kill  chan struct{} // closed: leave everything

	stopOnce, killOnce sync.Once

	mu      sync.Mutex // guards running, for Running
	running map[td.TaskID]*Control

	folders *folders
	tasks   map[td.TaskID]*entry
	mail    []*entry // those with something in their inbox
	ready   queue
	dirs    map[string]*entry // the entry that runs in a folder
	inDir   parked            // by folder
	inTurn  parked            // by project
	busy    int               // runs under way
	busyIn  map[string]int    // runs under way, by project
	working sync.WaitGroup
}

type wake struct{ task td.Task }

type ended struct {
	entry *entry
	task  *td.Task // as it was left; nil with an error
	err   error
	ran   bool
}

// entry is what the scheduler knows of a task that has not ended.
type entry struct {
	task    td.Task
	inbox   bool     // commands may be waiting
	ctl     *Control // set while a goroutine works on it
	queued  bool     // in the queue, or parked
	resting bool     // not before its timer fires
	stuck   int      // runs in a row that ended with something in the way
	lost    int      // runs in a row that lost their claim
	timer   *time.Timer
}

// New makes a scheduler. Wake may be called before Run.
func New(o Options) *Scheduler {
	return &Scheduler{
		Options: o,
		wakes:   make(chan wake, 64),
		done:    make(chan ended),
		freed:   make(chan struct{}, 1),
		stop:    make(chan struct{}),
		kill:    make(chan struct{}),
		running: map[td.TaskID]*Control{},
		folders: newFolders(),
		tasks:   map[td.TaskID]*entry{},
		dirs:    map[string]*entry{},
		inDir:   parked{},
		inTurn:  parked{},
		busyIn:  map[string]int{},
	}
}

// Wake tells the scheduler that a task is new or that something came into its inbox. Urgent interrupts
// the step a running task is in.
func (s *Scheduler) Wake(ctx context.Context, t td.Task, urgent bool) {
	s.mu.Lock()
	ctl := s.running[t.ID]
	s.mu.Unlock()
	if ctl != nil {
		ctl.notify(urgent)
	}
	select {
	case s.wakes <- wake{task: t}:
	case <-ctx.Done():
	case <-s.kill:
	}
}

// Running reports how many runs are under way.
func (s *Scheduler) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running)
}

// Stop lets every run come to a safe point and starts nothing more; Run returns when all have.
func (s *Scheduler) Stop() { s.stopOnce.Do(func() { close(s.stop) }) }

// Kill leaves every run where it is: what is in flight is for recovery.
func (s *Scheduler) Kill() {
	s.Stop()
	s.killOnce.Do(func() { close(s.kill) })
}

// Run schedules until Stop, and returns when every run has ended.
func (s *Scheduler) Run(ctx context.Context) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	defer s.Kill() // whoever is about to wake a scheduler that has ended must not wait for it
	stop, kill := s.stop, s.kill
	stopping := false
	for {
		if !stopping {
			s.dispatch(ctx)
		}
		if stopping && len(s.running) == 0 {
			s.working.Wait()
			return nil
		}
		select {
		case w := <-s.wakes:
			s.take(ctx, w)
		case e := <-s.done:
			s.finish(ctx, e)
		case <-s.freed:
			s.callWaiters(ctx)
		case <-stop:
			stopping, stop = true, nil
			s.each(func(c *Control) { c.halt() })
		case <-kill:
			kill = nil
			s.each(func(c *Control) { c.abandon() })
		case <-ctx.Done():
			s.Kill()
			ctx = context.WithoutCancel(ctx)
		}
	}
}

func (s *Scheduler) each(f func(*Control)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.running {
		f(c)
	}
}

// load reads what there is to do at the start.
func (s *Scheduler) load(ctx context.Context) error {
	tasks, err := s.Journal.Tasks(ctx, store.TaskFilter{States: store.Live, Brief: true})
	if err != nil {
		return fmt.Errorf("load tasks: %w", err)
	}
	pending, err := s.Journal.Pending(ctx)
	if err != nil {
		return fmt.Errorf("load inboxes: %w", err)
	}
	for _, t := range tasks {
		// A running task that nobody runs was left by another process: attended to, it is taken up.
		s.put(ctx, t, t.Status.State == td.Blocked || t.Status.State == td.Running)
	}
	for _, id := range pending {
		if e := s.tasks[id]; e != nil {
			s.put(ctx, e.task, true)
			continue
		}
		t, err := s.Journal.Task(ctx, id)
		if err != nil {
			s.Log.Error("load task", "task", id, "err", err) // one that cannot be read stops no other
			continue
		}
		s.put(ctx, t, true)
	}
	return nil
}

func (s *Scheduler) take(ctx context.Context, w wake) {
	e := s.tasks[w.task.ID]
	if e != nil && e.ctl != nil {
		// It is being worked on: the worker looks into the inbox itself, and once more before it ends.
		e.inbox = true
		return
	}
	s.put(ctx, w.task, true)
}

// put takes in what is known of a task that nobody works on.
func (s *Scheduler) put(ctx context.Context, t td.Task, inbox bool) {
	e := s.tasks[t.ID]
	if e == nil {
		if t.Status.State.Terminal() && !inbox {
			return
		}
		e = &entry{}
		s.tasks[t.ID] = e
	}
	if t.Head >= e.task.Head {
		e.task = brief(t)
		s.folders.put(e.task)
	}
	e.inbox = e.inbox || inbox
	if e.inbox {
		s.mail = append(s.mail, e)
	}
	s.arm(ctx, e)
	s.enqueue(e)
}

// brief keeps what the scheduler looks at: 10,000 prompts are not worth remembering.
func brief(t td.Task) td.Task {
	status := td.Status{State: t.Status.State}
	if b := t.Status.Blocked; b != nil {
		status.Blocked = &td.BlockedData{Child: b.Child, Until: b.Until, Outage: b.Outage}
	}
	return td.Task{
		Spec: td.Spec{ID: t.ID, Handle: t.Handle, Parent: t.Parent, Depth: t.Depth, Tools: t.Tools, Dir: t.Dir, Source: t.Source, Project: projectOf(t), Priority: t.Priority, CreatedAt: t.CreatedAt},
		Live: td.Live{Status: status, Head: t.Head, Requests: t.Requests, Place: t.Place},
	}
}

// projectOf is the project that a task counts for: the one whose graph it is planned in, else the repository that it has a worktree of.
func projectOf(t td.Task) string {
	if t.Project == "" && t.Worktree != nil {
		return t.Worktree.Repo
	}
	return t.Project
}

func (s *Scheduler) enqueue(e *entry) {
	if e.queued || e.ctl != nil || e.resting || e.inbox || e.task.Status.State != td.Queued {
		return
	}
	e.queued = true
	heap.Push(&s.ready, e)
}

// arm sets the timer for what time itself brings: a request that lapses, a blocked task's next look.
func (s *Scheduler) arm(ctx context.Context, e *entry) {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	switch e.task.Status.State {
	case td.Waiting:
		for _, r := range e.task.Requests {
			if at := r.ExpiresAt(); !at.IsZero() {
				t := e.task
				e.timer = time.AfterFunc(time.Until(at), func() { s.expire(ctx, t, r) })
				return
			}
		}
	case td.Blocked:
		s.rest(ctx, e, s.restFor(e))
	}
}

// rest looks at a task again after a while.
func (s *Scheduler) rest(ctx context.Context, e *entry, d time.Duration) {
	t := e.task
	e.resting = true
	e.timer = time.AfterFunc(d, func() { s.Wake(ctx, t, false) })
}

func (s *Scheduler) expire(ctx context.Context, t td.Task, r td.Request) {
	fpExpire.Hit()
	at := time.Now().UTC().Round(0)
	if at.Before(r.ExpiresAt()) {
		at = r.ExpiresAt() // the timer's word counts, even if the clock was set back meanwhile
	}
	err := s.Journal.Post(ctx, t.ID, td.Command{
		Key:  fmt.Sprintf("expire/%s/%d", r.ID, r.AskedAt.UnixNano()),
		Type: td.CmdExpire, At: at, By: "taskdaemon", Answer: &td.Answer{Request: r.ID},
	})
	if err != nil {
		s.Log.Error("post expiry", "task", t.Handle, "err", err)
	}
	s.Wake(ctx, t, false)
}

// dispatch starts whatever may start now.
func (s *Scheduler) dispatch(ctx context.Context) {
	for _, e := range s.mail {
		if e.inbox && e.ctl == nil {
			s.attend(ctx, e)
		}
	}
	s.mail = s.mail[:0]
	for s.busy < s.Loops && s.ready.Len() > 0 {
		e := heap.Pop(&s.ready).(*entry)
		if e.ctl != nil || e.inbox || e.resting || e.task.Status.State != td.Queued {
			e.queued = false
			continue
		}
		if s.dirs[e.task.Dir] != nil && !e.task.Explores() {
			s.inDir.put(e.task.Dir, e)
			continue
		}
		if p := e.task.Project; p != "" && s.Project != nil {
			if most := s.Project(p); most > 0 && s.busyIn[p] >= most {
				s.inTurn.put(p, e)
				continue
			}
		}
		e.queued = false
		s.start(ctx, e)
	}
}

func (s *Scheduler) attend(ctx context.Context, e *entry) {
	e.inbox, e.resting = false, false
	s.work(ctx, e, false, func(ctx context.Context, held *coord.Held, _ *Control) (*td.Task, error) {
		fpAttend.Hit()
		return s.Runner.Attend(ctx, held)
	})
}

func (s *Scheduler) start(ctx context.Context, e *entry) {
	s.busy++
	s.busyIn[e.task.Project]++
	if !e.task.Explores() { // those that only look share their parent's folder
		s.dirs[e.task.Dir] = e
	}
	s.work(ctx, e, true, func(ctx context.Context, held *coord.Held, ctl *Control) (*td.Task, error) {
		fpStart.Hit()
		return s.Runner.Run(ctx, held, ctl)
	})
}

// work claims the task and lets f have it, on a goroutine of its own.
func (s *Scheduler) work(ctx context.Context, e *entry, ran bool, f func(context.Context, *coord.Held, *Control) (*td.Task, error)) {
	ctl := newControl()
	e.ctl = ctl
	id := e.task.ID
	s.mu.Lock()
	s.running[id] = ctl
	s.mu.Unlock()
	s.working.Go(func() {
		t, err := s.claimed(ctx, id, ctl, f)
		fpEnded.Hit()
		s.done <- ended{entry: e, task: t, err: err, ran: ran}
	})
}

// claimed runs f under a claim. A panic in f hurts this task and no other (K-1).
func (s *Scheduler) claimed(ctx context.Context, id td.TaskID, ctl *Control, f func(context.Context, *coord.Held, *Control) (*td.Task, error)) (t *td.Task, err error) {
	ctx, held, err := s.Keeper.Claim(ctx, id)
	if err != nil {
		return nil, err
	}
	defer held.Release(ctx)
	defer func() {
		if p := recover(); p != nil {
			s.Log.Error("run panicked", "task", id, "panic", p, "stack", string(debug.Stack()))
			t, err = s.crashed(context.WithoutCancel(ctx), held, fmt.Sprint(p))
		}
	}()
	return f(ctx, held, ctl)
}

// crashed records a panic. One that comes again while it is recorded leaves the task as it is.
func (s *Scheduler) crashed(ctx context.Context, held *coord.Held, panicked string) (t *td.Task, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("record a panic: %v", p)
		}
	}()
	return s.Runner.Crashed(ctx, held, panicked)
}

// again looks at a task that may wait for what has just happened, at once or after whoever works on it.
func (s *Scheduler) again(ctx context.Context, id td.TaskID) {
	switch p := s.tasks[id]; {
	case p == nil:
	case p.ctl != nil:
		p.inbox = true
	default:
		s.put(ctx, p.task, true)
	}
}

func (s *Scheduler) finish(ctx context.Context, d ended) {
	e := d.entry
	s.mu.Lock()
	delete(s.running, e.task.ID)
	s.mu.Unlock()
	e.ctl = nil
	if d.ran {
		s.busy--
		if s.dirs[e.task.Dir] == e {
			delete(s.dirs, e.task.Dir)
			s.inDir.free(e.task.Dir, &s.ready)
		}
		if s.busyIn[e.task.Project]--; s.busyIn[e.task.Project] == 0 {
			delete(s.busyIn, e.task.Project)
		}
		s.inTurn.free(e.task.Project, &s.ready)
	}
	if d.err != nil {
		level := slog.LevelError
		if td.IsKind(d.err, td.Conflict) || errors.Is(d.err, tool.ErrDetach) {
			level = slog.LevelDebug // another process has it, or this one is leaving it
		}
		rest := s.Retry
		if errors.Is(d.err, coord.ErrClaimLost) {
			// This process could not renew it in time, because it was frozen, say; it may have it again unless another one took it.
			rest = min(rest, lostRest<<min(e.lost, mostDoubled))
			e.lost++
		}
		s.Log.Log(ctx, level, "task rests", "task", e.task.Handle, "for", rest, "err", d.err)
		s.rest(ctx, e, rest)
		return
	}
	if d.ran {
		e.lost = 0
	}
	if d.task.Status.State.Terminal() && !e.inbox {
		if e.timer != nil {
			e.timer.Stop()
		}
		e.task = brief(*d.task) // it may still stand in the queue
		s.folders.put(e.task)
		delete(s.tasks, d.task.ID)
		s.again(ctx, d.task.Parent)
		return
	}
	b := d.task.Status.Blocked
	switch {
	case b != nil && !b.Passes():
		if d.ran {
			e.stuck++
		}
	case d.ran:
		e.stuck = 0
	}
	// What it lay down to wait for may have come meanwhile.
	s.put(ctx, *d.task, d.ran && b != nil && (b.Child != "" || len(b.Wants) > 0))
}
