// Package apitest says in code how an api.Service behaves. The daemon runs the suite on itself and the
// client runs it through a server, so that nobody can tell which of them they talk to.
package apitest

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// Script makes a task ask one question and complete when it has the answer.
const Script = `name: colour
turns:
  - text: Which colour?
    tools:
      - name: Ask
        input: {question: "Which colour?"}
  - text: Thank you.
    tools:
      - name: Complete
        input: {summary: The colour is known.}
`

// patience bounds every wait for the service to act.
const patience = 20 * time.Second

// Run is the suite. The service may hold other tasks; Stop is not called.
func Run(t *testing.T, svc api.Service) { RunAs(t, svc, me) }

// RunAs is Run for a service that says of what comes to it that it is by that one.
func RunAs(t *testing.T, svc api.Service, by string) {
	for _, tc := range []struct {
		name string
		test func(*testing.T, suite)
	}{
		{"AddTask returns a task with a handle", testAdd},
		{"AddTask with the same key adds once", testKey},
		{"AddTask refuses what makes no sense", testAddInvalid},
		{"Task finds by id, handle and fragment", testFind},
		{"Unknown tasks are not found, everywhere", testNotFound},
		{"Tasks filters by state, folder and number", testTasks},
		{"A question is answered once and the task completes", testAnswer},
		{"A task is paused and goes on", testPause},
		{"A cancelled task has ended", testCancel},
		{"Commands that make no sense are refused", testRefused},
		{"Events come in order, without gaps, and go on after a cursor", testEvents},
		{"Follow sees what happens next and ends with its context", testFollow},
		{"Events can be chosen by type and time", testEventFilter},
		{"History has the conversation and its records", testHistory},
		{"Status counts", testStatus},
		{"Tell hands words to loops, once", testTell},
		{"Query answers from the records", testQuery},
		{"Stats count what was done in a time", testStats},
		{"Cost is broken down, and budgets are raised only where they are set", testCost},
		{"A project is given a graph once", testInitPlan},
		{"Plan adds tasks that name each other", testPlan},
		{"Plan has specs in PRDs only", testSpecs},
		{"Plan with the same key adds once", testPlanKey},
		{"Plan adds all tasks or none", testPlanInvalid},
		{"Planned chooses and orders", testPlanQuery},
		{"ChangePlan changes, and refuses circles", testChangePlan},
		{"ChangePlan with the same key changes once", testChangeKey},
		{"A planned task that was not started says so", testNotStarted},
		{"How planned tasks end frees and blocks others", testEndPlanned},
		{"A run takes one task after the other", testRun},
		{"A run is stopped", testStopRun},
		{"CreatePRD makes a PRD once, and never replaces a document by itself", testCreatePRD},
		{"The phase of a PRD follows from its documents and tasks", testPhasesOfPRD},
		{"AuthorPRD starts one author at a time", testAuthorPRD},
		{"Steps and Rewind answer", testSnapshots},
		{"Worktrees are of repositories and of tasks that have one", testWorktrees},
		{"Checkpoint, Recovery and Doctor answer", testUpkeep},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			tc.test(t, suite{ctx, svc, folder(t), by})
		})
	}
}

// folder is one in which the service may write after the test: it is removed when that is over.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "") // in one whose name tells the test's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for end := time.Now().Add(patience); os.RemoveAll(dir) != nil; <-time.After(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%s cannot be removed", dir)
				return
			}
		}
	})
	return dir
}

type suite struct {
	ctx context.Context
	svc api.Service
	dir string
	me  string // who does everything
}

func (s suite) add(t *testing.T, in api.AddTask) td.Task {
	t.Helper()
	if in.Prompt == "" {
		in.Prompt = "ask for a colour"
	}
	if in.Dir == "" {
		in.Dir = s.dir
	}
	task, err := s.svc.AddTask(s.ctx, in)
	if err != nil {
		t.Fatalf("add task: %v", err)
	}
	return task
}

