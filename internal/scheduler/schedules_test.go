package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/coord"
	"taskdaemon/internal/store"
	"taskdaemon/internal/store/mem"
	"taskdaemon/internal/td"
)

// schedules is how many random schedules are tried.
func schedules() uint64 {
	switch {
	case os.Getenv("TASKDAEMON_SOAK") != "":
		return 50_000
	case raceEnabled:
		return 50
	}
	return 300
}

// TestRandomSchedules: tasks of several projects and folders come, ask, are answered, paused, resumed, cancelled and blocked, run into
// errors and panics and lose their claims, and the scheduler is killed, all decided by a seed. Whenever nothing moves, all that may run
// does while there is room, all that was said was heard, each task stands in one queue once, and nobody has been overtaken.
func TestRandomSchedules(t *testing.T) {
	var sum yard
	for seed := uint64(1); seed <= schedules() && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			y := newYard(t, seed)
			y.live()
			sum.runs, sum.looks, sum.panics, sum.lost = sum.runs+y.runs, sum.looks+y.looks, sum.panics+y.panics, sum.lost+y.lost
			sum.full, sum.crowded = sum.full+y.full, sum.crowded+y.crowded
		})
	}
	t.Logf("%d schedules: %d runs, %d panics, %d lost claims; looked at %d times, %d of them with all places taken, %d with somebody kept out by their project or folder",
		schedules(), sum.runs, sum.panics, sum.lost, sum.looks, sum.full, sum.crowded)
	if !t.Failed() && slices.Contains([]int{sum.runs, sum.panics, sum.lost, sum.looks, sum.full, sum.crowded}, 0) {
		t.Error("something was not tried")
	}
}

// yardRetry is how long a task rests after an error.
const yardRetry = 7 * time.Second

// yard is what outlives every scheduler: the journal, and a ledger of who runs.
type yard struct {
	t       *testing.T
	seed    uint64
	rnd     *rand.Rand
	journal *mem.Store
	loops   int
	project int

	mu      sync.Mutex
	dice    *rand.Rand // of those who run
	pid     int        // of the one that is alive
	deaf    time.Time  // until when claims cannot be renewed
	running map[td.TaskID]td.Task
	attends map[td.TaskID]bool   // somebody looks at it
	began   []td.Task            // since somebody last looked
	touched map[td.TaskID]bool   // of whom somebody wanted something since then
	rests   map[string]time.Time // until when a task may rest, by its handle
	waited  []td.Task            // those who could have run and for whom there was no place when somebody last looked

	runs, looks, panics, lost, full, crowded int
}

func newYard(t *testing.T, seed uint64) *yard {
	rnd := rand.New(rand.NewPCG(seed, 11))
	y := &yard{
		t: t, seed: seed, rnd: rnd, dice: rand.New(rand.NewPCG(seed, 12)), loops: 1 + rnd.IntN(4), project: rnd.IntN(3),
		running: map[td.TaskID]td.Task{}, attends: map[td.TaskID]bool{}, touched: map[td.TaskID]bool{}, rests: map[string]time.Time{},
	}
	y.journal = mem.New(func(h td.Holder) bool {
		y.mu.Lock()
		defer y.mu.Unlock()
		return h.Pid == y.pid
	})
	return y
}

func (y *yard) faultf(format string, args ...any) {
	y.t.Helper()
	y.t.Errorf("seed %d: %s", y.seed, fmt.Sprintf(format, args...))
}

// roll is a number that those who run get.
func (y *yard) roll(n int) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.dice.IntN(n)
}

