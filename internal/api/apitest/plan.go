package apitest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// house is a graph for the tests: the walls wait for the floor, the roof for both walls, and the floor and the
// walls are in the shell.
func house(t *testing.T, s suite) map[string]api.Planned {
	t.Helper()
	s.init(t)
	first := 0
	return s.plan(
		t,
		api.PlanTask{Title: "shell"},
		api.PlanTask{Title: "floor", Parent: "@1", Text: "of oak"},
		api.PlanTask{Title: "left wall", Parent: "@1", Blockers: []string{"@2"}},
		api.PlanTask{Title: "right wall", Parent: "@1", Blockers: []string{"@2"}, Priority: &first},
		api.PlanTask{Title: "roof", Blockers: []string{"@3", "@4"}, Related: []string{"@2"}},
	)
}

// testSpecs: a spec is a part of a PRD, and nothing is a part of a spec.
func testSpecs(t *testing.T, s suite) {
	s.init(t)
	refused := func(what string, kind td.Kind, tasks ...api.PlanTask) {
		t.Helper()
		_, err := s.svc.Plan(s.ctx, api.Plan{Dir: s.dir, Tasks: tasks, By: s.me})
		wantKind(t, what, err, kind)
	}
	refused("a spec alone", td.Invalid, api.PlanTask{Title: "alone", Kind: td.KindSpec})
	refused("a spec in a task", td.Invalid, api.PlanTask{Title: "task"}, api.PlanTask{Title: "in a task", Kind: td.KindSpec, Parent: "@1"})
	added := s.plan(t, api.PlanTask{Title: "harbour", Kind: td.KindPRD}, api.PlanTask{Title: "part", Parent: "@1"},
		api.PlanTask{Title: "quay", Kind: td.KindSpec, Parent: "@2"})
	refused("a task in a spec", td.Conflict, api.PlanTask{Title: "stone", Parent: added["quay"].Handle})
}

func (s suite) init(t *testing.T) api.PlanPlace {
	t.Helper()
	place, err := s.svc.InitPlan(s.ctx, api.InitPlan{Dir: s.dir})
	if err != nil {
		t.Fatalf("give a project a graph: %v", err)
	}
	return place
}

func (s suite) plan(t *testing.T, tasks ...api.PlanTask) map[string]api.Planned {
	t.Helper()
	added, err := s.svc.Plan(s.ctx, api.Plan{Dir: s.dir, Tasks: tasks, By: s.me})
	if err != nil || len(added) != len(tasks) {
		t.Fatalf("plan %d tasks: %d, %v", len(tasks), len(added), err)
	}
	out := map[string]api.Planned{}
	for _, p := range added {
		out[p.Title] = p
	}
	return out
}

// titles lists a graph.
func (s suite) titles(t *testing.T, q api.PlanQuery) string {
	t.Helper()
	q.Dir = s.dir
	all, err := s.svc.Planned(s.ctx, q)
	if err != nil {
		t.Fatalf("list %+v: %v", q, err)
	}
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = p.Title
	}
	return strings.Join(out, ", ")
}

func (s suite) change(t *testing.T, in api.ChangePlan) api.Planned {
	t.Helper()
	in.Dir, in.By = s.dir, s.me
	p, err := s.svc.ChangePlan(s.ctx, in)
	if err != nil {
		t.Fatalf("%s %s: %v", in.Verb, in.Ref, err)
	}
	return p
}

