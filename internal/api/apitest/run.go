package apitest

import (
	"testing"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// testRunNext goes through a plan: the task at work is given until it has ended, then the next, then the outcome.
func testRunNext(t *testing.T, s suite) {
	_, err := s.svc.RunNext(s.ctx, api.RunNext{Dir: s.dir, Run: "r"})
	wantKind(t, "a run outside any project", err, td.NotFound)
	s.init(t)
	next := func(target string) api.RunStep {
		t.Helper()
		step, err := s.svc.RunNext(s.ctx, api.RunNext{Dir: s.dir, Run: "r", Target: target, Rehearsal: Script})
		if err != nil {
			t.Fatalf("next task: %v", err)
		}
		return step
	}
	if got := next("").Outcome; got != api.RunNoPlan {
		t.Errorf("an empty graph: %q", got)
	}
	tasks := s.plan(t,
		api.PlanTask{Title: "floor"},
		api.PlanTask{Title: "roof", Blockers: []string{"@1"}},
		api.PlanTask{Title: "idea", Kind: td.KindPRD}, // it holds tasks and never runs, though there are none yet
	)
	for what, in := range map[string]api.RunNext{
		"no name": {Dir: s.dir}, "a strategy that is not known": {Dir: s.dir, Run: "r", Strategy: "hope"},
	} {
		_, err := s.svc.RunNext(s.ctx, in)
		wantKind(t, what, err, td.Invalid)
	}
	if step, err := s.svc.RunNext(s.ctx, api.RunNext{Dir: s.dir, Run: "r", Look: true}); err != nil || step.Task != nil || step.Open != 2 {
		t.Errorf("only looking: %+v, %v", step, err)
	}
	if got := next(tasks["roof"].Handle); got.Outcome != api.RunBlocked || len(got.InTheWay) != 1 {
		t.Errorf("a task whose turn has not come: %+v", got)
	}
	first := next("")
	if !first.Started || first.Task == nil || first.Task.ID != tasks["floor"].ID || first.Task.Project == "" || first.Task.Ordered == nil {
		t.Fatalf("the first step: %+v", first)
	}
	if again := next(""); again.Started || again.Task == nil || again.Task.ID != first.Task.ID {
		t.Errorf("asked again while it is at work: %+v", again)
	}
	s.close(t, tasks["floor"], api.PlanDone)
	second := next("")
	for second.Task != nil && second.Task.ID == first.Task.ID { // until it has heard that it was closed
		second = next("")
	}
	if second.Task == nil || second.Task.ID != tasks["roof"].ID || second.Completed != 1 {
		t.Fatalf("after the first was completed: %+v", second)
	}
	s.close(t, tasks["roof"], api.PlanFail)
	end := next("")
	for end.Task != nil {
		end = next("")
	}
	if end.Outcome != api.RunComplete || end.Completed != 1 || end.Failed != 1 || end.Open != 0 {
		t.Errorf("the end: %+v", end)
	}
}

// close ends a task by hand.
func (s suite) close(t *testing.T, p api.Planned, verb api.PlanVerb) {
	t.Helper()
	if _, err := s.svc.ChangePlan(s.ctx, api.ChangePlan{Dir: s.dir, Ref: p.Handle, Verb: verb, Words: "by hand"}); err != nil {
		t.Fatalf("%s %s: %v", verb, p.Title, err)
	}
}
