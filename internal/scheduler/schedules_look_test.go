package scheduler

import (
	"slices"
	"testing/synctest"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// look holds what the scheduler does against the journal at an instant at which nothing moves.
func (y *yard) look(s *shift) {
	synctest.Wait()
	y.mu.Lock()
	defer y.mu.Unlock()
	y.looks++
	tasks, err := y.journal.Tasks(y.t.Context(), store.TaskFilter{States: store.Live})
	if err != nil {
		y.t.Fatal(err)
	}
	pending, err := y.journal.Pending(y.t.Context())
	if err != nil {
		y.t.Fatal(err)
	}
	now := time.Now()
	rests := func(t td.Task) bool { return y.attends[t.ID] || now.Before(y.rests[t.Handle]) }
	y.once(s)
	s.sched.Freed() // what it does from here on comes after our look, for the race detector too
	for _, id := range pending {
		t, err := y.journal.Task(y.t.Context(), id)
		if err != nil {
			y.t.Fatal(err)
		}
		if _, runs := y.running[id]; !runs && !rests(t) {
			y.faultf("nobody listens to %s, which is %s", t.Title, t.Status.State)
		}
	}
	var waiting []td.Task
	for _, t := range tasks {
		_, runs := y.running[t.ID]
		switch {
		case t.Status.State == td.Running && !runs && !rests(t):
			y.faultf("%s is left running", t.Title)
		case t.Status.State != td.Queued || rests(t) || slices.Contains(pending, t.ID):
		case y.keptOut(t):
			y.crowded++
		case len(y.running) < y.loops:
			y.faultf("%s could run, and does not: %d of %d places are taken", t.Title, len(y.running), y.loops)
		default:
			waiting = append(waiting, t)
		}
	}
	if len(y.running) == y.loops {
		y.full++
	}
	y.overtaken(waiting)
	y.waited, y.began = waiting, nil
	clear(y.touched)
}

// keptOut reports whether a task has to wait for another of its folder or project.
func (y *yard) keptOut(t td.Task) bool {
	inProject := 0
	for _, r := range y.running {
		if r.Dir == t.Dir {
			return true
		}
		if r.Project == t.Project && t.Project != "" {
			inProject++
		}
	}
	return y.project > 0 && inProject >= y.project
}

// overtaken complains of tasks that wait for a place since the last look while others got one that come after them: by their
// age, to which each step of priority adds ten minutes.
func (y *yard) overtaken(waiting []td.Task) {
	rank := func(t td.Task) time.Time { return t.CreatedAt.Add(time.Duration(t.Priority) * 10 * time.Minute) }
	for _, w := range waiting {
		alone := w.Project == "" && w.Dir == "/"+w.Handle // nothing but a place can have kept it
		if !alone || y.touched[w.ID] || !slices.ContainsFunc(y.waited, func(t td.Task) bool { return t.ID == w.ID && t.Head == w.Head }) {
			continue
		}
		for _, b := range y.began {
			if rank(b).After(rank(w)) {
				y.faultf("%s began before %s, which has waited longer", b.Title, w.Title)
			}
		}
	}
}

// once complains of tasks that stand in more than one place of the scheduler, or in none though they should.
func (y *yard) once(s *shift) {
	stands := map[*entry]int{}
	for _, e := range s.sched.ready {
		stands[e]++
	}
	for _, in := range []parked{s.sched.inDir, s.sched.inTurn} {
		for _, all := range in {
			for _, e := range all {
				stands[e]++
			}
		}
	}
	for e, n := range stands {
		if n > 1 || !e.queued {
			y.faultf("%s stands in the queue %d times (%v)", e.task.Handle, n, e.queued)
		}
	}
	for _, e := range s.sched.tasks {
		if e.queued && stands[e] == 0 {
			y.faultf("%s is taken for queued and stands nowhere", e.task.Handle)
		}
	}
}