// now is how a task stands at present.
func (s suite) now(t *testing.T, p api.Planned) api.Planned {
	t.Helper()
	p, err := s.svc.PlannedTask(s.ctx, s.dir, string(p.ID))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func testInitPlan(t *testing.T, s suite) {
	_, err := s.svc.Planned(s.ctx, api.PlanQuery{Dir: s.dir})
	wantKind(t, "a folder without a graph", err, td.NotFound)
	_, err = s.svc.SyncPlan(s.ctx, s.dir)
	wantKind(t, "sync without a graph", err, td.NotFound)
	_, err = s.svc.Plan(s.ctx, api.Plan{Dir: s.dir, Tasks: []api.PlanTask{{Title: "x"}}})
	wantKind(t, "plan without a graph", err, td.NotFound)
	place := s.init(t)
	if !place.Created || place.Root == "" {
		t.Errorf("the first time: %+v", place)
	}
	deep := filepath.Join(s.dir, "some", "where")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	again, err := s.svc.InitPlan(s.ctx, api.InitPlan{Dir: deep})
	if err != nil || again.Created || again.Root != place.Root {
		t.Errorf("again, from inside: %+v, %v", again, err)
	}
	if all, err := s.svc.Planned(s.ctx, api.PlanQuery{Dir: deep}); err != nil || all == nil || len(all) != 0 {
		t.Errorf("an empty graph: %#v, %v", all, err)
	}
	_, err = s.svc.InitPlan(s.ctx, api.InitPlan{Dir: "here"})
	wantKind(t, "a relative folder", err, td.Invalid)
}

func testPlan(t *testing.T, s suite) {
	all := house(t, s)
	floor, roof, shell := all["floor"], all["roof"], all["shell"]
	if floor.ID == "" || !strings.HasPrefix(floor.Handle, "t-") || floor.Kind != td.KindTask || floor.Text != "of oak" || floor.Priority != 2 ||
		floor.CreatedBy != s.me || floor.CreatedAt.IsZero() || floor.State != td.Queued || !floor.Ready || floor.Obstacle != "" || floor.Depth != 1 {
		t.Errorf("the floor is %+v", floor)
	}
	if floor.Parent == nil || floor.Parent.ID != shell.ID || floor.Parent.Title != "shell" || len(floor.Blocks) != 2 {
		t.Errorf("the floor is tied to %+v and blocks %+v", floor.Parent, floor.Blocks)
	}
	if roof.Ready || roof.Obstacle != "waits" || len(roof.By) != 2 || len(roof.Blockers) != 2 || len(roof.Related) != 1 || roof.Related[0].Handle != floor.Handle {
		t.Errorf("the roof is %+v", roof)
	}
	if !shell.Container || shell.Ready || shell.State != td.Queued {
		t.Errorf("the shell is %+v", shell)
	}
	done := s.plan(t, api.PlanTask{Title: "plot", Done: true}, api.PlanTask{Title: "fence", Blockers: []string{"@1"}})
	if done["plot"].State != td.Completed || !done["fence"].Ready {
		t.Errorf("what is done already: %+v", done)
	}
}

func testPlanKey(t *testing.T, s suite) {
	s.init(t)
	key := string(td.NewTaskID())
	one := s.plan(t, api.PlanTask{Key: key, Title: "one"})["one"]
	both := s.plan(t, api.PlanTask{Key: key, Title: "another name"}, api.PlanTask{Title: "two", Parent: "@1"})
	if both["one"].ID != one.ID || both["two"].Parent == nil || both["two"].Parent.ID != one.ID {
		t.Errorf("the same key again gives %+v", both)
	}
	if got := s.titles(t, api.PlanQuery{}); got != "one, two" {
		t.Errorf("the graph has %s", got)
	}
}

func testPlanInvalid(t *testing.T, s suite) {
	s.init(t)
	far := 5
	for name, bad := range map[string]api.PlanTask{
		"empty title":       {Title: " "},
		"priority":          {Title: "x", Priority: &far},
		"kind":              {Title: "x", Kind: "dream"},
		"no such neighbour": {Title: "x", Parent: "@9"},
		"zeroth neighbour":  {Title: "x", Blockers: []string{"@0"}},
	} {
		_, err := s.svc.Plan(s.ctx, api.Plan{Dir: s.dir, Tasks: []api.PlanTask{{Title: "good"}, bad}})
		wantKind(t, name, err, td.Invalid)
	}
	_, err := s.svc.Plan(s.ctx, api.Plan{Dir: s.dir, Tasks: []api.PlanTask{{Title: "good"}, {Title: "x", Blockers: []string{"t-iiiiiiii"}}}})
	wantKind(t, "an unknown blocker", err, td.NotFound)
	_, err = s.svc.Plan(s.ctx, api.Plan{Dir: s.dir})
	wantKind(t, "nothing", err, td.Invalid)
	_, err = s.svc.Plan(s.ctx, api.Plan{Dir: s.dir, Tasks: []api.PlanTask{{Title: "ended", Done: true}, {Title: "x", Parent: "@1"}}})
	wantKind(t, "a part of what has ended", err, td.Conflict)
	if got := s.titles(t, api.PlanQuery{}); got != "" {
		t.Errorf("of a call that failed there is: %s", got)
	}
}

func testPlanQuery(t *testing.T, s suite) {
	all := house(t, s)
	shell, floor := all["shell"].Handle, string(all["floor"].ID)
	for want, q := range map[string]api.PlanQuery{
		"right wall, shell, floor, left wall, roof": {},
		"shell, right wall, floor, left wall, roof": {Tree: true},
		"shell, right wall, floor, left wall":       {Tree: true, In: shell},
		"right wall, floor, left wall":              {In: shell},
		"floor":                                     {Ready: true},
		"right wall, shell":                         {Limit: 2},
		"":                                          {States: []td.State{td.Completed, td.Failed}},
	} {
		if got := s.titles(t, q); got != want {
			t.Errorf("%+v gives %q, want %q", q, got, want)
		}
	}
	waiting := strings.Split(s.titles(t, api.PlanQuery{Impact: floor}), ", ")
	if slices.Sort(waiting); !slices.Equal(waiting, []string{"left wall", "right wall", "roof"}) {
		t.Errorf("what waits for the floor is %q", waiting)
	}
	if got := s.titles(t, api.PlanQuery{Path: true}); !strings.HasPrefix(got, "floor, ") || !strings.HasSuffix(got, " wall, roof") {
		t.Errorf("the longest chain is %q", got)
	}
	for _, q := range []api.PlanQuery{{In: "t-iiiiiiii"}, {Impact: "t-iiiiiiii"}} {
		q.Dir = s.dir
		_, err := s.svc.Planned(s.ctx, q)
		wantKind(t, "an unknown task", err, td.NotFound)
	}
	_, err := s.svc.PlannedTask(s.ctx, s.dir, "t-")
	wantKind(t, "a fragment of all", err, td.Ambiguous)
	_, err = s.svc.PlannedTask(s.ctx, s.dir, "t-iiiiiiii")
	wantKind(t, "an unknown task", err, td.NotFound)
	_, err = s.svc.PlanLog(s.ctx, s.dir, "t-iiiiiiii")
	wantKind(t, "the log of an unknown task", err, td.NotFound)
}

func testChangePlan(t *testing.T, s suite) {
	all := house(t, s)
	floor, roof := all["floor"], all["roof"]
	title, text, check, first, none := "ground", "of stone", "make check", 0, ""
	got := s.change(t, api.ChangePlan{
		Ref: floor.Handle, Verb: api.PlanUpdate, Title: &title, Text: &text, Validator: &check, Priority: &first, Parent: &none,
		AddLabels: []string{"a", "b"}, AddRelated: []string{roof.Handle},
	})
	if roof := s.now(t, roof); len(roof.Related) != 1 || roof.Related[0].ID != floor.ID {
		t.Errorf("the other is related to %+v", roof.Related)
	}
	if got.Title != title || got.Text != text || got.Validator != check || got.Priority != 0 || got.Parent != nil || len(got.Related) != 1 || got.ID != floor.ID {
		t.Errorf("the changed task is %+v", got)
	}
	got = s.change(t, api.ChangePlan{Ref: floor.Handle, Verb: api.PlanUpdate, RemoveLabels: []string{"a"}, RemoveRelated: []string{roof.Handle}})
	if !slices.Equal(got.Labels, []string{"b"}) || len(got.Related) != 0 || got.Title != title {
		t.Errorf("with less it is %+v", got)
	}
	log, err := s.svc.PlanLog(s.ctx, s.dir, floor.Handle)
	if err != nil || len(log) != 3 || log[0].At.After(log[2].At) || log[0].Actor == "" || len(log[0].Words) == 0 {
		t.Errorf("its log is %+v, %v", log, err)
	}
	_, err = s.svc.ChangePlan(s.ctx, api.ChangePlan{Dir: s.dir, Ref: floor.Handle, Verb: api.PlanUpdate, AddBlockers: []string{roof.Handle}})
	wantKind(t, "a circle", err, td.Conflict)
	_, err = s.svc.ChangePlan(s.ctx, api.ChangePlan{Dir: s.dir, Ref: floor.Handle, Verb: api.PlanUpdate, AddBlockers: []string{floor.Handle}})
	wantKind(t, "a task that waits for itself", err, td.Conflict)
	_, err = s.svc.ChangePlan(s.ctx, api.ChangePlan{Dir: s.dir, Ref: floor.Handle, Verb: "dance"})
	wantKind(t, "an unknown verb", err, td.Invalid)
	_, err = s.svc.ChangePlan(s.ctx, api.ChangePlan{Dir: s.dir, Ref: "t-iiiiiiii", Verb: api.PlanDone})
	wantKind(t, "an unknown task", err, td.NotFound)
	got = s.change(t, api.ChangePlan{Ref: roof.Handle, Verb: api.PlanUpdate, RemoveBlockers: []string{all["left wall"].Handle}})
	if len(got.Blockers) != 1 || len(got.By) != 1 || got.By[0].Title != "right wall" {
		t.Errorf("the roof waits for %+v", got.Blockers)
	}
}

func testChangeKey(t *testing.T, s suite) {
	all := house(t, s)
	floor, left := all["floor"], all["left wall"]
	high, higher, key := "high", "higher", string(td.NewRequestID())
	s.change(t, api.ChangePlan{Ref: floor.Handle, Verb: api.PlanUpdate, Title: &high, Key: key})
	s.change(t, api.ChangePlan{Ref: floor.Handle, Verb: api.PlanUpdate, Title: &higher})
	s.change(t, api.ChangePlan{Ref: floor.Handle, Verb: api.PlanUpdate, Title: &high, Key: key})
	if got := s.now(t, floor); got.Title != higher {
		t.Errorf("a change that was made before was made again: %q", got.Title)
	}
	key = string(td.NewRequestID())
	for range 2 {
		if got := s.change(t, api.ChangePlan{Ref: left.Handle, Verb: api.PlanDelete, Key: key}); got.ID != left.ID || got.Title != "left wall" {
			t.Errorf("the deleted task was %+v", got)
		}
	}
	_, err := s.svc.ChangePlan(s.ctx, api.ChangePlan{Dir: s.dir, Ref: left.Handle, Verb: api.PlanDelete, Key: string(td.NewRequestID())})
	wantKind(t, "to delete what is deleted", err, td.NotFound)
}

func testNotStarted(t *testing.T, s suite) {
	floor := house(t, s)["floor"]
	_, err := s.svc.Command(s.ctx, floor.Handle, api.Command{Type: td.CmdPause})
	wantKind(t, "to pause what was not started", err, td.NotFound)
	if e, ok := errors.AsType[*td.Error](err); !ok || e.Hint != "taskdaemon run "+floor.Handle || !strings.Contains(err.Error(), "not started") {
		t.Errorf("what was not started: %v", err)
	}
	_, err = s.svc.Checkpoint(s.ctx, string(floor.ID))
	wantKind(t, "a checkpoint of what was not started", err, td.NotFound)
}

func testEndPlanned(t *testing.T, s suite) {
	all := house(t, s)
	floor, left, right, roof := all["floor"], all["left wall"], all["right wall"], all["roof"]
	if got := s.change(t, api.ChangePlan{Ref: floor.Handle, Verb: api.PlanDone, Words: "it is level"}); got.State != td.Completed || got.Summary != "it is level" {
		t.Errorf("the floor is %+v", got)
	}
	if got := s.titles(t, api.PlanQuery{Ready: true}); got != "right wall, left wall" {
		t.Errorf("ready are %q", got)
	}
	if got := s.change(t, api.ChangePlan{Ref: left.Handle, Verb: api.PlanFail, Words: "no bricks"}); got.State != td.Failed || got.Reason != "no bricks" {
		t.Errorf("the wall is %+v", got)
	}
	if got := s.now(t, roof); got.State != td.Blocked || got.Obstacle != "failed" || got.By[0].ID != left.ID {
		t.Errorf("the roof is %+v", got)
	}
	if got := s.now(t, all["shell"]); got.State != td.Failed {
		t.Errorf("the shell is %s", got.State)
	}
	_, err := s.svc.ChangePlan(s.ctx, api.ChangePlan{Dir: s.dir, Ref: all["shell"].Handle, Verb: api.PlanDone})
	wantKind(t, "to end a container", err, td.Conflict)
	s.change(t, api.ChangePlan{Ref: left.Handle, Verb: api.PlanReset})
	if got := s.now(t, roof); got.State != td.Queued || got.Obstacle != "waits" || got.Reason != "" {
		t.Errorf("after a reset the roof is %+v", got)
	}
	s.change(t, api.ChangePlan{Ref: right.Handle, Verb: api.PlanDone})
	if got := s.change(t, api.ChangePlan{Ref: left.Handle, Verb: api.PlanDelete}); got.Title != "left wall" {
		t.Errorf("the deleted task was %+v", got)
	}
	_, err = s.svc.PlannedTask(s.ctx, s.dir, string(left.ID))
	wantKind(t, "a deleted task", err, td.NotFound)
	if shell, roof := s.now(t, all["shell"]), s.now(t, roof); shell.State != td.Completed || !roof.Ready {
		t.Errorf("at last the shell is %s, and the roof %+v", shell.State, roof)
	}
}
