package daemon

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/config"
	"taskdaemon/internal/coord"
	"taskdaemon/internal/engine"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/rulebook"
	"taskdaemon/internal/scheduler"
	"taskdaemon/internal/store"
	"taskdaemon/internal/store/mem"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "run this seed alone")
	simSeeds = flag.Int("sim.seeds", 0, "how many seeds to run; 0: 40, or 2,000 with TASKDAEMON_SOAK")
)

// TestRandomGraphs works through random plans with the real RunNext, scheduler, engine and graph on a simulated clock, while
// people add, tie, close, open and delete tasks and the daemon dies, all decided by a seed. Nothing may run before what it
// waits for is completed, nothing twice at once, each end is written once, and in the end journal and graph agree.
func TestRandomGraphs(t *testing.T) {
	if *simSeed != 0 {
		simulate(t, *simSeed)
		return
	}
	n := *simSeeds
	switch {
	case n > 0:
	case os.Getenv("TASKDAEMON_SOAK") != "":
		n = 2000
	default:
		n = 40
	}
	runs, tasks, deaths := 0, 0, 0
	for seed := uint64(1); seed <= uint64(n) && !t.Failed(); seed++ {
		w := simulate(t, seed)
		runs, tasks, deaths = runs+w.ran, tasks+w.planned, deaths+w.lives-1
	}
	t.Logf("%d seeds: %d tasks, %d runs, %d deaths", n, tasks, runs, deaths)
	if runs == 0 || tasks == 0 || deaths == 0 && n > 10 {
		t.Error("nothing was tried")
	}
}

// world outlives every daemon: the journal, the project, and the ledger.
type world struct {
	t       *testing.T
	seed    uint64
	rnd     *rand.Rand
	root    string
	state   string
	journal *mem.Store

	// turn is held, by putting into it, by who talks to the daemon. A lock would stop the simulated clock.
	turn  chan struct{}
	calls atomic.Uint64 // of the model

	mu      sync.Mutex
	alive   *life
	inside  map[td.TaskID]bool // tasks that are at work
	ran     int                // runs
	lives   int
	planned int
}

func (w *world) faultf(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
}

func simulate(t *testing.T, seed uint64) (w *world) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w = &world{
			t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 3)), root: filepath.Join(dir, "proj"), state: filepath.Join(dir, "state"),
			inside: map[td.TaskID]bool{}, turn: make(chan struct{}, 1),
		}
		if err := graph.Make(w.root); err != nil {
			t.Fatal(err)
		}
		w.journal = mem.New(func(h td.Holder) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.alive != nil && w.alive.holder == h
		})
		w.live()
	})
	return w
}

// live goes through as many daemons as the seed says, and then lets the last one come to the end.
func (w *world) live() {
	deaths := w.rnd.IntN(6)
	for range deaths {
		l := w.start()
		if w.rnd.IntN(2) == 0 {
			l.light(1 + w.rnd.IntN(60))
		}
		ctx, cancel := context.WithTimeout(l.ctx, time.Duration(w.rnd.IntN(60))*time.Second)
		l.bustle(ctx, rand.New(rand.NewPCG(w.rnd.Uint64(), 1)))
		cancel()
		l.crash()
		if w.t.Failed() {
			return
		}
	}
	l := w.start()
	ctx, cancel := context.WithTimeout(l.ctx, 30*time.Second)
	l.bustle(ctx, rand.New(rand.NewPCG(w.rnd.Uint64(), 1)))
	cancel()
	l.toTheEnd()
	if err := l.d.projects.catchUp(l.ctx, w.root); err != nil {
		w.faultf("catch up: %v", err)
	}
	w.agree(l)
	l.crash()
}

// life is one daemon.
type life struct {
	*world
	d      *Daemon
	holder td.Holder
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	fmu  sync.Mutex
	dead bool
	fuse int // the write to the journal from now at which it dies
}

func (w *world) start() *life {
	w.lives++
	l := &life{world: w, holder: td.Holder{Host: fmt.Sprint("life-", w.lives)}}
	l.ctx, l.cancel = context.WithCancel(w.t.Context())
	w.mu.Lock()
	w.alive = l
	w.mu.Unlock()
	log := slog.New(slog.DiscardHandler)
	d := &Daemon{o: Options{StateDir: w.state, Log: log, Getenv: func(string) string { return "" }}, stop: make(chan struct{})}
	l.d = d
	d.journal = &simJournal{w.journal, l}
	d.keeper = coord.NewKeeper(d.journal, l.holder, log)
	d.book = rulebook.New(rulebook.Options{UserDir: w.state, StateDir: w.state, Home: w.state, Config: config.Default()})
	d.projects = newProjects(d)
	if err := d.projects.begin(l.ctx); err != nil {
		w.faultf("begin: %v", err)
	}
	nothing := func(context.Context, *tool.Env, json.RawMessage) (tool.Call, error) { return tool.Call{}, nil }
	d.engine = engine.New(engine.Options{
		Journal: d.journal, Model: &simModel{l}, Models: map[td.Tier]string{td.Worker: "sim", td.Small: "sim", td.Expert: "sim"},
		Tools: tool.NewRegistry(
			tool.Tool{Name: "Complete", Control: tool.CompleteControl, Prepare: nothing},
			tool.Tool{Name: "Fail", Control: tool.FailControl, Prepare: nothing},
		),
		Environment: func(context.Context, string) string { return "" }, Tree: func(context.Context, string) (string, error) { return "", nil },
		Planned: d.plannedAround, MaxTokens: 1, Turns: 100, Reminders: 0, Tool: time.Minute, Permission: time.Hour,
		Retry: engine.RetryTable{Network: []time.Duration{0, time.Second}}, Guard: d.book, Log: log,
	})
	d.sched = scheduler.New(scheduler.Options{Journal: d.journal, Keeper: d.keeper, Loops: 4, Log: log, Retry: 5 * time.Second, Runner: d.engine})
	l.takeUp()
	l.wg.Go(func() { _ = d.keeper.Run(l.ctx) })
	l.wg.Go(func() { _ = d.projects.run(l.ctx) })
	l.wg.Go(func() { _ = d.projects.watch(l.ctx) })
	l.wg.Go(func() {
		if err := d.sched.Run(l.ctx); err != nil && !l.isDead() {
			w.faultf("scheduler: %v", err)
		}
	})
	return l
}