// enter notes that a task runs, and complains if that is one too many.
func (y *yard) enter(t td.Task) (leave func()) {
	y.mu.Lock()
	defer y.mu.Unlock()
	inProject, inDir := 0, 0
	for _, r := range y.running {
		if r.Project == t.Project && t.Project != "" {
			inProject++
		}
		if r.Dir == t.Dir {
			inDir++
		}
	}
	switch _, twice := y.running[t.ID]; {
	case twice:
		y.faultf("%s runs twice at once", t.Title)
	case len(y.running) >= y.loops:
		y.faultf("%d run, and there are %d places", len(y.running)+1, y.loops)
	case y.project > 0 && inProject >= y.project:
		y.faultf("%d of %s run, of which %d may", inProject+1, t.Project, y.project)
	case inDir > 0:
		y.faultf("two run in %s", t.Dir)
	}
	y.running[t.ID] = t
	y.began = append(y.began, t)
	y.runs++
	return func() {
		y.mu.Lock()
		defer y.mu.Unlock()
		delete(y.running, t.ID)
	}
}

func (y *yard) attend(id td.TaskID, is bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.attends[id] = is
}

// listener is a log in which the scheduler says that a task rests.
type listener struct {
	slog.Handler
	y *yard
}

func (l listener) Enabled(context.Context, slog.Level) bool { return true }

func (l listener) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "task rests" {
		return nil
	}
	l.y.mu.Lock()
	defer l.y.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool {
		switch err, is := a.Value.Any().(error); {
		case a.Key == "task":
			l.y.rests[a.Value.String()] = time.Now().Add(yardRetry)
		case is && errors.Is(err, coord.ErrClaimLost):
			l.y.lost++
		}
		return true
	})
	return nil
}

// deafJournal cannot always renew claims.
type deafJournal struct {
	*mem.Store
	y *yard
}

func (j deafJournal) Renew(ctx context.Context, h td.Holder) (map[td.TaskID]uint64, error) {
	j.y.mu.Lock()
	deaf := time.Now().Before(j.y.deaf)
	j.y.mu.Unlock()
	if deaf {
		return nil, errors.New("the journal does not answer")
	}
	return j.Store.Renew(ctx, h)
}

// shift is one scheduler's life.
type shift struct {
	sched  *Scheduler
	store  *mem.Store
	cancel context.CancelFunc
	done   chan struct{}
	wg     sync.WaitGroup
}

func (y *yard) start() *shift {
	y.mu.Lock()
	y.pid++
	pid := y.pid
	clear(y.rests) // a new one knows of no rest
	y.waited, y.began = nil, nil
	y.mu.Unlock()
	ctx, cancel := context.WithCancel(y.t.Context())
	s := &shift{store: y.journal.Open(), cancel: cancel, done: make(chan struct{})}
	log := slog.New(listener{slog.DiscardHandler, y})
	keeper := coord.NewKeeper(deafJournal{s.store, y}, td.Holder{Host: "h", Pid: pid}, log)
	s.sched = New(Options{
		Journal: s.store, Keeper: keeper, Runner: &player{y, s.store}, Loops: y.loops, Project: func(string) int { return y.project }, Log: log, Retry: yardRetry, Wait: time.Hour,
	})
	s.wg.Go(func() { _ = keeper.Run(ctx) })
	s.wg.Go(func() {
		defer close(s.done)
		if err := s.sched.Run(ctx); err != nil {
			y.faultf("the scheduler: %v", err)
		}
	})
	return s
}

// end stops a scheduler, as one stops a daemon or as one kills it, and sees that it has let go of everything.
func (y *yard) end(s *shift, kill bool) {
	if kill {
		_ = s.store.Close()
		s.sched.Kill()
	} else {
		y.hear()
		s.sched.Stop()
		<-s.done
	}
	s.cancel()
	s.wg.Wait()
	y.hear()
	if q := s.sched; q.busy != 0 || len(q.busyIn) > 0 || len(q.dirs) > 0 || len(q.running) > 0 {
		y.faultf("places are leaked: %d, %v, %v, %v", q.busy, q.busyIn, q.dirs, q.running)
	}
}

// hear lets claims be renewed again.
func (y *yard) hear() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.deaf = time.Time{}
}

