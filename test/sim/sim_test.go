package sim

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

var (
	seedFlag  = flag.Uint64("sim.seed", 0, "run this seed alone")
	seedsFlag = flag.Int("sim.seeds", 0, "how many seeds to run; 0: 2,500, or a million with TASKDAEMON_SOAK")
)

func seeds() int {
	switch {
	case *seedsFlag > 0:
		return *seedsFlag
	case os.Getenv("TASKDAEMON_SOAK") != "":
		return 1_000_000
	case raceEnabled:
		return 200
	}
	return 2_500
}

// TestHostsThatCrash is the promise of the project, in small: whatever dies whenever, every task ends,
// nothing recorded is done again, no effect happens twice unless a person said so.
func TestHostsThatCrash(t *testing.T) {
	dir := t.TempDir()
	if *seedFlag != 0 {
		simulate(t, dir, *seedFlag)
		return
	}
	// Every seed builds a world and throws it away: most of what there is to collect is collected at its end.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	var next atomic.Uint64
	var sum tally
	var wg sync.WaitGroup
	began := time.Now()
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				seed := next.Add(1)
				if seed > uint64(seeds()) || t.Failed() {
					return
				}
				sum.add(simulate(t, dir, seed))
			}
		})
	}
	wg.Wait()
	t.Logf("%d seeds, %.0f a second: %v", seeds(), float64(seeds())/time.Since(began).Seconds(), &sum)
}

func simulate(t *testing.T, dir string, seed uint64) (sh shape) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		sh = shapeOf(seed, rnd)
		w := newWorld(dir, rnd)
		w.shared, w.alone = sh.shared, sh.alone
		if sh.branches {
			w.branches = newBranches(sh.failing)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var hosts []*host
		for i := range sh.hosts {
			hosts = append(hosts, w.start(ctx, fmt.Sprint("h", i)))
		}
		ids := w.add(ctx, t, hosts, sh.tasks)
		var mu sync.Mutex // guards hosts against the person, who has dice of their own
		dice := rand.New(rand.NewPCG(seed, 2))
		some := func() *host {
			mu.Lock()
			defer mu.Unlock()
			return hosts[dice.IntN(len(hosts))]
		}
		stopAnswering := w.answerEverything(ctx, t, some)
		stopCommitting := func() {}
		if sh.branches {
			stopCommitting = w.commitByHand(ctx, t, some, ids, 3)
		}
		for range sh.crashes {
			i := rnd.IntN(len(hosts))
			if rnd.IntN(2) == 0 {
				hosts[i].light(1+rnd.IntN(40), rnd.IntN(2) == 0)
			}
			time.Sleep(time.Duration(rnd.IntN(8000)) * time.Millisecond)
			switch rnd.IntN(4) {
			case 0:
				hosts[i].mu.Lock()
				hosts[i].deaf = true
				hosts[i].mu.Unlock()
				time.Sleep(20 * time.Second)
				fallthrough
			case 1:
				hosts[i].crash(true)
			default:
				hosts[i].crash(false)
			}
			time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
			next := w.start(ctx, fmt.Sprint("r", i))
			mu.Lock()
			hosts[i] = next
			mu.Unlock()
		}
		deadline := time.Now().Add(2 * time.Hour)
		for !w.allEnded(ctx, t, ids) {
			if time.Now().After(deadline) {
				t.Errorf("seed %d: tasks still live after two hours", seed)
				break
			}
			time.Sleep(time.Second)
		}
		stopAnswering()
		stopCommitting()
		for _, h := range hosts {
			h.sched.Stop()
			<-h.done
		}
		w.check(ctx, t, seed, ids)
	})
	return sh
}

