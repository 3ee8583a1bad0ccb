// Package sim runs the real scheduler, engine, claims and durable steps of several hosts on one journal
// in memory, on a simulated clock, while hosts crash, at any time or just at an append, come back, lose
// power or lose touch with the journal, all decided by a seed. A ledger outside the hosts counts every effect.
package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"taskdaemon/internal/coord"
	"taskdaemon/internal/engine"
	"taskdaemon/internal/scheduler"
	"taskdaemon/internal/store"
	"taskdaemon/internal/store/mem"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

var errDead = td.Errorf(td.Unavailable, "this host is dead")

// world is what outlives every host: the journal, the processes under shims, and the ledger.
type world struct {
	dir     string
	rnd     *rand.Rand
	journal *mem.Store

	mu      sync.Mutex
	alive   map[string]bool
	procs   map[string]*proc
	ran     map[string]int                   // opaque effects, by task and call
	lost    map[string]map[td.RequestID]bool // the requests that asked about an opaque effect
	files   map[string]string                // what keyed effects write
	written map[string]int
	active  map[td.TaskID]string // which host is in an effect of the task
	shared  bool                 // tasks need leases
	alone   bool                 // nobody looks at a task again by itself
	uses    map[string][]use     // of what is leased
	sent    map[string][]byte    // the newest call of each task, encoded
	faults  []string

	branches *branches // of the repository that tasks work in, if they have worktrees

	removals int // of processes from the spool
}

type proc struct {
	host  string
	ends  time.Time
	voids bool
	lost  bool
	kill  chan struct{}
}

func newWorld(dir string, rnd *rand.Rand) *world {
	w := &world{
		dir: dir, rnd: rnd, alive: map[string]bool{}, procs: map[string]*proc{}, ran: map[string]int{},
		lost: map[string]map[td.RequestID]bool{}, files: map[string]string{}, written: map[string]int{}, active: map[td.TaskID]string{},
		sent: map[string][]byte{}, uses: map[string][]use{},
	}
	w.journal = mem.New(func(h td.Holder) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.alive[h.Host]
	})
	return w
}

func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// enter notes that host is inside an effect of task: two hosts at once is the fault claims must prevent.
func (w *world) enter(task td.TaskID, host string) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if other := w.active[task]; other != "" && other != host && w.alive[other] {
		w.faults = append(w.faults, fmt.Sprintf("%s and %s are both at work on %s", other, host, task))
	}
	w.active[task] = host
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.active[task] == host {
			delete(w.active, task)
		}
	}
}

// host is one daemon's life.
type host struct {
	*world
	name  string
	sched *scheduler.Scheduler
	done  chan struct{}

	mu   sync.Mutex
	dead bool
	deaf bool // it can no longer renew its claims

	// fuse, if not zero, is the append from now at which the host dies: the instants between a deed and its
	// record are too short to be hit by chance. The journal still takes that append if last is set.
	fuse int
	last bool
}

// light sets the host's fuse.
func (h *host) light(fuse int, last bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fuse, h.last = fuse, last
}

// burn counts an append: dies says that the host dies at it, taken whether the journal still takes it.
func (h *host) burn() (dies, taken bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fuse == 0 {
		return false, true
	}
	h.fuse--
	return h.fuse == 0, h.fuse > 0 || h.last
}

var lives atomic.Int64

