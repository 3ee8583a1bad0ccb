package apitest

import (
	"strings"
	"testing"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

func (s suite) prd(t *testing.T, in api.CreatePRD) api.PRD {
	t.Helper()
	in.Dir = s.dir
	p, err := s.svc.CreatePRD(s.ctx, in)
	if err != nil {
		t.Fatalf("create the PRD %q: %v", in.Name, err)
	}
	return p
}

func testCreatePRD(t *testing.T, s suite) {
	_, err := s.svc.CreatePRD(s.ctx, api.CreatePRD{Dir: s.dir, Name: "early"})
	wantKind(t, "a PRD where there is no graph", err, td.NotFound)
	s.init(t)
	p := s.prd(t, api.CreatePRD{Name: "Auth / Login", Spec: "# Spec\n", By: s.me})
	if p.Slug != "auth-login" || p.Phase != td.PRDDraft || p.Next != td.AuthorPlan || !p.Created || p.Task.Kind != td.KindPRD || p.Task.CreatedBy != s.me {
		t.Errorf("it is %+v", p)
	}
	if spec := p.Document(td.DocSpec); !spec.There || spec.Text != "# Spec\n" || !strings.HasSuffix(spec.Path, "/prds/auth-login/spec.md") {
		t.Errorf("the spec is %+v", spec)
	}
	again := s.prd(t, api.CreatePRD{Name: "Auth / Login", Spec: "# Spec\n", Plan: "# Plan\n"})
	if again.Task.ID != p.Task.ID || again.Created || again.Phase != td.PRDPlanned || again.Next != td.AuthorWork {
		t.Errorf("again it is %+v", again)
	}
	_, err = s.svc.CreatePRD(s.ctx, api.CreatePRD{Dir: s.dir, Name: "auth-login", Plan: "# Another\n"})
	wantKind(t, "another plan", err, td.Conflict)
	if forced := s.prd(t, api.CreatePRD{Name: "auth-login", Plan: "# Another\n", Force: true}); forced.Document(td.DocPlan).Text != "# Another\n" {
		t.Errorf("by force the plan is %+v", forced.Document(td.DocPlan))
	}
	_, err = s.svc.CreatePRD(s.ctx, api.CreatePRD{Dir: s.dir, Name: "auth.login"})
	wantKind(t, "another name with that folder", err, td.Conflict)
	for _, name := range []string{"", "..", "/", "!", strings.Repeat("x", 2000)} {
		if _, err := s.svc.CreatePRD(s.ctx, api.CreatePRD{Dir: s.dir, Name: name}); err == nil && len(name) < 2000 {
			t.Errorf("the name %.20q is taken", name)
		}
	}
	_, err = s.svc.CreatePRD(s.ctx, api.CreatePRD{Dir: s.dir, Name: "long", Spec: strings.Repeat("x", 1<<20+1)})
	wantKind(t, "a document that is too long", err, td.Invalid)
	if _, err := s.svc.PRD(s.ctx, s.dir, "long"); !td.IsKind(err, td.NotFound) {
		t.Errorf("the PRD of a document that was refused: %v", err)
	}
	for _, ref := range []string{"auth-login", string(p.Task.ID), p.Task.Handle} {
		if got, err := s.svc.PRD(s.ctx, s.dir, ref); err != nil || got.Task.ID != p.Task.ID {
			t.Errorf("%s is %+v, %v", ref, got, err)
		}
	}
	_, err = s.svc.PRD(s.ctx, s.dir, "nothing")
	wantKind(t, "an unknown PRD", err, td.NotFound)
	s.prd(t, api.CreatePRD{Name: "Second"})
	all, err := s.svc.PRDs(s.ctx, s.dir)
	if err != nil || len(all) < 2 || all[0].Slug != "auth-login" || all[0].Document(td.DocSpec).Text != "" || !all[0].Document(td.DocSpec).There {
		t.Errorf("all are %+v, %v", all, err)
	}
}

func testPhasesOfPRD(t *testing.T, s suite) {
	s.init(t)
	p := s.prd(t, api.CreatePRD{Name: "House"})
	now := func(want td.PRDPhase, next td.AuthorPhase) {
		t.Helper()
		got, err := s.svc.PRD(s.ctx, s.dir, "house")
		if err != nil || got.Phase != want || got.Next != next {
			t.Fatalf("it is %s, next %q, %v; want %s, %q", got.Phase, got.Next, err, want, next)
		}
	}
	now(td.PRDDraft, td.AuthorSpec)
	for name, next := range map[td.DocName]td.AuthorPhase{td.DocSpec: td.AuthorPlan} {
		if _, err := s.svc.WritePRD(s.ctx, api.WritePRD{Dir: s.dir, Ref: "house", Document: name, Text: "words"}); err != nil {
			t.Fatal(err)
		}
		now(td.PRDDraft, next)
	}
	if _, err := s.svc.WritePRD(s.ctx, api.WritePRD{Dir: s.dir, Ref: "house", Document: td.DocPlan, Text: "words"}); err != nil {
		t.Fatal(err)
	}
	now(td.PRDPlanned, td.AuthorWork)
	_, err := s.svc.WritePRD(s.ctx, api.WritePRD{Dir: s.dir, Ref: "house", Document: td.DocPlan, Text: "others"})
	wantKind(t, "other words", err, td.Conflict)
	parts := s.plan(t, api.PlanTask{Title: "floor", Parent: "house"}, api.PlanTask{Title: "roof", Parent: "house", Blockers: []string{"@1"}})
	now(td.PRDReady, "")
	s.change(t, api.ChangePlan{Ref: parts["floor"].Handle, Verb: api.PlanDone})
	now(td.PRDRunning, "")
	s.change(t, api.ChangePlan{Ref: parts["roof"].Handle, Verb: api.PlanFail})
	now(td.PRDFailed, "")
	s.change(t, api.ChangePlan{Ref: parts["roof"].Handle, Verb: api.PlanDone})
	now(td.PRDDone, "")
	s.change(t, api.ChangePlan{Ref: parts["roof"].Handle, Verb: api.PlanReset})
	gone, err := s.svc.DeletePRD(s.ctx, s.dir, "house")
	if err != nil || gone.Task.ID != p.Task.ID {
		t.Fatalf("delete it: %+v, %v", gone, err)
	}
	for _, ref := range []td.TaskID{p.Task.ID, parts["roof"].ID} {
		_, err = s.svc.PlannedTask(s.ctx, s.dir, string(ref))
		wantKind(t, "what was deleted", err, td.NotFound)
	}
	if got := s.now(t, parts["floor"]); got.State != td.Completed || got.Parent != nil && got.Parent.State != "" {
		t.Errorf("what had ended is %+v", got)
	}
	if anew := s.prd(t, api.CreatePRD{Name: "House"}); anew.Document(td.DocSpec).There || anew.Task.ID == p.Task.ID {
		t.Errorf("the same name again is %+v", anew)
	}
}

func testAuthorPRD(t *testing.T, s suite) {
	s.init(t)
	s.prd(t, api.CreatePRD{Name: "House"})
	ask := api.AuthorPRD{Dir: s.dir, Ref: "house", Phase: td.AuthorSpec, Rehearsal: Script, By: s.me}
	a, err := s.svc.AuthorPRD(s.ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.svc.AuthorPRD(s.ctx, ask)
	if err != nil || again.ID != a.ID {
		t.Errorf("again it is %s, not %s, %v", again.ID, a.ID, err)
	}
	if a.Author == nil || a.Author.Phase != td.AuthorSpec || !strings.HasSuffix(a.Author.Document, "/prds/house/spec.md") || a.Project != "" {
		t.Errorf("the author is %+v", a.Spec)
	}
	s.until(t, a.ID, td.Waiting)
	p, err := s.svc.PRD(s.ctx, s.dir, "house")
	if err != nil || p.Next != td.AuthorSpec || len(p.Authors) != 1 || p.Authors[0].ID != a.ID {
		t.Errorf("meanwhile it is %+v, %v", p, err)
	}
	_, err = s.svc.DeletePRD(s.ctx, s.dir, "house")
	wantKind(t, "to delete it meanwhile", err, td.Conflict)
	if _, err := s.svc.Command(s.ctx, string(a.ID), api.Command{Type: td.CmdCancel}); err != nil {
		t.Fatal(err)
	}
	s.until(t, a.ID, td.Cancelled)
	next, err := s.svc.AuthorPRD(s.ctx, ask)
	if err != nil || next.ID == a.ID {
		t.Errorf("after that it is %s, %v", next.ID, err)
	}
	_, err = s.svc.AuthorPRD(s.ctx, api.AuthorPRD{Dir: s.dir, Ref: "house", Phase: td.AuthorWork})
	wantKind(t, "tasks without documents", err, td.Conflict)
	_, err = s.svc.AuthorPRD(s.ctx, api.AuthorPRD{Dir: s.dir, Ref: "house", Phase: "song"})
	wantKind(t, "an unknown phase", err, td.Invalid)
}
