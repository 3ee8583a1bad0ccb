package apitest

import (
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// start starts a run that has to be there.
func (s suite) start(t *testing.T, in api.StartRun) api.Run {
	t.Helper()
	in.Dir, in.Rehearsal = s.dir, Script
	run, err := s.svc.StartRun(s.ctx, in)
	if err != nil {
		t.Fatalf("start a run: %v", err)
	}
	return run
}

// run is how a run stands.
func (s suite) run(t *testing.T, name string) api.Run {
	t.Helper()
	found, err := s.svc.Runs(s.ctx, api.RunQuery{Run: name})
	if err != nil || len(found) != 1 {
		t.Fatalf("the run %s: %+v, %v", name, found, err)
	}
	return found[0]
}

// untilRun waits until a run stands as it should.
func (s suite) untilRun(t *testing.T, name, what string, is func(api.Run) bool) api.Run {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; <-time.After(10 * time.Millisecond) {
		run := s.run(t, name)
		if is(run) {
			return run
		}
		if time.Now().After(end) {
			t.Fatalf("the run never has %s: %+v", what, run)
		}
	}
}

// testRun goes through a plan: a run starts what is ready, and the rest by itself when it becomes so, until there is an
// outcome.
func testRun(t *testing.T, s suite) {
	_, err := s.svc.StartRun(s.ctx, api.StartRun{Dir: s.dir})
	wantKind(t, "a run outside any project", err, td.NotFound)
	s.init(t)
	if run := s.start(t, api.StartRun{}); run.End == nil || run.End.Outcome != td.RunNoPlan {
		t.Errorf("an empty graph: %+v", run)
	}
	tasks := s.plan(t,
		api.PlanTask{Title: "floor"},
		api.PlanTask{Title: "roof", Blockers: []string{"@1"}},
		api.PlanTask{Title: "idea", Kind: td.KindPRD}, // it holds tasks and never runs, though there are none yet
	)
	for what, in := range map[string]api.StartRun{
		"a strategy that is not known": {Strategy: "hope"}, "less than no task at once": {Parallel: -1}, "a limit below zero": {Limit: -1},
	} {
		in.Dir = s.dir
		_, err := s.svc.StartRun(s.ctx, in)
		wantKind(t, what, err, td.Invalid)
	}
	if run := s.start(t, api.StartRun{Target: tasks["roof"].Handle}); run.End == nil || run.End.Outcome != td.RunBlocked || len(run.InTheWay) != 1 {
		t.Errorf("a task whose turn has not come: %+v", run)
	}
	run := s.start(t, api.StartRun{Key: "k", Parallel: 2})
	if run.Attached || run.End != nil || len(run.Started) != 1 || run.Started[0].ID != tasks["floor"].ID || run.Started[0].Project == "" || run.Started[0].Ordered == nil {
		t.Fatalf("the beginning: %+v", run)
	}
	for _, key := range []string{"k", "another"} {
		if again := s.start(t, api.StartRun{Key: key}); !again.Attached || again.Run != run.Run || len(again.Started) > 0 || len(again.AtWork) != 1 || again.Parallel != 2 {
			t.Errorf("started again with key %q: %+v", key, again)
		}
	}
	s.close(t, tasks["floor"], api.PlanDone)
	s.untilRun(t, run.Run, "the roof at work", func(r api.Run) bool {
		return r.Completed == 1 && len(r.AtWork)+len(r.Started) == 1 && append(r.AtWork, r.Started...)[0].ID == tasks["roof"].ID
	})
	if open, err := s.svc.Runs(s.ctx, api.RunQuery{Dir: s.dir, Open: true, Limit: 5}); err != nil || len(open) != 1 || open[0].Run != run.Run {
		t.Errorf("open runs: %+v, %v", open, err)
	}
	s.close(t, tasks["roof"], api.PlanFail)
	end := s.untilRun(t, run.Run, "ended", func(r api.Run) bool { return !r.Open() })
	if end.End.Outcome != td.RunComplete || end.End.Completed != 1 || end.End.Failed != 1 || end.End.Open != 0 {
		t.Errorf("the end: %+v", end.End)
	}
	if again := s.start(t, api.StartRun{Key: "k"}); again.Run != run.Run || again.Open() {
		t.Errorf("the same call after the end: %+v", again)
	}
}

// testStopRun stops a run: it starts nothing more, and has ended.
func testStopRun(t *testing.T, s suite) {
	s.init(t)
	_, err := s.svc.StopRun(s.ctx, api.StopRun{Run: "r-nowhere"})
	wantKind(t, "a run that is not", err, td.NotFound)
	_, err = s.svc.Runs(s.ctx, api.RunQuery{Run: "r-nowhere"})
	wantKind(t, "a run that is not", err, td.NotFound)
	tasks := s.plan(t, api.PlanTask{Title: "floor"}, api.PlanTask{Title: "roof", Blockers: []string{"@1"}})
	run := s.start(t, api.StartRun{})
	for range 2 { // once more changes nothing
		stopped, err := s.svc.StopRun(s.ctx, api.StopRun{Run: run.Run, By: "ann"})
		if err != nil || stopped.End == nil || stopped.End.Outcome != td.RunInterrupted || stopped.End.Open != 2 {
			t.Fatalf("stopped: %+v, %v", stopped, err)
		}
	}
	s.close(t, tasks["floor"], api.PlanDone)
	if got, err := s.svc.PlannedTask(s.ctx, s.dir, tasks["roof"].Handle); err != nil || got.Ran {
		t.Errorf("started after the stop: %+v, %v", got, err)
	}
	next := s.start(t, api.StartRun{})
	if next.Run == run.Run {
		t.Errorf("the next run: %+v", next)
	}
	s.untilRun(t, next.Run, "the roof at work", func(r api.Run) bool {
		return len(r.AtWork)+len(r.Started) == 1 && append(r.AtWork, r.Started...)[0].ID == tasks["roof"].ID
	})
}

// close ends a task by hand.
func (s suite) close(t *testing.T, p api.Planned, verb api.PlanVerb) {
	t.Helper()
	if _, err := s.svc.ChangePlan(s.ctx, api.ChangePlan{Dir: s.dir, Ref: p.Handle, Verb: verb, Words: "by hand"}); err != nil {
		t.Fatalf("%s %s: %v", verb, p.Title, err)
	}
}