// asking adds a task and waits until it asks its question.
func (s suite) asking(t *testing.T) td.Task {
	t.Helper()
	return s.until(t, s.add(t, api.AddTask{Rehearsal: Script}).ID, td.Waiting)
}

// until waits for a state by looking again and again: the suite must not rely on Events here.
func (s suite) until(t *testing.T, id td.TaskID, want td.State) td.Task {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		task, err := s.svc.Task(s.ctx, string(id))
		if err != nil {
			t.Fatalf("look at %s: %v", id, err)
		}
		if task.Status.State == want {
			return task
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s is %s (%s), want %s", task.Handle, task.Status.State, task.Status.Reason, want)
		}
	}
}

func wantKind(t *testing.T, what string, err error, kinds ...td.Kind) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want one of kind %v", what, kinds)
		return
	}
	if _, ok := errors.AsType[*td.Error](err); !ok || !slices.Contains(kinds, td.KindOf(err)) {
		t.Errorf("%s: error of kind %s (%v), want %v", what, td.KindOf(err), err, kinds)
	}
	if td.HintOf(err) == "" && !td.IsKind(err, td.Invalid) { // what is wrong with the input says enough
		t.Errorf("%s: the error %q says not what to type next", what, err)
	}
}

func testAdd(t *testing.T, s suite) {
	first := 0
	task := s.add(t, api.AddTask{
		Prompt: "first line\nsecond line", Rehearsal: Script, Priority: &first,
		Labels: []string{"a", "b"}, Validator: "true", MaxTurns: 7, Yes: true, By: s.me,
	})
	if task.ID == "" || task.Handle == "" || task.CreatedAt.IsZero() || task.Head == 0 {
		t.Errorf("task is incomplete: %+v", task)
	}
	if !strings.HasPrefix(task.Title, "first line") || strings.Contains(task.Title, "\n") {
		t.Errorf("title is %q, want one line made of the prompt", task.Title)
	}
	if task.Priority != 0 || !slices.Equal(task.Labels, []string{"a", "b"}) || task.Validator != "true" ||
		task.MaxTurns != 7 || !task.Yes || task.CreatedBy != s.me {
		t.Errorf("task lost what it was added with: %+v", task.Spec)
	}
	if plain := s.add(t, api.AddTask{Rehearsal: Script}); plain.Priority != 2 {
		t.Errorf("priority is %d when not given, want 2", plain.Priority)
	}
}

func testKey(t *testing.T, s suite) {
	key := string(td.NewTaskID())
	one := s.add(t, api.AddTask{Key: key, Rehearsal: Script})
	two := s.add(t, api.AddTask{Key: key, Rehearsal: Script})
	if one.ID != two.ID {
		t.Errorf("one key made two tasks, %s and %s", one.Handle, two.Handle)
	}
}

func testAddInvalid(t *testing.T, s suite) {
	far := 9
	for name, in := range map[string]api.AddTask{
		"empty prompt":    {Dir: s.dir, Prompt: "  "},
		"relative folder": {Dir: "here", Prompt: "x"},
		"priority":        {Dir: s.dir, Prompt: "x", Priority: &far},
	} {
		_, err := s.svc.AddTask(s.ctx, in)
		wantKind(t, name, err, td.Invalid)
	}
}

func testFind(t *testing.T, s suite) {
	task := s.add(t, api.AddTask{Rehearsal: Script})
	for _, ref := range []string{string(task.ID), task.Handle, task.Handle[2:], task.Handle[3:]} {
		if got, err := s.svc.Task(s.ctx, ref); err != nil || got.ID != task.ID {
			t.Errorf("%q finds %s, %v", ref, got.Handle, err)
		}
	}
	s.add(t, api.AddTask{Rehearsal: Script})
	_, err := s.svc.Task(s.ctx, "t-")
	wantKind(t, "a fragment of all", err, td.Ambiguous)
}

