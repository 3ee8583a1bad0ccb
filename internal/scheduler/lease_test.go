package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/coord"
	"taskdaemon/internal/durable"
	"taskdaemon/internal/store"
	"taskdaemon/internal/store/mem"
	"taskdaemon/internal/td"
)

// leaseSeeds is how many schedules are tried.
const leaseSeeds = 200

// leaseWorld is what outlives every crash: the journal, and a ledger of who uses what.
type leaseWorld struct {
	t       *testing.T
	seed    uint64
	journal *mem.Store
	plans   map[string][]plan // by a task's title

	mu     sync.Mutex
	dead   map[int]bool // pids
	users  map[string][]td.Want
	runs   int
	waited int
}

// plan is one call of a task.
type plan struct {
	wants   []td.Want
	takes   time.Duration
	dawdles time.Duration // between being refused and lying down
}

func (w *leaseWorld) fault(format string, args ...any) {
	w.t.Errorf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
}

// enter notes that somebody uses something, and complains if that is one too many.
func (w *leaseWorld) enter(wants []td.Want) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs++
	for _, want := range wants {
		w.users[want.Resource] = append(w.users[want.Resource], want)
		limit := math.MaxInt
		for _, u := range w.users[want.Resource] {
			limit = min(limit, u.Limit())
		}
		if n := len(w.users[want.Resource]); n > limit {
			w.fault("%d use %s, of which %d may", n, want.Resource, limit)
		}
	}
}

func (w *leaseWorld) leave(wants []td.Want) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, want := range wants {
		i := slices.Index(w.users[want.Resource], want)
		w.users[want.Resource] = slices.Delete(w.users[want.Resource], i, i+1)
	}
}

// leaser runs tasks that are nothing but calls with leases, as the engine does.
type leaser struct {
	w       *leaseWorld
	journal *mem.Store
	sched   *Scheduler
}

func (l *leaser) open(ctx context.Context, held *coord.Held) (*durable.Log, error) {
	t, err := l.journal.Task(ctx, held.Task)
	if err != nil {
		return nil, err
	}
	log, err := durable.Open(ctx, l.journal, t, held.Claim, time.Now)
	if err == nil {
		log.OnFree(func([]td.Lease) { l.sched.Freed() })
	}
	return log, err
}

func (l *leaser) Attend(ctx context.Context, held *coord.Held) (*td.Task, error) {
	log, err := l.open(ctx, held)
	if err != nil {
		return nil, err
	}
	t := log.Task()
	if t.Status.State == td.Running {
		if err := log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.Recover(t, "died", at) }); err != nil {
			return nil, err
		}
	}
	if t.Status.State == td.Blocked {
		locks, err := l.journal.Locks(ctx)
		if err != nil {
			return nil, err
		}
		if locks.Free(t.ID, t.Place.Step, t.Place.Wants) == nil {
			err = log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.Unblock(t, "free", at) })
		}
		if err != nil {
			return nil, err
		}
	}
	return left(log), nil
}

func (l *leaser) Run(ctx context.Context, held *coord.Held, ctl *Control) (*td.Task, error) {
	log, err := l.open(ctx, held)
	if err != nil {
		return nil, err
	}
	if err := log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.Start(t, td.NewRunID(), at) }); err != nil {
		return nil, err
	}
	for i, p := range l.w.plans[log.Task().Title] {
		key := td.StepKey(fmt.Sprint("s", i))
		done := false
		for ev, err := range l.journal.Read(ctx, held.Task, 0) {
			if err != nil {
				return nil, err
			}
			e, is := ev.Body.(td.StepEnded)
			done = done || is && e.Key == key
		}
		if done {
			continue
		}
		step, end := ctl.Step(ctx)
		_, err := log.Do(step, durable.Step{
			Intent: td.Intent{Key: key, Kind: td.ToolStep, Name: "Bash", Effect: td.Pure, Wants: p.wants},
			Run: func(ctx context.Context) (td.Outcome, error) {
				l.w.enter(p.wants)
				defer l.w.leave(p.wants)
				select {
				case <-time.After(p.takes):
					return td.Outcome{Tool: &td.ToolResult{Content: "ok"}}, nil
				case <-ctx.Done():
					return td.Outcome{}, context.Cause(ctx)
				}
			},
		})
		end()
		if by, busy := errors.AsType[*td.BusyError](err); busy {
			l.w.mu.Lock()
			l.w.waited++
			l.w.mu.Unlock()
			time.Sleep(p.dawdles)
			err := log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) {
				return td.BlockOn(t, td.BlockedData{Cause: by.Error(), Step: key, Wants: p.wants}, at)
			})
			return left(log), err
		}
		if err != nil {
			return nil, err
		}
	}
	err = log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.Complete(t, "", nil, at) })
	return left(log), err
}