// takeUp does what recovery does for tasks that ran.
func (l *life) takeUp() {
	running, err := l.journal.Tasks(l.ctx, store.TaskFilter{States: []td.State{td.Running}})
	if err != nil {
		l.faultf("take up: %v", err)
	}
	for _, t := range running {
		if err := l.d.under(l.ctx, t, func(t td.Task, at time.Time) (td.Move, error) { return td.Recover(t, "crashed", at) }); err != nil {
			l.faultf("take up %s: %v", t.Handle, err)
		}
	}
}

func (l *life) isDead() bool {
	l.fmu.Lock()
	defer l.fmu.Unlock()
	return l.dead
}

func (l *life) light(n int) {
	l.fmu.Lock()
	defer l.fmu.Unlock()
	l.fuse = n
}

// burn counts a write, and reports whether the daemon is dead by it.
func (l *life) burn() bool {
	l.fmu.Lock()
	defer l.fmu.Unlock()
	if l.fuse > 0 {
		if l.fuse--; l.fuse == 0 {
			l.dead = true
		}
	}
	return l.dead
}

// crash ends the life: nothing it does reaches the journal any more.
func (l *life) crash() {
	l.fmu.Lock()
	l.dead = true
	l.fmu.Unlock()
	l.world.mu.Lock()
	l.alive = nil
	l.world.mu.Unlock()
	l.d.sched.Kill()
	l.cancel()
	l.wg.Wait()
	l.d.projects.close()
	l.world.mu.Lock()
	clear(l.inside)
	l.world.mu.Unlock()
}

var errDead = td.Errorf(td.Unavailable, "this daemon is dead")

// simJournal is the daemon's way to the journal, which ends with it.
type simJournal struct {
	store.Journal
	l *life
}

func (j *simJournal) Create(ctx context.Context, s td.Spec, key string) (td.Task, error) {
	if j.l.burn() {
		return td.Task{}, errDead
	}
	return j.Journal.Create(ctx, s, key)
}

func (j *simJournal) Append(ctx context.Context, c td.Claim, after uint64, evs ...td.Event) (td.Task, error) {
	if j.l.burn() {
		return td.Task{}, errDead
	}
	for _, ev := range evs {
		if s, sealed := ev.Body.(td.Sealed); sealed {
			ev.Body = s.Body
		}
		switch b := ev.Body.(type) {
		case td.Moved:
			j.l.leave(c.Task)
			if b.Verb == td.VerbStart {
				j.l.enter(c.Task)
			}
		case td.ContextSet:
			j.l.mayBegin(c.Task)
		}
	}
	return j.Journal.Append(ctx, c, after, evs...)
}

func (j *simJournal) SetCursor(ctx context.Context, name string, at uint64) error {
	if j.l.burn() {
		return errDead
	}
	return j.Journal.SetCursor(ctx, name, at)
}

func (j *simJournal) Post(ctx context.Context, task td.TaskID, cmd td.Command) error {
	if j.l.burn() {
		return errDead
	}
	return j.Journal.Post(ctx, task, cmd)
}

// enter notes that a run of a task begins.
func (l *life) enter(id td.TaskID) {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	if l.inside[id] {
		l.faultf("%s runs twice at once", id)
	}
	l.inside[id] = true
	l.ran++
}

func (l *life) leave(id td.TaskID) {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	delete(l.inside, id)
}

// simModel ends tasks: most are completed, some fail, some have to be begun again.
type simModel struct{ l *life }

func (m *simModel) Provider() string { return "sim" }

func (m *simModel) Stream(ctx context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	dice := rand.New(rand.NewPCG(m.l.seed, m.l.calls.Add(1)))
	select {
	case <-time.After(time.Duration(100+dice.IntN(4000)) * time.Millisecond):
	case <-ctx.Done():
		return llm.Response{}, context.Cause(ctx)
	}
	name, input := "Complete", `{"summary":"done"}`
	switch dice.IntN(8) {
	case 0:
		name, input = "Fail", `{"reason":"it cannot be done"}`
	case 1: // neither: the next iteration
		return llm.Response{Model: "sim", StopReason: td.EndTurn, Message: td.Message{Role: td.Assistant, Blocks: []td.Block{{Type: td.TextBlock, Text: "hm"}}}}, nil
	}
	return llm.Response{Model: "sim", StopReason: td.StopToolUse, Message: td.Message{Role: td.Assistant, Blocks: []td.Block{
		{Type: td.ToolUseBlock, ID: "u", Name: name, Input: json.RawMessage(input)},
	}}}, nil
}
