package crash

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/api"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/td"
)

// The edge cases of the document that ties planned tasks to their execution, by number.

// graphed gives the workspace a graph.
func graphed(t *testing.T, config string) *stage {
	t.Helper()
	s := newStage(t, config)
	if err := graph.Make(s.path("work")); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stage) plan(title string, after ...string) api.Planned {
	s.t.Helper()
	added, err := s.person.svc.Plan(s.ctx, api.Plan{Dir: s.path("work"), Tasks: []api.PlanTask{{Key: title, Title: title, Blockers: after}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return added[0]
}

func (s *stage) startRun(script string, yes bool) (api.Run, error) {
	return s.person.svc.StartRun(s.ctx, api.StartRun{
		Dir: s.path("work"), Yes: yes, Rehearsal: strings.ReplaceAll(script, "COUNTER", s.person.counter),
	})
}

// inGraph opens the graph beside the daemon, as another program would.
func (s *stage) inGraph(now func() time.Time) *graph.Store {
	s.t.Helper()
	g, err := graph.Open(s.ctx, graph.Options{Root: s.path("work"), Index: filepath.Join(s.t.TempDir(), "index.db"), Now: now})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(g.Close)
	return g
}

func (s *stage) untilPlanned(id td.TaskID, want td.State) {
	s.t.Helper()
	s.until("planned as "+string(want), func() bool {
		p, err := s.person.svc.PlannedTask(s.ctx, s.path("work"), string(id))
		return err == nil && p.State == want
	})
}

const oneStep = `
turns:
  - tools: [{name: Bash, input: {command: "shuf -e one >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: done}}]
`

// A checkpoint is under way when the daemon is told to stop: it comes to its end.
func TestSeed003E1(t *testing.T) {
	s := newStage(t, "")
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("git", "init", "-q", s.path("work")).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	script := "#!/bin/sh\ncase \"$*\" in *commit-tree*) : > " + s.path("held") + "; while [ -e " + s.path("hold") + " ]; do sleep 0.02; done;; esac\nexec " + real + " \"$@\"\n"
	for name, text := range map[string]string{"bin/git": script, "hold": ""} {
		if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.path(name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TASKDAEMON_FAILPOINT_GIT", s.path("bin/git"))
	s.start(nil)
	s.add("sub", twoSteps, false)
	s.untilState("sub", td.Waiting)
	var wg sync.WaitGroup
	var cp api.Checkpoint
	wg.Go(func() { cp, err = s.person.svc.Checkpoint(s.ctx, s.task("sub").Handle) })
	s.until("the checkpoint is under way", func() bool { _, err := os.Stat(s.path("held")); return err == nil })
	if err := s.d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.until("the daemon is stopping", func() bool { return strings.Contains(s.d.log.String(), "stopping") })
	if err := os.Remove(s.path("hold")); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if err != nil || cp.Snapshot == "" || cp.Commit == "" {
		t.Errorf("a checkpoint at a stop: %+v, %v", cp, err)
	}
	<-s.d.done
	if out, err := exec.Command(real, "-C", s.path("work"), "cat-file", "-t", cp.Snapshot).CombinedOutput(); err != nil {
		t.Errorf("the snapshot is not there: %v\n%s", err, out)
	}
}

// Eight ask for the same task at once: it is started once.
func TestSeed003E2(t *testing.T) {
	s := graphed(t, "")
	s.start(nil)
	p := s.plan("job")
	var wg sync.WaitGroup
	runs, errs := make([]api.Run, 8), make([]error, 8)
	for i := range runs {
		wg.Go(func() { runs[i], errs[i] = s.startRun(oneStep, true) })
	}
	wg.Wait()
	started := 0
	for i, run := range runs {
		if errs[i] != nil {
			t.Error(errs[i])
		}
		started += len(run.Started)
		for _, task := range append(run.Started, run.AtWork...) {
			if task.ID != p.ID {
				t.Errorf("another task was given: %+v", task.Spec)
			}
		}
	}
	if started != 1 {
		t.Errorf("started %d times", started)
	}
	s.untilPlanned(p.ID, td.Completed)
	s.wantMarks("one")
	h, err := s.person.svc.History(s.ctx, string(p.ID))
	if err != nil {
		t.Fatal(err)
	}
	starts := 0
	for _, ev := range h.Events {
		if m, ok := ev.Body.(td.Moved); ok && m.Verb == td.VerbStart {
			starts++
		}
	}
	if starts != 1 {
		t.Errorf("%d runs", starts)
	}
	s.d.stop()
}

// A record of a planned task is damaged, and a line of its graph: both are reported, that task goes on only when a person
// says so, and everything else goes on.
func TestSeed003E3(t *testing.T) {
	s := graphed(t, "")
	s.start(&kill{"engine.model.before_call", 2})
	p := s.plan("job")
	if _, err := s.startRun(twoSteps, true); err != nil && !td.IsKind(err, td.Unknown) && !td.IsKind(err, td.Unavailable) {
		t.Fatal(err)
	}
	s.died()
	db, err := sqlite3.Open(s.path("state/journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Exec(`UPDATE events SET body = CAST('{"key":' AS BLOB) WHERE type = 'step_ended'`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(s.path("work/.taskdaemon/tasks.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.WriteString("{\"op\":\"torn\n"); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	s.start(nil)
	s.until("it is reported", func() bool { return has(s.report().Corrupt, "job") })
	other := s.plan("other")
	diagnosis, err := s.person.svc.Doctor(s.ctx, api.DoctorRequest{})
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for _, c := range diagnosis.Checks {
		said += strings.Join(c.Findings, "\n") + "\n"
	}
	if !strings.Contains(said, "tasks.jsonl, line 3") {
		t.Errorf("doctor says:\n%s", said)
	}
	s.untilState("job", td.Blocked)
	if _, err := s.startRun(oneStep, true); err != nil { // unless the first run went on with it
		t.Error(err)
	}
	s.untilPlanned(other.ID, td.Completed)
	if now, err := s.person.svc.PlannedTask(s.ctx, s.path("work"), string(p.ID)); err != nil || now.State.Terminal() {
		t.Errorf("the damaged task is %s, %v", now.State, err)
	}
	s.d.stop()
}

// Another program has the graph locked when the daemon starts: the daemon starts, and everything else works; who asks for
// the graph is told after a while, and when it is free all goes on.
func TestSeed003E4(t *testing.T) {
	s := graphed(t, "")
	s.start(nil)
	p := s.plan("job")
	s.d.kill()
	held, err := os.Open(s.path("work/.taskdaemon/tasks.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	// The index is lost, too: all of the log has to be read.
	if err := os.RemoveAll(s.path("state/graphs")); err != nil {
		t.Fatal(err)
	}
	s.start(nil)
	began := time.Now()
	_, err = s.startRun(oneStep, true)
	if !td.IsKind(err, td.Locked) || td.HintOf(err) == "" {
		t.Errorf("a run on a graph that is locked: %v after %s", err, time.Since(began))
	}
	if _, err := s.person.svc.Status(s.ctx); err != nil {
		t.Errorf("status: %v", err)
	}
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if _, err := s.startRun(oneStep, true); err != nil {
		t.Error(err)
	}
	s.untilPlanned(p.ID, td.Completed)
	s.wantMarks("one")
	s.d.stop()
}

// A task is closed while it is at work: by a person here, and by another program in the file. Its run is stopped, and the
// verdict stands.
func TestSeed003E5(t *testing.T) {
	s := graphed(t, "")
	s.start(nil)
	one, two := s.plan("one"), s.plan("two")
	if _, err := s.startRun(twoSteps, false); err != nil {
		t.Fatal(err)
	}
	s.untilState("one", td.Waiting)
	if _, err := s.person.svc.ChangePlan(s.ctx, api.ChangePlan{Dir: s.path("work"), Ref: string(one.ID), Verb: api.PlanDone, Words: "did it myself"}); err != nil {
		t.Fatal(err)
	}
	s.untilState("one", td.Cancelled)
	if _, err := s.startRun(twoSteps, false); err != nil {
		t.Fatal(err)
	}
	s.untilState("two", td.Waiting)
	if err := s.inGraph(nil).End(s.ctx, two.ID, graph.Verdict{State: td.Completed, Summary: "elsewhere", By: "ben", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	s.untilState("two", td.Cancelled)
	for id, words := range map[td.TaskID]string{one.ID: "did it myself", two.ID: "elsewhere"} {
		s.untilPlanned(id, td.Completed) // the graph is told after the journal
		p, err := s.person.svc.PlannedTask(s.ctx, s.path("work"), string(id))
		if err != nil || p.Summary != words {
			t.Errorf("planned as %+v, %v", p, err)
		}
	}
	s.wantMarks("")
	s.d.stop()
}

// The disk of the graph is full when a task ends: it is said, tried again, and written when there is room. What is asked for
// meanwhile is refused and changes nothing.
func TestSeed003E6(t *testing.T) {
	s := graphed(t, "")
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root; CI runs this as root")
	}
	dir := s.path("work/.taskdaemon")
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("this machine does not let us mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := graph.Make(s.path("work")); err != nil {
		t.Fatal(err)
	}
	s.start(nil)
	p := s.plan("job")
	if _, err := s.startRun(twoSteps, false); err != nil {
		t.Fatal(err)
	}
	waiting := s.untilState("job", td.Waiting)
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 16; size > 0; {
		if _, err := filler.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if err := filler.Close(); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "tasks.jsonl")
	before, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("long ", 4000)
	_, err = s.person.svc.Plan(s.ctx, api.Plan{Dir: s.path("work"), Tasks: []api.PlanTask{{Title: "no room", Text: long}}})
	if !td.IsKind(err, td.Storage) || td.HintOf(err) == "" {
		t.Errorf("plan on a full disk: %v", err)
	}
	if after, err := os.ReadFile(log); err != nil || string(after) != string(before) {
		t.Errorf("something is left of what was refused: %d bytes, were %d, %v", len(after), len(before), err)
	}
	if _, err := s.person.svc.Command(s.ctx, waiting.Handle, api.Command{Type: td.CmdCancel, Text: long}); err != nil {
		t.Fatal(err)
	}
	s.untilState("job", td.Cancelled)
	s.until("it is said", func() bool { return strings.Contains(s.d.log.String(), "cannot be told how its tasks stand") })
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	s.untilPlanned(p.ID, td.Cancelled)
	s.until("it is in the file", func() bool {
		raw, err := os.ReadFile(log)
		return err == nil && strings.Count(string(raw), `"verdict"`) == 1
	})
	s.d.stop()
}

// The clock was set back: what is of the future counts as fresh, and a change of a clone whose clock is ahead does not
// win over those that are made after it was seen.
func TestSeed003E7(t *testing.T) {
	s := graphed(t, "recovery: {max_age: 10m}\n")
	s.interrupted("future", -72*time.Hour)
	s.start(nil)
	s.untilState("future", td.Completed)
	if r := s.report(); has(r.Reasked, "future") {
		t.Errorf("report: %s", r)
	}
	p := s.plan("job")
	ahead, title := s.inGraph(func() time.Time { return time.Now().Add(72 * time.Hour) }), "ahead"
	if _, err := ahead.Edit(s.ctx, p.ID, graph.Edit{Title: &title}); err != nil {
		t.Fatal(err)
	}
	later := "later"
	if got, err := s.person.svc.ChangePlan(s.ctx, api.ChangePlan{Dir: s.path("work"), Ref: string(p.ID), Verb: api.PlanUpdate, Title: &later}); err != nil || got.Title != later {
		t.Errorf("the task is called %q, %v", got.Title, err)
	}
	s.d.stop()
}