func (w *world) add(ctx context.Context, t *testing.T, hosts []*host, n int) []td.TaskID {
	var ids []td.TaskID
	for i := range n {
		id := td.NewTaskID()
		dir := fmt.Sprintf("%s/%d", w.dir, i)
		if w.shared {
			dir = fmt.Sprintf("%s/%d", w.dir, i/2)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		task, err := w.journal.Create(ctx, w.worktree(td.Spec{
			ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Title: "sim",
			Prompt: fmt.Sprint("task ", i, w.rnd.Uint64()), Dir: dir, Mode: td.Autonomous, Tier: td.Worker,
			Yes: i%2 == 0, CreatedAt: time.Now().UTC().Round(0),
		}), string(id))
		if err != nil {
			t.Fatal(err)
		}
		hosts[w.rnd.IntN(len(hosts))].sched.Wake(ctx, task, false)
		ids = append(ids, id)
	}
	return ids
}

// answerEverything is the person: every request gets an answer, sometimes two, through the inbox.
func (w *world) answerEverything(ctx context.Context, t *testing.T, some func() *host) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-time.After(700 * time.Millisecond):
			}
			if err := w.resumeBlocked(ctx, some, n); err != nil {
				return
			}
			waiting, err := w.journal.Tasks(ctx, store.TaskFilter{States: []td.State{td.Waiting}})
			if err != nil {
				return
			}
			for _, task := range waiting {
				for _, r := range task.Requests {
					choice := td.Yes
					switch r.About {
					case td.AboutUnknown:
						choice = td.Retry
						w.askedAbout(task.ID, r)
					case td.AboutRebase:
						choice = td.RebaseSkip
					}
					for k := range 2 {
						err := w.journal.Post(ctx, task.ID, td.Command{
							Key: fmt.Sprintf("%s/%d", r.ID, k), Type: td.CmdAnswer, At: time.Now().UTC().Round(0),
							Answer: &td.Answer{Request: r.ID, Choice: choice},
						})
						if err != nil && ctx.Err() == nil {
							t.Error(err)
						}
					}
				}
				some().sched.Wake(ctx, task, false)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// resumeBlocked lets tasks go on whose worktree could not be made.
func (w *world) resumeBlocked(ctx context.Context, some func() *host, n int) error {
	if w.branches == nil {
		return nil
	}
	blocked, err := w.journal.Tasks(ctx, store.TaskFilter{States: []td.State{td.Blocked}})
	for _, task := range blocked {
		if task.Status.Blocked.Resource != w.dir {
			continue
		}
		err = w.journal.Post(ctx, task.ID, td.Command{Key: fmt.Sprint("resume/", n), Type: td.CmdResume, At: time.Now().UTC().Round(0)})
		some().sched.Wake(ctx, task, false)
	}
	return err
}

// askedAbout notes that a person was asked what became of an effect, and said to run it again.
func (w *world) askedAbout(task td.TaskID, r td.Request) {
	var turn, call int
	if _, err := fmt.Sscanf(string(r.Step), "t%d.%d", &turn, &call); err != nil {
		w.fault("request about step %q: %v", r.Step, err)
	}
	effect := fmt.Sprintf(`%s{"call":"%d.%d"}`, task, turn-1, call)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost[effect] == nil {
		w.lost[effect] = map[td.RequestID]bool{}
	}
	w.lost[effect][r.ID] = true
}

func (w *world) allEnded(ctx context.Context, t *testing.T, ids []td.TaskID) bool {
	for _, id := range ids {
		task, err := w.journal.Task(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if !task.Status.State.Terminal() {
			return false
		}
	}
	return true
}

func (w *world) check(ctx context.Context, t *testing.T, seed uint64, ids []td.TaskID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		t.Errorf("seed %d: %s", seed, f)
	}
	for effect, n := range w.ran {
		if asked := len(w.lost[effect]); n > 1+asked {
			t.Errorf("seed %d: the effect %s happened %d times and was asked about %d times", seed, effect, n, asked)
		}
	}
	for path, n := range w.written {
		if n != 1 {
			t.Errorf("seed %d: %s was written %d times", seed, path, n)
		}
	}
	var tasks []td.Task
	for _, id := range ids {
		task, err := w.journal.Task(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, task)
		if task.Status.State != td.Completed {
			t.Errorf("seed %d: %s is %s: %+v", seed, task.Handle, task.Status.State, task.Status.Failed)
		}
		ended := map[td.StepKey]int{}
		folded := td.Task{}
		for ev, err := range w.journal.Read(ctx, id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if folded, err = folded.Apply(ev); err != nil {
				t.Errorf("seed %d: %s: %v", seed, task.Handle, err)
			}
			if b, ok := ev.Body.(td.StepEnded); ok && b.Tool != nil {
				if ended[b.Key]++; ended[b.Key] > 1 && b.Key != td.PlaceKey && b.Key != td.RebaseKey {
					t.Errorf("seed %d: %s: step %s ended twice", seed, task.Handle, b.Key)
				}
				// A merge that conflicts, and the nomination with it, goes back to the agent.
				if b.Tool.IsError && w.branches == nil {
					t.Errorf("seed %d: %s: step %s went wrong: %s", seed, task.Handle, b.Key, b.Tool.Content)
				}
			}
		}
	}
	if w.branches != nil {
		w.checkBranches(t, seed, tasks)
	}
}
