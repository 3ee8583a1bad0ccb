package daemon

import (
	"context"
	"testing"
	"time"

	"taskdaemon/internal/graph"
	"taskdaemon/internal/td"
)

// clone makes a second project that has the planned task of another.
func clone(t *testing.T, task td.Task) (root string) {
	t.Helper()
	root = t.TempDir()
	if err := graph.Make(root); err != nil {
		t.Fatal(err)
	}
	s, err := graph.Open(t.Context(), graph.Options{Root: root, Index: t.TempDir() + "/index.db"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Add(t.Context(), graph.Task{ID: task.ID, Title: task.Title}); err != nil {
		t.Fatal(err)
	}
	return root
}

// in is a task as the graph of a clone has it.
func in(t *testing.T, d *Daemon, root string, id td.TaskID) graph.Task {
	t.Helper()
	s, err := d.projects.at(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Task(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// How a task ended is told to the graph of every clone that has it: one that is open, one that is opened later, and one that
// got the task from elsewhere after it had ended.
func TestEveryCloneIsTold(t *testing.T) {
	d := bare(t, t.TempDir(), newJournal())
	task := begun(t, d, t.TempDir())
	open, later, none := clone(t, task), clone(t, task), t.TempDir()
	if err := graph.Make(none); err != nil {
		t.Fatal(err)
	}
	if in(t, d, open, task.ID).Verdict != nil {
		t.Fatal("it has ended before it did")
	}
	late, err := d.projects.at(t.Context(), none)
	if err != nil {
		t.Fatal(err)
	}
	cancel(t, d, task)
	if err := d.projects.catchUp(t.Context(), task.Project); err != nil {
		t.Fatal(err)
	}
	for name, root := range map[string]string{"its own": task.Project, "one that is open": open, "one that is opened later": later} {
		if v := in(t, d, root, task.ID).Verdict; v == nil || v.State != td.Cancelled {
			t.Errorf("the graph of %s has the verdict %v", name, v)
		}
	}
	if _, err := late.Add(t.Context(), graph.Task{ID: task.ID, Title: task.Title}); err != nil {
		t.Fatal(err)
	}
	if got, err := d.startPlanned(t.Context(), late, task.ID, td.GraphOrder{Run: "r"}, 0); got != nil || err != nil {
		t.Errorf("what has ended was started: %v, %v", got, err)
	}
	if in(t, d, none, task.ID).Verdict == nil {
		t.Error("the clone that asked was not told")
	}
	if d.projects.missed(none) != 0 || d.projects.missed(open) != 0 {
		t.Error("a clone counts as stale")
	}
}

// A clone that hears late of an end does not take back what a person decided about it since in another.
func TestResetInAnotherClone(t *testing.T) {
	d := bare(t, t.TempDir(), newJournal())
	task := begun(t, d, t.TempDir())
	later := clone(t, task)
	cancel(t, d, task)
	if err := d.projects.catchUp(t.Context(), task.Project); err != nil {
		t.Fatal(err)
	}
	own, err := d.projects.at(t.Context(), task.Project)
	if err != nil {
		t.Fatal(err)
	}
	if err := own.Reopen(t.Context(), task.ID); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p := in(t, d, later, task.ID)
		if p.Verdict != nil || !p.DecidedAt.IsZero() || p.Closed == nil {
			t.Errorf("it has the verdict %v of %v, and knows of the end %v", p.Verdict, p.DecidedAt, p.Closed)
		}
		if err := d.projects.compare(t.Context(), later); err != nil {
			t.Fatal(err)
		}
	}
}

// A clone that is being opened while a task moves is compared with the journal again.
func TestToldWhileItIsOpened(t *testing.T) {
	d := bare(t, t.TempDir(), newJournal())
	task := begun(t, d, t.TempDir())
	root := clone(t, task)
	came := d.projects.comes(root)
	cancel(t, d, task)
	if err := d.projects.read(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	came()
	if d.projects.missed(root) == 0 {
		t.Error("nobody looks again")
	}
	if err := d.projects.catchUp(t.Context(), root); err != nil || in(t, d, root, task.ID).Verdict == nil {
		t.Errorf("it was not told (%v)", err)
	}
}

// Whatever opens a task again and again, a run starts it so often and no more. What it works on, iteration by iteration, is not counted.
func TestVainStartsAreBounded(t *testing.T) {
	id := td.NewTaskID()
	n := &tally{tasks: map[td.TaskID]bool{}, vain: map[td.TaskID]vain{}}
	ordered := func(run string, fresh bool) {
		n.count(td.Event{Task: id, Body: td.Ordered{Order: td.Order{Run: run}, Fresh: fresh}}, "r")
	}
	iterated := func() { n.count(td.Event{Task: id, Body: td.ContextSet{}}, "r") }
	for range 3 * mostVain {
		ordered("r", false)
		iterated()
	}
	if n.vain[id].exhausted() || n.begun != 3*mostVain {
		t.Fatalf("iterations count as vain: %+v, %d begun", n.vain[id], n.begun)
	}
	for range 3 * mostVain {
		ordered("other", true)
	}
	for i := range mostVain {
		if n.vain[id].exhausted() {
			t.Fatalf("after %d starts", i)
		}
		ordered("r", true)
		iterated()
	}
	if !n.vain[id].exhausted() {
		t.Error("starts of what has ended are not bounded")
	}
	clear(n.vain)
	for range mostVain {
		ordered("r", false)
	}
	if !n.vain[id].exhausted() {
		t.Error("starts that begin nothing are not bounded")
	}

	d := bare(t, t.TempDir(), newJournal())
	s, err := d.projects.at(t.Context(), begun(t, d, t.TempDir()).Project)
	if err != nil {
		t.Fatal(err)
	}
	at := standing{GraphRun: td.GraphRun{GraphOrder: td.GraphOrder{Run: "r", Parallel: 1}}, scope: scoped{ready: []td.TaskID{id}}, tally: n}
	ctx, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	if started, _, err := d.runs.startReady(ctx, s, &at); len(started) > 0 || !td.IsKind(err, td.Conflict) || td.HintOf(err) == "" {
		t.Errorf("it was started: %v, %v", started, err)
	}
}

// Who syncs says which tasks that stopped: the look that comes now and again leaves them to the sync while it lasts.
func TestSyncSaysWhatItStops(t *testing.T) {
	d := bare(t, t.TempDir(), newJournal())
	task := begun(t, d, t.TempDir())
	s, err := d.projects.at(t.Context(), task.Project)
	if err != nil {
		t.Fatal(err)
	}
	done := d.projects.syncs(task.Project)
	if err := s.Delete(t.Context(), task.ID); err != nil {
		t.Fatal(err)
	}
	if cmd, is := over(t.Context(), s, task.ID); !is {
		t.Fatalf("it is not over: %+v", cmd)
	}
	if stopped := d.projects.stopClosed(t.Context(), ""); len(stopped) > 0 {
		t.Errorf("stopped beside the sync: %q", stopped)
	}
	done()
	if d.projects.isSyncing(task.Project) {
		t.Error("it is being synced for ever")
	}
}
