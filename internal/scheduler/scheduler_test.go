package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/coord"
	"taskdaemon/internal/store/mem"
	"taskdaemon/internal/td"
)

// runner completes each task after a second, and notes what it was given.
type runner struct {
	journal *mem.Store
	fail    map[string]error

	mu      sync.Mutex
	started []string
	now     map[string]int // runs under way, by folder
	most    int
	crowded bool
}

func (r *runner) Attend(ctx context.Context, held *coord.Held) (*td.Task, error) {
	t, err := r.journal.Task(ctx, held.Task)
	return &t, err
}

func (r *runner) Run(ctx context.Context, held *coord.Held, ctl *Control) (*td.Task, error) {
	t, err := r.journal.Task(ctx, held.Task)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.started = append(r.started, t.Title)
	r.now[t.Dir]++
	r.crowded = r.crowded || r.now[t.Dir] > 1
	sum := 0
	for _, n := range r.now {
		sum += n
	}
	r.most = max(r.most, sum)
	fail := r.fail[t.Title]
	delete(r.fail, t.Title)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.now[t.Dir]--
		r.mu.Unlock()
	}()
	if t.Title == "panics" {
		panic("oh")
	}
	if fail != nil {
		return nil, fail
	}
	time.Sleep(time.Second)
	return r.end(ctx, held, t)
}

func (r *runner) Crashed(ctx context.Context, held *coord.Held, _ string) (*td.Task, error) {
	t, err := r.journal.Task(ctx, held.Task)
	if err != nil {
		return nil, err
	}
	return r.end(ctx, held, t)
}

func (r *runner) end(ctx context.Context, held *coord.Held, t td.Task) (*td.Task, error) {
	m, err := td.Cancel(t, "done", time.Now().UTC().Round(0))
	if err != nil {
		return nil, err
	}
	t, err = r.journal.Append(ctx, held.Claim, t.Head, m.Events...)
	return &t, err
}

func schedule(t *testing.T, loops int, specs []td.Spec, fail map[string]error) *runner {
	t.Helper()
	return scheduleIn(t, loops, 0, specs, fail)
}

func scheduleIn(t *testing.T, loops, project int, specs []td.Spec, fail map[string]error) *runner {
	t.Helper()
	r := &runner{fail: fail, now: map[string]int{}}
	synctest.Test(t, func(t *testing.T) {
		r.journal = mem.New(nil)
		log := slog.New(slog.DiscardHandler)
		for i, spec := range specs {
			spec.ID = td.NewTaskID()
			spec.Handle = td.Handle(td.TaskHandle, string(spec.ID), td.HandleLength)
			spec.Prompt, spec.Mode, spec.Tier = "p", td.Autonomous, td.Worker
			if spec.CreatedAt.IsZero() {
				spec.CreatedAt = time.Now()
			}
			spec.CreatedAt = spec.CreatedAt.Add(time.Duration(i) * time.Millisecond).UTC().Round(0)
			if _, err := r.journal.Create(t.Context(), spec, string(spec.ID)); err != nil {
				t.Fatal(err)
			}
		}
		s := New(Options{
			Journal: r.journal, Keeper: coord.NewKeeper(r.journal, td.Holder{Host: "h"}, log), Runner: r,
			Loops: loops, Project: func(string) int { return project }, Log: log, Retry: 10 * time.Second,
		})
		done := make(chan error, 1)
		go func() { done <- s.Run(t.Context()) }()
		for range 1000 {
			counts, err := r.journal.Counts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if counts[td.Cancelled] == len(specs) {
				break
			}
			time.Sleep(time.Second)
		}
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if counts, err := r.journal.Counts(t.Context()); err != nil || counts[td.Cancelled] != len(specs) {
			t.Errorf("not all ended: %v %v", counts, err)
		}
	})
	return r
}

func TestPriorityThenAge(t *testing.T) {
	r := schedule(t, 1, []td.Spec{
		{Title: "old", Dir: "/a", Priority: 2},
		{Title: "urgent", Dir: "/b", Priority: 0},
		{Title: "young", Dir: "/c", Priority: 2},
		{Title: "lazy", Dir: "/d", Priority: 4},
	}, nil)
	if want := []string{"urgent", "old", "young", "lazy"}; !slices.Equal(r.started, want) {
		t.Errorf("started %v, want %v", r.started, want)
	}
}