func (l *leaser) Crashed(_ context.Context, _ *coord.Held, p string) (*td.Task, error) {
	return nil, fmt.Errorf("panic: %s", p)
}

// left is the task as a runner leaves it.
func left(log *durable.Log) *td.Task {
	t := log.Task()
	return &t
}

// host is a daemon that can be killed.
type leaseHost struct {
	pid     int
	journal *mem.Store
	sched   *Scheduler
	wg      sync.WaitGroup
	cancel  context.CancelFunc
}

func (w *leaseWorld) start(pid, loops int) *leaseHost {
	ctx, cancel := context.WithCancel(w.t.Context())
	log := slog.New(slog.DiscardHandler)
	h := &leaseHost{pid: pid, journal: w.journal.Open(), cancel: cancel}
	run := &leaser{w: w, journal: h.journal}
	keeper := coord.NewKeeper(h.journal, td.Holder{Host: "h", Pid: pid}, log)
	h.sched = New(Options{
		Journal: h.journal, Keeper: keeper, Runner: run, Loops: loops, Log: log,
		Retry: 100 * time.Hour, Wait: 1000 * time.Hour,
	})
	run.sched = h.sched
	h.wg.Go(func() { _ = keeper.Run(ctx) })
	h.wg.Go(func() { _ = h.sched.Run(ctx) })
	return h
}

// crash ends the host at once: what it still tries to record fails.
func (w *leaseWorld) crash(h *leaseHost) {
	w.mu.Lock()
	w.dead[h.pid] = true
	w.mu.Unlock()
	_ = h.journal.Close()
	h.sched.Kill()
	h.cancel()
	h.wg.Wait()
}