func (w *world) start(ctx context.Context, name string) *host {
	name = fmt.Sprintf("%s.%d", name, lives.Add(1))
	w.mu.Lock()
	w.alive[name] = true
	w.mu.Unlock()
	h := &host{world: w, name: name, done: make(chan struct{})}
	leases, retry, wait := engine.Leases{}, 5*time.Second, leaseWait
	if w.alone {
		retry, wait = never, never
	}
	if w.shared {
		leases = h.leases(wait)
	}
	j := &journal{Journal: w.journal, host: h}
	var trees engine.Worktrees
	if w.branches != nil {
		trees = hands{h, w.branches}
	}
	log := slog.New(slog.DiscardHandler)
	keeper := coord.NewKeeper(j, td.Holder{Host: name}, log)
	h.sched = scheduler.New(scheduler.Options{
		Journal: j, Keeper: keeper, Loops: 8, Log: log, Retry: retry, Wait: wait,
		Runner: engine.New(engine.Options{
			Journal: j, Model: &model{h}, Tools: tool.NewRegistry(h.tools()...), Spool: &spool{h},
			Models:      map[td.Tier]string{td.Worker: "sim"},
			Environment: func(context.Context, string, string) string { return "" },
			Tree:        func(context.Context, string) (string, error) { return "tree", nil },
			MaxTokens:   1, Turns: 100, Reminders: 1, Tool: time.Minute, Permission: time.Hour,
			Retry: engine.RetryTable{
				Network:    []time.Duration{0, time.Second, time.Second, time.Second, time.Second},
				Overloaded: []time.Duration{time.Second, time.Second, time.Second, time.Second},
			},
			Guard: guard{}, Log: log, Leases: leases, Worktrees: trees,
		}),
	})
	hctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(h.done)
		var wg sync.WaitGroup
		wg.Go(func() { _ = keeper.Run(hctx) })
		if err := h.sched.Run(hctx); err != nil && !h.isDead() {
			w.fault("scheduler of %s: %v", name, err)
		}
		cancel()
		wg.Wait()
	}()
	return h
}

func (h *host) isDead() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dead
}

// die is SIGKILL: from this instant nothing the host does reaches anything outside it.
func (h *host) die() {
	h.mu.Lock()
	h.dead = true
	h.mu.Unlock()
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	h.world.alive[h.name] = false
}

// crash has the host die, if it has not yet, and waits until it is gone. A loss of power ends what its
// shims run, too.
func (h *host) crash(power bool) {
	h.die()
	h.world.mu.Lock()
	for _, p := range h.procs {
		if power && p.host == h.name && time.Now().Before(p.ends) {
			p.lost = true
		}
	}
	h.world.mu.Unlock()
	h.sched.Kill()
	<-h.done
}

// journal is the host's way to the journal: cut when the host is dead, in the middle of a call if need be.
type journal struct {
	store.Journal
	host *host
}

func (j *journal) Append(ctx context.Context, c td.Claim, after uint64, evs ...td.Event) (td.Task, error) {
	if j.host.isDead() {
		return td.Task{}, errDead
	}
	time.Sleep(time.Millisecond)
	dies, taken := j.host.burn()
	if !taken {
		j.host.die()
		return td.Task{}, errDead
	}
	t, err := j.Journal.Append(ctx, c, after, evs...)
	if dies {
		j.host.die()
	}
	if j.host.isDead() {
		return td.Task{}, errDead // recorded or not, this host never learns of it
	}
	return t, err
}

func (j *journal) Claim(ctx context.Context, task td.TaskID, h td.Holder) (td.Claim, error) {
	if j.host.isDead() {
		return td.Claim{}, errDead
	}
	return j.Journal.Claim(ctx, task, h)
}

func (j *journal) Renew(ctx context.Context, h td.Holder) (map[td.TaskID]uint64, error) {
	j.host.mu.Lock()
	deaf := j.host.dead || j.host.deaf
	j.host.mu.Unlock()
	if deaf {
		return nil, errDead
	}
	return j.Journal.Renew(ctx, h)
}

func (j *journal) Release(ctx context.Context, c td.Claim) error {
	if j.host.isDead() {
		return errDead
	}
	return j.Journal.Release(ctx, c)
}

func (j *journal) Take(ctx context.Context, c td.Claim) ([]td.Command, error) {
	if j.host.isDead() {
		return nil, errDead
	}
	return j.Journal.Take(ctx, c)
}
