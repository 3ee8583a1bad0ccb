package crash

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/store/sqlite"
	"taskdaemon/internal/td"
)

// The regression tests of the persistence document, by number. Those about chat channels, containers and
// credentials come with these parts.

// stage is a run whose daemon the test itself starts and stops.
type stage struct {
	*crashRun
	ctx context.Context
	d   *process
}

func newStage(t *testing.T, config string) *stage {
	t.Helper()
	w := newRun(t, scenario{name: t.Name()})
	if config != "" {
		if err := os.WriteFile(w.path("config/taskdaemon/config.yaml"), []byte("provider: rehearsal\n"+w.marking()+config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	s := &stage{crashRun: w, ctx: ctx}
	t.Cleanup(func() {
		cancel()
		if s.d != nil {
			s.d.kill()
		}
		if !t.Failed() {
			w.checkHouse()
			w.remove()
		}
	})
	return s
}

// start starts a daemon and waits until it answers.
func (s *stage) start(k *kill) {
	s.t.Helper()
	s.d = s.startDaemon(k)
	s.until("the daemon answers", func() bool {
		_, err := s.person.svc.Status(s.ctx)
		return err == nil
	})
}

// died waits for the daemon to die at its failpoint.
func (s *stage) died() {
	s.t.Helper()
	select {
	case <-s.d.done:
	case <-s.ctx.Done():
		s.t.Fatalf("the daemon did not die\n%s", s.d.log.String())
	}
}

func (s *stage) until(what string, ok func() bool) {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			log := ""
			if s.d != nil {
				log = s.d.log.String()
			}
			s.t.Fatalf("never happened: %s\n%s", what, log)
		}
	}
}

func (s *stage) add(key, script string, yes bool) td.Task {
	s.t.Helper()
	dir := s.path("work/" + key)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	t, err := s.person.svc.AddTask(s.ctx, api.AddTask{
		Key: key, Prompt: key, Dir: dir, Yes: yes, Rehearsal: strings.ReplaceAll(script, "COUNTER", s.person.counter),
	})
	if err != nil && !td.IsKind(err, td.Unknown) && !td.IsKind(err, td.Unavailable) {
		s.t.Fatal(err)
	}
	return t
}

func (s *stage) task(key string) td.Task {
	s.t.Helper()
	tasks, err := s.person.svc.Tasks(s.ctx, api.TaskQuery{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, t := range tasks {
		if t.Title == key {
			return t
		}
	}
	s.t.Fatalf("no task %q", key)
	return td.Task{}
}

func (s *stage) untilState(key string, want td.State) td.Task {
	s.t.Helper()
	var t td.Task
	s.until(key+" is "+string(want), func() bool {
		t = s.task(key)
		return t.Status.State == want
	})
	return t
}

func (s *stage) report() td.Report {
	s.t.Helper()
	r, err := s.person.svc.Recovery(s.ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *stage) wantMarks(want string) {
	s.t.Helper()
	if got := strings.Join(strings.Fields(s.person.marks()), " "); got != want {
		s.t.Errorf("done: %q, want %q", got, want)
	}
}

func has(lines []td.ReportLine, title string) bool {
	for _, l := range lines {
		if l.Title == title {
			return true
		}
	}
	return false
}

const twoSteps = `
turns:
  - tools: [{name: Bash, input: {command: "shuf -e one >> COUNTER"}}]
  - tools: [{name: Bash, input: {command: "shuf -e two >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: done}}]
`

// One step is done; the daemon is killed; the task resumes at the second.
func TestSeed002R1(t *testing.T) {
	s := newStage(t, "")
	s.start(&kill{"engine.model.before_call", 2})
	s.add("job", twoSteps, true)
	s.died()
	s.wantMarks("one")
	s.start(nil)
	s.untilState("job", td.Completed)
	s.wantMarks("one two")
	if r := s.report(); !has(r.Resumed, "job") || r.Clean {
		t.Errorf("report: %s", r)
	}
	s.d.stop()
}

// A task waits for approval; the daemon is killed; the same request is asked again, answered, and the
// task completes.
func TestSeed002R2(t *testing.T) {
	s := newStage(t, "")
	s.start(nil)
	s.add("job", twoSteps, false)
	before := s.untilState("job", td.Waiting).Requests
	s.d.kill()
	s.start(nil)
	after := s.task("job").Requests
	if len(before) != 1 || len(after) != 1 || before[0].ID != after[0].ID {
		t.Fatalf("asked %+v before, %+v after", before, after)
	}
	if !after[0].AskedAt.After(before[0].AskedAt) {
		t.Error("the clock of a request starts anew when it is asked again")
	}
	if r := s.report(); !has(r.Reasked, "job") {
		t.Errorf("report: %s", r)
	}
	s.until("the task completes", func() bool {
		j := s.task("job")
		if err := answerAll(s.ctx, s.person, j); err != nil {
			t.Fatal(err)
		}
		return j.Status.State == td.Completed
	})
	s.wantMarks("one two")
	s.d.stop()
}

// The daemon is killed while the task is still being planned: it starts from scratch, and nothing is done
// twice.
func TestSeed002R3(t *testing.T) {
	s := newStage(t, "")
	s.start(&kill{"engine.model.before_call", 1})
	s.add("job", twoSteps, true)
	s.died()
	s.start(nil)
	s.untilState("job", td.Completed)
	s.wantMarks("one two")
	if r := s.report(); !has(r.Retried, "job") {
		t.Errorf("report: %s", r)
	}
	s.d.stop()
}

// A step with effects was in progress, and its process is lost with the daemon: the owner is asked.
func TestSeed002R4(t *testing.T) {
	s := newStage(t, "")
	s.start(nil)
	s.add("job", `
turns:
  - tools: [{name: Bash, input: {command: "echo one >> COUNTER; sleep 60"}}]
  - tools: [{name: Complete, input: {summary: done}}]
`, true)
	s.until("the step is in progress", func() bool { return s.person.marks() != "" })
	s.d.kill()
	s.killShims()
	s.start(nil)
	j := s.untilState("job", td.Waiting)
	r := j.Requests[0]
	if r.About != td.AboutUnknown || !strings.Contains(r.Prompt, "echo one") || len(r.Options) != 3 {
		t.Fatalf("asked: %+v", r)
	}
	s.wantMarks("one")
	if err := s.person.once(s.ctx, "done", string(r.ID), api.Command{Type: td.CmdAnswer, Answer: td.Done}); err != nil {
		t.Fatal(err)
	}
	s.untilState("job", td.Completed)
	s.wantMarks("one")
	s.d.stop()
}

// killShims is the loss of the host, as far as the commands are concerned.
func (s *stage) killShims() {
	entries, err := (&sandbox.Spool{Dir: s.path("state/spool"), Self: binary}).List()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		if e.State == sandbox.StillRunning {
			p, err := os.FindProcess(e.Shim.Pid)
			if err != nil {
				s.t.Fatal(err)
			}
			if err := p.Kill(); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.until("the shims are gone", func() bool {
		entries, err := (&sandbox.Spool{Dir: s.path("state/spool"), Self: binary}).List()
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range entries {
			if e.State == sandbox.StillRunning {
				return false
			}
		}
		return true
	})
}

// Of two interrupted tasks the young one goes on; the one older than the limit is not touched before its
// owner said so.
func TestSeed002R5(t *testing.T) {
	s := newStage(t, "recovery: {max_age: 10m}\n")
	for name, age := range map[string]time.Duration{"young": 5 * time.Minute, "old": 15 * time.Minute} {
		s.interrupted(name, age)
	}
	s.start(nil)
	s.untilState("young", td.Completed)
	old := s.task("old")
	if old.Status.State != td.Waiting || len(old.Requests) != 1 || old.Requests[0].About != td.AboutAge {
		t.Fatalf("the old task is %+v", old.Status)
	}
	if r := s.report(); !has(r.Reasked, "old") || has(r.Reasked, "young") || !has(r.Retried, "young") {
		t.Errorf("report: %s", r)
	}
	if err := s.person.once(s.ctx, "no", old.Handle, api.Command{Type: td.CmdAnswer, Answer: td.No}); err != nil {
		t.Fatal(err)
	}
	s.untilState("old", td.Abandoned)
	s.d.stop()
}

// interrupted writes a task into the journal that was running so long ago and has no holder.
func (s *stage) interrupted(name string, age time.Duration) {
	s.t.Helper()
	at := time.Now().Add(-age).UTC().Round(0)
	dir := s.path("work/" + name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	j, err := sqlite.Open(s.ctx, sqlite.Options{Dir: s.path("state"), Alive: sandbox.Alive})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	id := td.NewTaskID()
	task, err := j.Create(s.ctx, td.Spec{
		ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Title: name, Prompt: name, Dir: dir,
		Mode: td.Autonomous, Tier: td.Worker, CreatedAt: at,
	}, name)
	if err != nil {
		s.t.Fatal(err)
	}
	holder := td.Holder{Host: "gone", Boot: "gone", Pid: 1}
	claim, err := j.Claim(s.ctx, id, holder)
	if err != nil {
		s.t.Fatal(err)
	}
	m, err := td.Start(task, td.NewRunID(), at)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := j.Append(s.ctx, claim, task.Head, m.Events...); err != nil {
		s.t.Fatal(err)
	}
	if err := j.Release(s.ctx, claim); err != nil {
		s.t.Fatal(err)
	}
}

const oneSlowStep = `
turns:
  - tools: [{name: Bash, input: {command: "echo begun >> COUNTER; sleep 0.7; echo ended >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: done}}]
`

// SIGTERM with two tasks in flight: both steps end in time, the stop is clean, and both tasks go on.
func TestSeed002R8(t *testing.T) {
	s := newStage(t, "")
	s.start(nil)
	s.add("a", oneSlowStep, true)
	s.add("b", oneSlowStep, true)
	s.until("both are in flight", func() bool { return strings.Count(s.person.marks(), "begun") == 2 })
	s.d.stop()
	if code := s.d.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, s.d.log.String())
	}
	if n := strings.Count(s.person.marks(), "ended"); n != 2 {
		t.Errorf("%d of 2 steps in flight were waited for", n)
	}
	s.start(nil)
	s.untilState("a", td.Completed)
	s.untilState("b", td.Completed)
	if r := s.report(); !r.Clean || len(r.Resumed) != 2 {
		t.Errorf("report: %s", r)
	}
	if n := strings.Count(s.person.marks(), "begun"); n != 2 {
		t.Errorf("two steps were begun %d times", n)
	}
	s.d.stop()
}

// SIGTERM with a step slower than the shutdown allows: the task stays in the journal and is recovered,
// its command adopted.
func TestSeed002R9(t *testing.T) {
	s := newStage(t, "timeouts: {shutdown: 100ms}\n")
	s.start(nil)
	s.add("slow", `
turns:
  - tools: [{name: Bash, input: {command: "echo begun >> COUNTER; until test -e go-on; do sleep 0.01; done; echo ended >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: done}}]
`, true)
	s.until("the step is in flight", func() bool { return s.person.marks() != "" })
	s.d.stop()
	if code := s.d.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, s.d.log.String())
	}
	s.start(nil)
	r := s.report()
	if r.Clean || len(r.Resumed) != 1 || !strings.Contains(r.Resumed[0].What, "adopted") {
		t.Errorf("report: %s", r)
	}
	if err := os.WriteFile(s.path("work/slow/go-on"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.untilState("slow", td.Completed)
	s.wantMarks("begun ended")
	s.d.stop()
}

// After a crash the owner reads what was retried, resumed and asked again.
func TestSeed002R11(t *testing.T) {
	s := newStage(t, "")
	s.start(nil)
	s.add("asks", twoSteps, false)
	s.add("works", strings.ReplaceAll(oneSlowStep, "sleep 0.7", "sleep 60"), true)
	s.untilState("asks", td.Waiting)
	s.until("a step is in flight", func() bool { return strings.Contains(s.person.marks(), "begun") })
	s.d.kill()
	s.start(nil)
	text := s.report().String()
	for _, want := range []string{"after a crash", "1 task resumed", "works", "adopted", "1 request asked again", "asks"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not say %q:\n%s", want, text)
		}
	}
	if !strings.Contains(s.d.log.String(), "1 task resumed") {
		t.Error("the report is not in the log")
	}
	for _, key := range []string{"asks", "works"} {
		if err := s.person.once(s.ctx, "cancel "+key, string(s.task(key).ID), api.Command{Type: td.CmdCancel}); err != nil {
			t.Fatal(err)
		}
		s.untilState(key, td.Cancelled)
	}
	s.d.stop()
}

// A clean restart with nothing to do says so.
func TestSeed002R12(t *testing.T) {
	s := newStage(t, "")
	s.start(nil)
	s.add("done", twoSteps, true)
	s.untilState("done", td.Completed)
	s.d.stop()
	s.start(nil)
	if text := s.report().String(); !strings.Contains(text, "No pending tasks to recover.") {
		t.Errorf("report: %s", text)
	}
	s.d.stop()
}