// live goes through as many schedulers as the seed says.
func (y *yard) live() {
	s := y.start()
	for range y.rnd.IntN(3) {
		y.bustle(s, 20+y.rnd.IntN(40))
		y.end(s, y.rnd.IntN(2) == 0)
		s = y.start()
	}
	y.bustle(s, 40)
	y.hear()
	for n := 0; ; n++ {
		open, err := y.journal.Tasks(y.t.Context(), store.TaskFilter{States: store.Live})
		if err != nil {
			y.t.Fatal(err)
		}
		if len(open) == 0 || y.t.Failed() {
			break
		}
		if n > 2000 {
			y.faultf("%s stays %s", open[0].Title, open[0].Status.State)
			break
		}
		for _, t := range open {
			y.help(s, t)
		}
		time.Sleep(3 * time.Second)
		y.look(s)
	}
	y.end(s, false)
	if pending, err := y.journal.Pending(y.t.Context()); err != nil || len(pending) > 0 && !y.t.Failed() {
		y.faultf("nobody heard what was said to %v, %v", pending, err)
	}
}

// bustle is a while with people and time.
func (y *yard) bustle(s *shift, times int) {
	for range times {
		switch n := y.rnd.IntN(20); {
		case n < 5:
			y.add(s)
		case n == 5:
			y.mu.Lock()
			y.deaf = time.Now().Add(time.Duration(y.rnd.IntN(25)) * time.Second)
			y.mu.Unlock()
		case n < 14:
			if open, err := y.journal.Tasks(y.t.Context(), store.TaskFilter{States: store.Live}); err == nil && len(open) > 0 {
				t := open[y.rnd.IntN(len(open))]
				switch y.rnd.IntN(8) {
				case 0:
					y.say(s, t, td.Command{Type: td.CmdCancel}, true)
				case 1, 2:
					y.say(s, t, td.Command{Type: td.CmdPause}, y.rnd.IntN(2) == 0)
				default:
					y.help(s, t)
				}
			}
		}
		time.Sleep(time.Duration(y.rnd.IntN(3000)) * time.Millisecond)
		y.look(s)
		if y.t.Failed() {
			return
		}
	}
}

func (y *yard) add(s *shift) {
	spec := td.Spec{
		ID: td.NewTaskID(), Title: fmt.Sprint("t", y.rnd.Uint32()), Priority: y.rnd.IntN(5), Mode: td.Autonomous, Tier: td.Worker, Prompt: "p",
		CreatedAt: time.Now().Add(-time.Duration(y.rnd.Int64N(int64(4 * aging)))).UTC().Round(0),
	}
	spec.Handle = td.Handle(td.TaskHandle, string(spec.ID), td.HandleLength)
	spec.Dir = "/" + spec.Handle
	switch y.rnd.IntN(4) {
	case 0:
		spec.Dir = fmt.Sprint("/shared", y.rnd.IntN(2))
	case 1:
		spec.Project = fmt.Sprint("/project", y.rnd.IntN(2))
	}
	t, err := y.journal.Create(y.t.Context(), spec, string(spec.ID))
	if err != nil {
		y.t.Fatal(err)
	}
	y.touch(t.ID)
	s.sched.Wake(y.t.Context(), t, false)
}

func (y *yard) touch(id td.TaskID) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.touched[id] = true
}

// say puts a command into the inbox of a task, now and then twice.
func (y *yard) say(s *shift, t td.Task, c td.Command, urgent bool) {
	c.Key, c.At, c.By = string(td.NewRequestID()), time.Now().UTC().Round(0), "ann"
	y.touch(t.ID)
	for range 1 + y.rnd.IntN(2) {
		if err := y.journal.Post(y.t.Context(), t.ID, c); err != nil {
			y.t.Fatal(err)
		}
		s.sched.Wake(y.t.Context(), t, urgent)
	}
}

// help lets a task go on that waits for a person.
func (y *yard) help(s *shift, t td.Task) {
	switch {
	case t.Status.State == td.Paused:
		y.say(s, t, td.Command{Type: td.CmdResume}, false)
	case len(t.Requests) > 0:
		y.say(s, t, td.Command{Type: td.CmdAnswer, Answer: &td.Answer{Request: t.Requests[0].ID, Choice: td.Yes}}, false)
	}
}
