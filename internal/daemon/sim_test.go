package daemon

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"iter"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/config"
	"taskdaemon/internal/coord"
	"taskdaemon/internal/engine"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/rulebook"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/scheduler"
	"taskdaemon/internal/store"
	"taskdaemon/internal/store/mem"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/worktree"
	"taskdaemon/internal/worktree/worktreetest"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "run this seed alone")
	simTimes = flag.Int("sim.times", 20, "how often to run that seed, until it fails: goroutines that act at the same instant may do so in another order; a failure says how often it takes")
	simSeeds = flag.Int("sim.seeds", 0, "how many seeds to run; 0: 1,000, 400 with -short, 50,000 with TASKDAEMON_SOAK")
)

// TestRandomGraphs works through random plans with the real runs, scheduler, engine and graph on a simulated clock, and with the
// real worktrees, trunks and merges on a model of git, while people add, tie, close, open and delete tasks, git is slow, the
// disk is full, claims get lost and the daemon dies, all decided by a seed. Nothing may run before what it waits for is completed, or
// without what that made; nothing twice at once; each end is written once, and the work of what is completed is in the history once;
// nothing that an agent wrote is ever lost; and in the end journal and graph agree.
func TestRandomGraphs(t *testing.T) {
	dir := t.TempDir()
	if *simSeed != 0 {
		for n := 1; n <= *simTimes && !t.Failed(); n++ {
			simulate(t, dir, *simSeed)
		}
		return
	}
	n := *simSeeds
	switch {
	case n > 0:
	case os.Getenv("TASKDAEMON_SOAK") != "":
		n = 50_000
	case raceEnabled:
		n = 40
	case testing.Short():
		n = 400
	default:
		n = 1_000
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // every seed builds a world and throws it away
	var next atomic.Uint64
	var sum tallied
	var bad atomic.Uint64 // a seed that failed
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			var seed uint64
			defer func() { bad.CompareAndSwap(0, seed) }() // a failed simulation ends its goroutine
			for {
				seed = next.Add(1)
				if seed > uint64(n) || t.Failed() {
					seed = 0
					return
				}
				sum.add(simulate(t, dir, seed))
			}
		})
	}
	wg.Wait()
	if seed := bad.Load(); seed != 0 {
		t.Error(again(t, seed))
	}
	t.Logf("%d seeds: %v", n, &sum)
	if n >= 100 && !t.Failed() && slices.Contains(sum.all(), 0) {
		t.Error("something was not tried")
	}
}

// again says what to type to have the failure of a seed again, and how often it came just now when the seed was run alone. The seed decides all but the order of goroutines
// that act at the same instant: the real runs, scheduler and engine start them, and Go offers no way to order them. So a failure that hangs on such an order comes at a rate.
func again(t *testing.T, seed uint64) string {
	const tries = 40
	failed := 0
	for range tries {
		err := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestRandomGraphs$", "-sim.seed", fmt.Sprint(seed), "-sim.times", "1").Run()
		if err != nil {
			failed++
		}
	}
	return fmt.Sprintf("seed %d failed in %d of %d runs alone; to run it until it fails: go test ./internal/daemon -run '^TestRandomGraphs$' -sim.seed %d -sim.times %d",
		seed, failed, tries, seed, timesFor(failed, tries))
}

// timesFor is how often a seed is to be run that failed so often, so that it fails in 99 of 100 such attempts. One that did not fail again may fail in one of so many runs.
func timesFor(failed, tries int) int {
	if failed == tries {
		return 1
	}
	rate := (float64(failed) + 0.5) / (float64(tries) + 1)
	return int(math.Ceil(math.Log(0.01) / math.Log(1-rate)))
}