// TestLeasesUnderCrashes: whatever dies whenever, nobody uses what another has alone, nobody waits for ever,
// and nobody overtakes. A wake-up that is lost would take days here, for nothing is looked at by itself.
func TestLeasesUnderCrashes(t *testing.T) {
	var runs, waited int
	for seed := range uint64(leaseSeeds) {
		synctest.Test(t, func(t *testing.T) {
			w := leases(t, seed)
			runs, waited = runs+w.runs, waited+w.waited
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d schedules, %d calls, %d had to wait", leaseSeeds, runs, waited)
	if waited < leaseSeeds {
		t.Error("hardly anybody had to wait: the schedules test nothing")
	}
}

func leases(t *testing.T, seed uint64) *leaseWorld {
	rnd := rand.New(rand.NewPCG(seed, 7))
	w := &leaseWorld{t: t, seed: seed, plans: map[string][]plan{}, dead: map[int]bool{}, users: map[string][]td.Want{}}
	w.journal = mem.New(func(h td.Holder) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !w.dead[h.Pid]
	})
	tasks := 2 + rnd.IntN(1+rnd.IntN(12))
	for i := range tasks {
		title := fmt.Sprint("t", i)
		for range 1 + rnd.IntN(4) {
			w.plans[title] = append(w.plans[title], randomPlan(rnd))
		}
	}
	loops := 1 + rnd.IntN(8)
	host := w.start(1, loops)
	for i := range tasks {
		title := fmt.Sprint("t", i)
		id := td.NewTaskID()
		task, err := w.journal.Create(t.Context(), td.Spec{
			ID: id, Title: title, Dir: "/" + title, Priority: rnd.IntN(5), CreatedAt: time.Now().UTC().Round(0),
		}, title)
		if err != nil {
			t.Fatal(err)
		}
		host.sched.Wake(t.Context(), task, false)
	}
	for pid := range rnd.IntN(4) {
		time.Sleep(time.Duration(rnd.IntN(30_000)) * time.Millisecond)
		w.crash(host)
		host = w.start(pid+2, loops)
	}
	// All calls one after the other would take less.
	deadline := time.Now().Add(time.Hour)
	called := map[td.TaskID]int{}
	for {
		left, err := w.journal.Tasks(t.Context(), store.TaskFilter{States: store.Live})
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			locks, _ := w.journal.Locks(t.Context())
			w.fault("%d tasks did not end; %s is %+v; locks %+v", len(left), left[0].Handle, left[0].Status, locks)
			break
		}
		w.called(called)
		time.Sleep(time.Second)
	}
	w.fair()
	if l, err := w.journal.Locks(t.Context()); err != nil || len(l.Held)+len(l.Waiters) > 0 {
		w.fault("left behind: %+v, %v", l, err)
	}
	w.crash(host)
	return w
}

// called complains of a task that lies there though its turn came seconds ago.
func (w *leaseWorld) called(seconds map[td.TaskID]int) {
	locks, err := w.journal.Locks(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	next := locks.Next()
	for id := range seconds {
		if !slices.Contains(next, id) {
			delete(seconds, id)
		}
	}
	for _, id := range next {
		if t, err := w.journal.Task(w.t.Context(), id); err != nil || t.Status.State != td.Blocked {
			delete(seconds, id)
			continue
		}
		if seconds[id]++; seconds[id] == 5 {
			w.fault("%s was not called when its turn came", id)
		}
	}
}

func randomPlan(rnd *rand.Rand) plan {
	p := plan{
		takes:   time.Duration(1+rnd.IntN(10_000)) * time.Millisecond,
		dawdles: time.Duration(rnd.IntN(8000)) * time.Millisecond,
	}
	for _, name := range []string{"build", "disk", "port"} {
		switch rnd.IntN(5) {
		case 0:
			p.wants = append(p.wants, td.Want{Resource: name})
		case 1:
			p.wants = append(p.wants, td.Want{Resource: name, Shared: true})
		case 2:
			p.wants = append(p.wants, td.Want{Resource: name, Shared: true, Capacity: 2})
		}
	}
	return p
}

// fair replays the journal with a model of its own: who is given something while an earlier waiter wants the
// same, and one of them alone, has overtaken.
func (w *leaseWorld) fair() {
	type waiter struct {
		task  td.TaskID
		step  td.StepKey
		wants []td.Want
	}
	var queue []waiter
	has := map[td.TaskID]td.StepKey{} // in flight: what it has it may take again after a crash
	for ev, err := range w.journal.Follow(w.t.Context(), store.EventFilter{NoFuture: true}, 0) {
		if err != nil {
			w.t.Fatal(err)
		}
		switch b := ev.Body.(type) {
		case td.Moved:
			if on := b.Status.Blocked; on != nil && !slices.ContainsFunc(queue, func(q waiter) bool { return q.task == ev.Task }) {
				queue = append(queue, waiter{ev.Task, on.Step, on.Wants})
			}
		case td.StepIntended:
			for _, q := range queue {
				if q.task == ev.Task || has[ev.Task] == b.Key {
					break
				}
				if exclude(q.wants, b.Wants) {
					w.fault("%s overtook %s", ev.Task, q.task)
				}
			}
			queue = slices.DeleteFunc(queue, func(q waiter) bool { return q.task == ev.Task })
			has[ev.Task] = b.Key
		case td.StepEnded:
			delete(has, ev.Task)
		}
	}
}

func exclude(a, b []td.Want) bool {
	for _, x := range a {
		for _, y := range b {
			if x.Resource == y.Resource && (!x.Shared || !y.Shared) {
				return true
			}
		}
	}
	return false
}
