package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/coord"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/store/mem"
	"taskdaemon/internal/td"
)

// bare is as much of a daemon as graphs need; others on the same state and journal are its later lives.
func bare(t *testing.T, state string, journal *mem.Store) *Daemon {
	t.Helper()
	log := slog.New(slog.NewTextHandler(logTo(t), nil))
	d := &Daemon{markIn: unmarked, o: Options{StateDir: state, Log: log, Getenv: func(string) string { return "" }}, stop: make(chan struct{}), journal: journal}
	d.keeper = coord.NewKeeper(journal, td.Holder{Host: "here"}, log)
	d.projects, d.runs, d.trunks = newProjects(d), newRuns(d), newTrunks(d)
	if err := d.projects.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.projects.close)
	return d
}

func newJournal() *mem.Store { return mem.New(func(td.Holder) bool { return true }) }

// begun makes a project with a graph and a task that was started; without a project it is not planned.
func begun(t *testing.T, d *Daemon, root string) td.Task {
	t.Helper()
	spec := td.Spec{ID: td.NewTaskID(), Kind: td.KindTask, Title: "it", Prompt: "it", Dir: t.TempDir(), Mode: td.Autonomous, Tier: td.Worker, CreatedAt: time.Now().UTC()}
	if root != "" {
		if err := graph.Make(root); err != nil {
			t.Fatal(err)
		}
		s, err := d.projects.at(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Add(t.Context(), graph.Task{ID: spec.ID, Title: spec.Title}); err != nil {
			t.Fatal(err)
		}
		spec.Dir, spec.Project = root, root
	}
	spec.Handle = td.Handle(td.TaskHandle, string(spec.ID), td.HandleLength)
	task, err := d.journal.Create(t.Context(), spec, string(spec.ID))
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// cancel ends a task in the journal.
func cancel(t *testing.T, d *Daemon, task td.Task) {
	t.Helper()
	if err := d.under(t.Context(), task, func(t td.Task, at time.Time) (td.Move, error) { return td.Cancel(t, "enough", at) }); err != nil {
		t.Fatal(err)
	}
}

// hasEnded reports whether a task has a verdict in its graph.
func hasEnded(t *testing.T, d *Daemon, task td.Task) bool {
	t.Helper()
	s, err := d.projects.at(t.Context(), task.Project)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Task(t.Context(), task.ID)
	if err != nil {
		t.Fatal(err)
	}
	return p.Verdict != nil
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// A graph that cannot be written to holds up no other, and is told when it can be.
func TestSickGraph(t *testing.T) {
	d := bare(t, t.TempDir(), newJournal())
	sick, well := begun(t, d, t.TempDir()), begun(t, d, t.TempDir())
	log := filepath.Join(sick.Project, graph.Folder, graph.LogFile)
	rename(t, log, log+".away")
	if err := os.Mkdir(log, 0o755); err != nil {
		t.Fatal(err)
	}
	cancel(t, d, sick)
	cancel(t, d, well)
	if err := d.projects.catchUp(t.Context(), well.Project); err != nil {
		t.Errorf("the other project: %v", err)
	}
	if !hasEnded(t, d, well) {
		t.Error("the graph of the other project was not told")
	}
	if err := d.projects.catchUp(t.Context(), sick.Project); err == nil {
		t.Error("the sick one counts as told")
	}
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	rename(t, log+".away", log)
	d.projects.mendAll(t.Context())
	if !hasEnded(t, d, sick) || d.projects.missed(sick.Project) != 0 {
		t.Error("it was not told when it was well again")
	}
	if err := d.projects.catchUp(t.Context(), sick.Project); err != nil {
		t.Errorf("the project that was sick: %v", err)
	}
}

// The folder of a graph is away while a task ends: when it is back, this daemon or the next one writes that down. What a
// person decides after that is left alone.
func TestGraphWasAway(t *testing.T) {
	for name, restart := range map[string]bool{"the same daemon": false, "the next daemon": true} {
		t.Run(name, func(t *testing.T) {
			state, journal := t.TempDir(), newJournal()
			d := bare(t, state, journal)
			task := begun(t, d, t.TempDir())
			folder := filepath.Join(task.Project, graph.Folder)
			rename(t, folder, folder+".away")
			cancel(t, d, task)
			if err := d.projects.read(t.Context(), true); err != nil {
				t.Errorf("the journal is not followed on: %v", err)
			}
			rename(t, folder+".away", folder)
			if restart {
				d = bare(t, state, journal)
			} else if err := d.projects.catchUp(t.Context(), task.Project); err != nil {
				t.Error(err)
			}
			if !hasEnded(t, d, task) {
				t.Error("its end was lost")
			}
			s, _ := d.projects.at(t.Context(), task.Project)
			if err := s.Reopen(t.Context(), task.ID); err != nil {
				t.Fatal(err)
			}
			if hasEnded(t, bare(t, state, journal), task) {
				t.Error("what was opened again was closed by the next daemon")
			}
		})
	}
}

// An older version wrote no name of the end: what was opened since is left alone all the same.
func TestUntold(t *testing.T) {
	at := time.Unix(100, 0)
	task := td.Task{Live: td.Live{Status: td.Status{State: td.Completed, Since: at}}}
	for name, c := range map[string]struct {
		planned graph.Task
		want    bool
	}{
		"never told":          {graph.Task{}, true},
		"opened before":       {graph.Task{DecidedAt: at.Add(-time.Second)}, true},
		"opened since":        {graph.Task{DecidedAt: at.Add(time.Second)}, false},
		"changed since":       {graph.Task{UpdatedAt: at.Add(time.Second)}, true},
		"told":                {graph.Task{Verdict: &graph.Verdict{State: td.Failed}}, false},
		"told and opened":     {graph.Task{Closed: &graph.Closed{At: at}}, false},
		"told of another end": {graph.Task{Closed: &graph.Closed{At: at.Add(-time.Hour)}}, true},
	} {
		if got := untold(&c.planned, task); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	task.Status.State = td.Running
	if untold(&graph.Task{}, task) {
		t.Error("the end of a task that goes on is told")
	}
}

// Nothing is kept in memory of tasks that have ended, and the end of a planned one is not followed again.
func TestEndedTasksAreForgotten(t *testing.T) {
	d := bare(t, t.TempDir(), newJournal())
	root := t.TempDir()
	for _, project := range []string{"", "", root} {
		cancel(t, d, begun(t, d, project))
	}
	if err := d.projects.catchUp(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	if len(d.projects.inGraph) != 0 {
		t.Errorf("%v is remembered", d.projects.inGraph)
	}
	if at, err := d.journal.Cursor(t.Context(), graphCursor); err != nil || at != d.projects.from {
		t.Errorf("the journal was followed to %d, and the next daemon begins at %d (%v)", d.projects.from, at, err)
	}
}

// A daemon that was just started has no graph open; doctor looks at all it has an index of.
func TestDoctorOnAFreshDaemon(t *testing.T) {
	state, journal := t.TempDir(), newJournal()
	d := bare(t, state, journal)
	broken, changed, removed := begun(t, d, t.TempDir()).Project, begun(t, d, t.TempDir()).Project, begun(t, d, t.TempDir()).Project
	d.projects.close()
	check := func(fix bool, want ...string) {
		t.Helper()
		d := bare(t, state, journal)
		c, err := d.checkGraphs(t.Context(), fix)
		if err != nil || len(c.Findings) != len(want) {
			t.Fatalf("found %q (%v), want %q", c.Findings, err, want)
		}
		for i, w := range want {
			if !strings.Contains(c.Findings[i], w) {
				t.Errorf("found %q, want %q", c.Findings[i], w)
			}
		}
		if len(want) > 0 && c.Fix == "" {
			t.Error("it does not say what to do")
		}
		d.projects.close()
	}
	check(false)
	if err := os.RemoveAll(filepath.Join(removed, graph.Folder)); err != nil {
		t.Fatal(err)
	}
	check(false)
	log := filepath.Join(changed, graph.Folder, graph.LogFile)
	info, err := os.Stat(log)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, []byte(strings.Replace(string(text), `"it"`, `"at"`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(log, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		check(false, log+" was damaged: it lacks changes that were in it, of ")
	}
	check(true, log+" was damaged: it lacks changes that were in it, of ", log+": damaged lines were taken out (1) and are kept in ")
	check(false)
	log = filepath.Join(broken, graph.Folder, graph.LogFile)
	rename(t, log, log+".away")
	if err := os.Mkdir(log, 0o755); err != nil {
		t.Fatal(err)
	}
	check(false, broken)
}