// What has waited long enough comes before what is more urgent and younger.
func TestOldOnesComeInTheEnd(t *testing.T) {
	born := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // the clock of a bubble begins here
	r := schedule(t, 1, []td.Spec{
		{Title: "urgent", Dir: "/a", Priority: 0, CreatedAt: born},
		{Title: "waited", Dir: "/b", Priority: 3, CreatedAt: born.Add(-3*aging - time.Second)},
		{Title: "not yet", Dir: "/c", Priority: 3, CreatedAt: born.Add(-3*aging + time.Second)},
	}, nil)
	if want := []string{"waited", "urgent", "not yet"}; !slices.Equal(r.started, want) {
		t.Errorf("started %v, want %v", r.started, want)
	}
}

// A project that has many tasks leaves places for others.
func TestNoMoreThanAllowedOfAProject(t *testing.T) {
	var specs []td.Spec
	for i := range 20 {
		specs = append(specs, td.Spec{Title: fmt.Sprint(i), Dir: fmt.Sprint("/", i), Project: "/p"})
	}
	if r := scheduleIn(t, 8, 3, specs, nil); r.most != 3 {
		t.Errorf("at most %d of one project at once, want 3", r.most)
	}
	for i := range 20 { // those that nobody planned count as well
		if i%2 == 0 {
			specs[i].Project, specs[i].Worktree = "", &td.Worktree{Repo: "/p"}
		}
	}
	if r := scheduleIn(t, 8, 3, specs, nil); r.most != 3 {
		t.Errorf("at most %d of one project at once, half of them loose, want 3", r.most)
	}
	for i := range 10 {
		specs = append(specs, td.Spec{Title: fmt.Sprint("q", i), Dir: fmt.Sprint("/q", i), Project: "/q"}, td.Spec{Title: fmt.Sprint("none", i), Dir: fmt.Sprint("/n", i)})
	}
	if r := scheduleIn(t, 8, 3, specs, nil); r.most != 8 {
		t.Errorf("at most %d of all at once, want 8", r.most)
	}
}

func TestOneRunAFolder(t *testing.T) {
	var specs []td.Spec
	for i := range 30 {
		specs = append(specs, td.Spec{Title: fmt.Sprint(i), Dir: fmt.Sprint("/", i%3)})
	}
	r := schedule(t, 10, specs, nil)
	if r.crowded || r.most != 3 {
		t.Errorf("two in one folder: %v; at most %d at once, want 3", r.crowded, r.most)
	}
}

// Those that only look are at work together, beside one that may write.
func TestExplorersShareAFolder(t *testing.T) {
	specs := []td.Spec{{Title: "writes", Dir: "/a"}, {Title: "writes, too", Dir: "/a"}}
	for i := range 3 {
		specs = append(specs, td.Spec{Title: fmt.Sprint(i), Dir: "/a", Depth: 1, Parent: "p", Tools: td.Exploring()})
	}
	if r := schedule(t, 10, specs, nil); r.most != 4 {
		t.Errorf("at most %d at once, want 4", r.most)
	}
}

func TestNoMoreThanAllowed(t *testing.T) {
	var specs []td.Spec
	for i := range 20 {
		specs = append(specs, td.Spec{Title: fmt.Sprint(i), Dir: fmt.Sprint("/", i)})
	}
	if r := schedule(t, 4, specs, nil); r.most != 4 {
		t.Errorf("at most %d at once, want 4", r.most)
	}
}

func TestPanicHurtsNobodyElse(t *testing.T) {
	r := schedule(t, 1, []td.Spec{{Title: "panics", Dir: "/a"}, {Title: "next", Dir: "/a"}}, nil)
	if !slices.Contains(r.started, "next") {
		t.Errorf("started %v", r.started)
	}
}

// A run that lost its claim, because its process was frozen, goes on soon: nothing is in its way. What cannot be recorded rests longer.
func TestLostClaimIsTakenAgainSoon(t *testing.T) {
	r := schedule(t, 1, []td.Spec{{Title: "full", Dir: "/a"}, {Title: "lost", Dir: "/b"}},
		map[string]error{"full": errors.New("disk full"), "lost": fmt.Errorf("no tool is started: %w", coord.ErrClaimLost)})
	if want := []string{"full", "lost", "lost", "full"}; !slices.Equal(r.started, want) {
		t.Errorf("started %v, want %v", r.started, want)
	}
}

func TestRunThatCannotRecordRestsAndComesBack(t *testing.T) {
	r := schedule(t, 1, []td.Spec{{Title: "full", Dir: "/a"}}, map[string]error{"full": errors.New("disk full")})
	if len(r.started) != 2 {
		t.Errorf("started %d times, want once more after a rest", len(r.started))
	}
}