func TestTimesFor(t *testing.T) {
	for failed, want := range map[int]int{40: 1, 39: 2, 20: 7, 1: 124, 0: 376} {
		if got := timesFor(failed, 40); got != want {
			t.Errorf("failed in %d of 40: %d times, want %d", failed, got, want)
		}
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
	turn chan struct{}

	diceMu sync.Mutex
	thrown time.Time         // when dice were thrown last
	throws map[uint64]uint64 // how often at that instant, by who threw them

	shape shape
	trees *orchard // if tasks have worktrees

	features []string // ids of the PRDs

	mu      sync.Mutex
	alive   *life
	inside  map[td.TaskID]bool // tasks that are at work
	resets  map[td.TaskID]int  // how often a task that had ended began anew
	ran     int                // runs
	lives   int
	planned int
	log     []jsonl.Change // of the graph, as far as it was read
	logSize int64
}

// dice decide what happens now. They depend on the seed, the simulated time and who throws them, not on the order that goroutines run in. Whoever waits does so for a
// random number of nanoseconds and is rarely there together with others: a seed mostly comes to the same again; see again.
func (w *world) dice() *rand.Rand {
	var stack [40]uintptr
	who := fnv.New64a()
	for _, pc := range stack[:runtime.Callers(2, stack[:])] {
		_ = binary.Write(who, binary.LittleEndian, uint64(pc))
	}
	w.diceMu.Lock()
	defer w.diceMu.Unlock()
	if now := time.Now(); !now.Equal(w.thrown) {
		w.thrown, w.throws = now, map[uint64]uint64{}
	}
	key := who.Sum64()
	w.throws[key]++
	return rand.New(rand.NewPCG(w.seed^key, uint64(w.thrown.UnixNano())+w.throws[key]<<56))
}

func (w *world) faultf(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
}

func simulate(t *testing.T, under string, seed uint64) (w *world) {
	dir := filepath.Join(under, fmt.Sprint(seed))
	defer os.RemoveAll(dir)
	synctest.Test(t, func(t *testing.T) {
		w = &world{
			t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 3)), root: filepath.Join(dir, "proj"), state: filepath.Join(dir, "state"),
			inside: map[td.TaskID]bool{}, resets: map[td.TaskID]int{}, turn: make(chan struct{}, 1),
		}
		if err := os.MkdirAll(w.root, 0o700); err != nil {
			t.Fatal(err)
		}
		if w.shape = shapeOf(seed, w.rnd); w.shape.trees {
			w.trees = newOrchard(w)
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
	for range w.shape.deaths {
		l := w.start()
		if w.rnd.IntN(2) == 0 {
			l.light(1 + w.rnd.IntN(120))
		}
		ctx, cancel := context.WithTimeout(l.ctx, time.Duration(w.rnd.Int64N(int64(w.shape.bustle))))
		l.bustle(ctx, rand.New(rand.NewPCG(w.rnd.Uint64(), 1)))
		cancel()
		if w.trees != nil && w.rnd.IntN(2) == 0 {
			l.quiet()
		}
		l.crash()
		if w.t.Failed() {
			return
		}
	}
	l := w.start()
	ctx, cancel := context.WithTimeout(l.ctx, w.shape.bustle/2)
	l.bustle(ctx, rand.New(rand.NewPCG(w.rnd.Uint64(), 1)))
	cancel()
	if w.trees != nil {
		l.quiet()
	}
	l.toTheEnd()
	if err := l.d.projects.catchUp(l.ctx, w.root); err != nil {
		w.faultf("catch up: %v", err)
	}
	w.agree(l)
	if w.trees != nil {
		w.trees.check(l)
	}
	l.crash()
}

// nobody uses folders that are not there.
func nobody(string) ([]sandbox.User, error) { return nil, nil }

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
	deaf time.Time // until when it cannot renew its claims
	fuse int       // the write to the journal or the repository from now at which it dies
}

func (w *world) start() *life {
	w.lives++
	l := &life{world: w, holder: td.Holder{Host: fmt.Sprint("life-", w.lives)}}
	l.ctx, l.cancel = context.WithCancel(w.t.Context())
	w.mu.Lock()
	w.alive = l
	w.mu.Unlock()
	log := slog.New(slog.DiscardHandler)
	conf := config.Config{Worktree: config.Worktree{Use: config.WorktreeOff}, Leases: config.Default().Leases}
	if w.trees != nil {
		conf.Worktree = config.Worktree{Use: config.WorktreeAuto, Trunk: w.shape.trunk, Warn: 101, Stop: 101}
	}
	d := &Daemon{markIn: unmarked, o: Options{StateDir: w.state, Log: log, Getenv: func(string) string { return "" }, Config: conf}, stop: make(chan struct{})}
	l.d = d
	d.trees = &worktree.Trees{Git: worktreetest.Hands{Repo: w.trees.of(), Do: l.git}, Config: func(string) config.Worktree { return conf.Worktree }, Log: log, Journal: removals{d}, Using: nobody}
	d.journal = &simJournal{w.journal, l}
	d.keeper = coord.NewKeeper(d.journal, l.holder, log)
	d.book = rulebook.New(rulebook.Options{UserDir: w.state, StateDir: w.state, Home: w.state, Config: config.Default()})
	d.projects, d.runs, d.trunks = newProjects(d), newRuns(d), newTrunks(d)
	var err error
	if d.own, err = openStream(l.ctx, d.journal, d.keeper); err != nil {
		w.faultf("open the daemon's log: %v", err)
	}
	if err := d.projects.begin(l.ctx); err != nil {
		w.faultf("begin: %v", err)
	}
	if d.cutOff, err = d.underWay(l.ctx, td.RemoveStep); err != nil {
		w.faultf("look for removals: %v", err)
	}
	nothing := func(_ context.Context, _ *tool.Env, in json.RawMessage) (tool.Call, error) {
		return tool.Call{Input: in}, nil
	}
	d.engine = engine.New(engine.Options{
		Journal: d.journal, Model: &simModel{l}, Models: map[td.Tier]string{td.Worker: "sim", td.Small: "sim", td.Expert: "sim"},
		Tools: tool.NewRegistry(
			tool.Tool{Name: "Complete", Control: tool.CompleteControl, Prepare: nothing},
			tool.Tool{Name: "Fail", Control: tool.FailControl, Prepare: nothing},
			tool.Tool{Name: "Write", Prepare: l.write},
			tool.Tool{Name: "Merge", Prepare: l.merge},
		),
		Worktrees: d.trees, Leases: d.leases(), Spool: idle{},
		Environment: func(context.Context, string, string) string { return "" }, Tree: func(context.Context, string) (string, error) { return "", nil },
		Planned: d.plannedAround, MaxTokens: 1, Turns: 100, Reminders: 0, Tool: time.Minute, Permission: time.Hour,
		Retry: engine.RetryTable{Network: []time.Duration{0, time.Second}}, Guard: d.book, Log: log,
	})
	d.sched = scheduler.New(scheduler.Options{Journal: d.journal, Keeper: d.keeper, Loops: 4, Log: log, Retry: 5 * time.Second, Wait: conf.Leases.Wait, Runner: d.engine})
	l.takeUp()
	l.wg.Go(func() { _ = d.keeper.Run(l.ctx) })
	l.wg.Go(func() { _ = d.projects.run(l.ctx) })
	l.wg.Go(func() { _ = d.projects.watch(l.ctx) })
	l.wg.Go(func() { _ = d.runs.run(l.ctx) })
	if w.trees != nil {
		l.wg.Go(func() { _ = d.trunks.loop(l.ctx, nil, nil, func(string) {}) })
		l.wg.Go(func() { _ = newClearing(d).run(l.ctx) })
	}
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
	j.l.planted(s)
	t, err := j.Journal.Create(ctx, s, key)
	if err != nil || t.ID != s.ID { // the daemon's end came first, or the task was there
		j.l.uprooted(s)
	}
	return t, err
}

// HolderOf knows who is alive: the holders of a simulation are no processes.
func (j *simJournal) HolderOf(ctx context.Context, id td.TaskID) (td.Claim, bool, error) {
	c, ok, err := j.Journal.HolderOf(ctx, id)
	return c, ok && c.Holder == j.l.holder, err
}

func (j *simJournal) Renew(ctx context.Context, h td.Holder) (map[td.TaskID]uint64, error) {
	j.l.fmu.Lock()
	deaf := j.l.dead || time.Now().Before(j.l.deaf)
	j.l.fmu.Unlock()
	if deaf {
		return nil, errDead
	}
	return j.Journal.Renew(ctx, h)
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
			switch b.Verb {
			case td.VerbStart:
				j.l.enter(c.Task)
			case td.VerbReset:
				if b.Status.Reason != "resumed by a person" { // who looked before it ended
					j.l.mayReset(c.Task)
				}
			}
			j.l.harvested(c.Task, b.Status)
		case td.ContextSet:
			j.l.mayBegin(c.Task)
			j.l.resumes(c.Task)
		case td.FellBehind:
			j.l.leftBehind(c.Task, b)
		}
	}
	return j.Journal.Append(ctx, c, after, evs...)
}

// Tasks and Follow take a while now and then: what was read is old by the time it is looked at.
func (j *simJournal) Tasks(ctx context.Context, f store.TaskFilter) ([]td.Task, error) {
	found, err := j.Journal.Tasks(ctx, f)
	if f.States != nil { // those of all are read under a lock, at which the simulated clock stands still
		j.l.dawdle()
	}
	return found, err
}

func (j *simJournal) Follow(ctx context.Context, f store.EventFilter, after uint64) iter.Seq2[td.Record, error] {
	j.l.dawdle()
	return j.Journal.Follow(ctx, f, after)
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
	if cmd.Type == td.CmdOrder {
		j.l.ordered(task)
	}
	return j.Journal.Post(ctx, task, cmd)
}

// dawdle waits: one time in many for long.
func (l *life) dawdle() {
	dice, most := l.dice(), 100*time.Microsecond
	if dice.IntN(10) == 0 {
		most = time.Second
	}
	<-time.After(time.Duration(dice.Int64N(int64(most))))
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