func testNotFound(t *testing.T, s suite) {
	const ref = "t-iiiiiiii" // no handle holds an i
	_, err := s.svc.Task(s.ctx, ref)
	wantKind(t, "Task", err, td.NotFound)
	_, err = s.svc.Task(s.ctx, "")
	wantKind(t, "Task without a name", err, td.NotFound, td.Invalid)
	_, err = s.svc.Command(s.ctx, ref, api.Command{Type: td.CmdPause})
	wantKind(t, "Command", err, td.NotFound)
	_, err = s.svc.History(s.ctx, ref)
	wantKind(t, "History", err, td.NotFound)
	_, err = s.svc.Checkpoint(s.ctx, ref)
	wantKind(t, "Checkpoint", err, td.NotFound)
	_, err = s.svc.Context(s.ctx, ref)
	wantKind(t, "Context", err, td.NotFound)
	_, err = s.svc.TestMCPServer(s.ctx, ref)
	wantKind(t, "TestMCPServer", err, td.NotFound)
	err = nil
	for _, e := range s.svc.Events(s.ctx, api.EventQuery{Refs: []string{ref}}) {
		err = e
	}
	wantKind(t, "Events", err, td.NotFound)
}

func testTasks(t *testing.T, s suite) {
	late, early := 4, 1
	a := s.add(t, api.AddTask{Rehearsal: Script, Priority: &late})
	b := s.add(t, api.AddTask{Rehearsal: Script, Priority: &early})
	s.until(t, b.ID, td.Waiting)
	list := func(q api.TaskQuery) []td.TaskID {
		t.Helper()
		tasks, err := s.svc.Tasks(s.ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		var ids []td.TaskID
		for _, task := range tasks {
			ids = append(ids, task.ID)
		}
		return ids
	}
	if got := list(api.TaskQuery{Dir: s.dir}); !slices.Equal(got, []td.TaskID{b.ID, a.ID}) {
		t.Errorf("by folder: %v, want %v", got, []td.TaskID{b.ID, a.ID})
	}
	if got := list(api.TaskQuery{Dir: s.dir, States: []td.State{td.Completed, td.Failed}}); len(got) != 0 {
		t.Errorf("completed or failed: %v, want none", got)
	}
	if got := list(api.TaskQuery{Dir: s.dir, States: []td.State{td.Waiting, td.Queued, td.Running}}); len(got) != 2 {
		t.Errorf("live: %v, want both", got)
	}
	if got := list(api.TaskQuery{Limit: 1}); len(got) != 1 {
		t.Errorf("limit 1: %v", got)
	}
}

func testAnswer(t *testing.T, s suite) {
	task := s.asking(t)
	if len(task.Requests) != 1 || task.Requests[0].Kind != td.AskQuestion || task.Status.Waiting == nil {
		t.Fatalf("waiting task has requests %+v and data %+v", task.Requests, task.Status.Waiting)
	}
	req := task.Requests[0]
	// A request's own handle finds its task.
	if got, err := s.svc.Task(s.ctx, req.Handle()); err != nil || got.ID != task.ID {
		t.Errorf("%s finds %s, %v", req.Handle(), got.Handle, err)
	}
	answer := api.Command{Key: string(td.NewTaskID()), Type: td.CmdAnswer, Request: string(req.ID), Answer: "blue", By: s.me}
	if _, err := s.svc.Command(s.ctx, task.Handle, answer); err != nil {
		t.Fatalf("answer: %v", err)
	}
	if _, err := s.svc.Command(s.ctx, task.Handle, answer); err != nil && !td.IsKind(err, td.Conflict) {
		t.Errorf("the same answer again: %v", err)
	}
	done := s.until(t, task.ID, td.Completed)
	if len(done.Requests) != 0 || done.Turns != 2 || done.Status.Completed == nil {
		t.Errorf("completed task is %+v", done.Live)
	}
	answers := 0
	for it, err := range s.svc.Events(s.ctx, api.EventQuery{Refs: []string{task.Handle}}) {
		if err != nil {
			t.Fatal(err)
		}
		if a, ok := it.Event.Body.(td.RequestAnswered); ok {
			answers++
			if a.Answer.Choice != "blue" || a.Answer.By != s.me {
				t.Errorf("answer is %+v", a.Answer)
			}
		}
	}
	if answers != 1 {
		t.Errorf("%d answers were recorded, want 1", answers)
	}
}

func testPause(t *testing.T, s suite) {
	task := s.asking(t)
	if _, err := s.svc.Command(s.ctx, task.Handle, api.Command{Type: td.CmdPause, By: s.me}); err != nil {
		t.Fatal(err)
	}
	s.until(t, task.ID, td.Paused)
	if _, err := s.svc.Command(s.ctx, task.Handle, api.Command{Type: td.CmdResume, By: s.me}); err != nil {
		t.Fatal(err)
	}
	s.until(t, task.ID, td.Waiting)
}

func testCancel(t *testing.T, s suite) {
	task := s.asking(t)
	if _, err := s.svc.Command(s.ctx, task.Handle, api.Command{Type: td.CmdCancel, Text: "changed my mind"}); err != nil {
		t.Fatal(err)
	}
	done := s.until(t, task.ID, td.Cancelled)
	if len(done.Requests) != 0 {
		t.Errorf("a cancelled task still asks: %+v", done.Requests)
	}
}

func testRefused(t *testing.T, s suite) {
	task := s.asking(t)
	_, err := s.svc.Command(s.ctx, task.Handle, api.Command{Type: "dance"})
	wantKind(t, "an unknown command", err, td.Invalid)
	_, err = s.svc.Command(s.ctx, task.Handle, api.Command{Type: td.CmdResume})
	wantKind(t, "resume of a waiting task", err, td.Conflict)
	if _, err := s.svc.Command(s.ctx, task.Handle, api.Command{Type: td.CmdCancel}); err != nil {
		t.Fatal(err)
	}
	s.until(t, task.ID, td.Cancelled)
	for _, kind := range []td.CommandType{td.CmdPause, td.CmdCancel, td.CmdAnswer, td.CmdMessage} {
		_, err := s.svc.Command(s.ctx, task.Handle, api.Command{Type: kind, Text: "x", Answer: "yes"})
		wantKind(t, string(kind)+" of an ended task", err, td.Conflict)
	}
}

// events reads to the present end.
func (s suite) events(t *testing.T, q api.EventQuery) []td.Event {
	t.Helper()
	var evs []td.Event
	for it, err := range s.svc.Events(s.ctx, q) {
		if err != nil {
			t.Fatalf("events: %v", err)
		}
		if it.Event != nil {
			evs = append(evs, *it.Event)
		}
	}
	return evs
}

func testEvents(t *testing.T, s suite) {
	task := s.asking(t)
	all := s.events(t, api.EventQuery{Refs: []string{task.Handle}})
	if len(all) == 0 {
		t.Fatal("no events")
	}
	if _, ok := all[0].Body.(td.Created); !ok {
		t.Errorf("the first event is %s", all[0].Body.Type())
	}
	for i, ev := range all {
		if ev.Seq != uint64(i+1) || ev.Task != task.ID || ev.At.IsZero() {
			t.Errorf("event %d is %+v", i, ev)
		}
		if i > 0 && ev.Cursor <= all[i-1].Cursor {
			t.Errorf("cursor %d follows %d", ev.Cursor, all[i-1].Cursor)
		}
	}
	for i, ev := range all {
		rest := s.events(t, api.EventQuery{Refs: []string{string(task.ID)}, After: ev.Cursor})
		if len(rest) != len(all)-i-1 || len(rest) > 0 && rest[0].Seq != ev.Seq+1 {
			t.Errorf("after cursor %d come %d events, want %d", ev.Cursor, len(rest), len(all)-i-1)
		}
	}
}

// The answer is sent from inside the loop, when the first event proves that the stream is open.
func testFollow(t *testing.T, s suite) {
	task := s.asking(t)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	all := s.events(t, api.EventQuery{Refs: []string{task.Handle}})
	q := api.EventQuery{Refs: []string{task.Handle}, After: all[len(all)-2].Cursor, Follow: true, Live: true}
	seq, done := all[len(all)-2].Seq, false
	for it, err := range s.svc.Events(ctx, q) {
		if done {
			break // a stream that was ended by its reader may say so
		}
		if err != nil {
			t.Fatalf("follow: %v", err)
		}
		if it.Event == nil {
			continue
		}
		if seq++; it.Event.Seq != seq {
			t.Fatalf("event %d follows %d", it.Event.Seq, seq-1)
		}
		if seq == task.Head {
			if _, err := s.svc.Command(ctx, task.Handle, api.Command{Type: td.CmdAnswer, Answer: "red"}); err != nil {
				t.Fatal(err)
			}
		}
		if m, ok := it.Event.Body.(td.Moved); ok && m.Status.State == td.Completed {
			done = true
			cancel()
		}
	}
	if !done {
		t.Error("the stream ended before the task did")
	}
}

func testEventFilter(t *testing.T, s suite) {
	task := s.asking(t)
	moved := td.Moved{}.Type()
	evs := s.events(t, api.EventQuery{Refs: []string{task.Handle}, Types: []td.EventType{moved}})
	if len(evs) < 2 {
		t.Errorf("%d moves, want start and ask at least", len(evs))
	}
	for _, ev := range evs {
		if ev.Body.Type() != moved {
			t.Errorf("a %s among the moves", ev.Body.Type())
		}
	}
	later := s.events(t, api.EventQuery{Refs: []string{task.Handle}, Since: time.Now().Add(time.Hour)})
	if len(later) != 0 {
		t.Errorf("%d events of the future", len(later))
	}
}

func testHistory(t *testing.T, s suite) {
	task := s.asking(t)
	h, err := s.svc.History(s.ctx, task.Handle)
	if err != nil {
		t.Fatal(err)
	}
	if h.Task.ID != task.ID || uint64(len(h.Events)) != h.Task.Head {
		t.Errorf("history of %s has %d events, head is %d", h.Task.Handle, len(h.Events), h.Task.Head)
	}
	said := func(m td.Message) bool { return m.Role == td.Assistant && m.Text() == "Which colour?" }
	if !slices.ContainsFunc(h.Messages, said) {
		t.Errorf("the question is not in the conversation: %+v", h.Messages)
	}
}

func testStatus(t *testing.T, s suite) {
	s.asking(t)
	st, err := s.svc.Status(s.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if st.Tasks[td.Waiting] < 1 || st.Pid == 0 || st.Version == "" || st.Provider == "" || st.StartedAt.IsZero() {
		t.Errorf("status is %+v", st)
	}
}

func testUpkeep(t *testing.T, s suite) {
	task := s.asking(t)
	if c, err := s.svc.Context(s.ctx, task.Handle); err != nil || c.Task != task.Handle || c.Limit <= 0 || c.Limit >= c.Window {
		t.Errorf("context: %+v, %v", c, err)
	}
	if servers, err := s.svc.MCPServers(s.ctx); err != nil || servers == nil || len(servers) != 0 {
		t.Errorf("MCP servers where the config has none: %#v, %v", servers, err)
	}
	if l, err := s.svc.Locks(s.ctx); err != nil || l.Held == nil || len(l.Held) != 0 || l.Waiters == nil || len(l.Waiters) != 0 {
		t.Errorf("locks where nothing runs: %#v, %v", l, err)
	}
	cp, err := s.svc.Checkpoint(s.ctx, task.Handle)
	if err != nil || cp.Seq != task.Head || cp.Commit == "" || cp.Branch == "" || cp.Cursor < cp.Seq {
		t.Errorf("checkpoint is %+v, %v", cp, err)
	}
	if r, err := s.svc.Recovery(s.ctx); err != nil || r.At.IsZero() {
		t.Errorf("recovery report is %+v, %v", r, err)
	}
	d, err := s.svc.Doctor(s.ctx, api.DoctorRequest{})
	if err != nil || len(d.Checks) == 0 || d.Problems != 0 {
		t.Errorf("doctor says %+v, %v", d, err)
	}
}
