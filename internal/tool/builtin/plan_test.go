package builtin

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// fakePlanner keeps tasks by their keys.
type fakePlanner struct{ tasks map[string]api.PlanTask }

func (p *fakePlanner) Plan(_ context.Context, tasks []api.PlanTask) (out []api.Planned, _ error) {
	for _, t := range tasks {
		p.tasks[t.Key] = t
		out = append(out, api.Planned{Handle: "t-1", Title: t.Title})
	}
	return out, nil
}

func (p *fakePlanner) Planned(_ context.Context, keys []string) (out []api.Planned, all bool, _ error) {
	for _, k := range keys {
		if t, ok := p.tasks[k]; ok {
			out = append(out, api.Planned{Handle: "t-1", Title: t.Title})
		}
	}
	return out, len(out) == len(keys), nil
}

func TestPlanTasksOnce(t *testing.T) {
	p := &fakePlanner{tasks: map[string]api.PlanTask{}}
	plan := PlanTool(p)
	input := json.RawMessage(`{"tasks":[{"title":"a","text":"x"},{"title":"b","text":"y","after":["@1"]}]}`)
	first := &tool.Env{Task: "task", Step: "t1.0"}
	call, err := plan.Prepare(t.Context(), first, input)
	if err != nil || call.Effect != td.Keyed || !call.Free {
		t.Fatalf("%+v, %v", call, err)
	}
	if res, err := plan.Resolve(t.Context(), first, input, td.Intent{}); err != nil || res.State != tool.NotDone {
		t.Errorf("before: %+v, %v", res, err)
	}
	was, err := call.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The next attempt after a crash finds it done, and even if it did not it would add nothing.
	again := &tool.Env{Task: "task", Step: td.StepKey("t1.0").Try(1)}
	if res, err := plan.Resolve(t.Context(), again, input, td.Intent{}); err != nil || res.State != tool.Done || res.Result.Content != was.Content {
		t.Errorf("after: %+v, %v", res, err)
	}
	if call, err = plan.Prepare(t.Context(), again, input); err == nil {
		_, err = call.Run(t.Context())
	}
	if err != nil || len(p.tasks) != 2 {
		t.Errorf("%d tasks, %v", len(p.tasks), err)
	}
	// Another plan in a step of the same name, because an answer was dropped, is another one.
	other := json.RawMessage(`{"tasks":[{"title":"a","text":"z"}]}`)
	if res, err := plan.Resolve(t.Context(), first, other, td.Intent{}); err != nil || res.State != tool.NotDone {
		t.Errorf("another plan: %+v, %v", res, err)
	}
}

func TestPlanTasksRefuses(t *testing.T) {
	plan := PlanTool(&fakePlanner{})
	for name, input := range map[string]string{
		"nothing":              `{"tasks":[]}`,
		"no text":              `{"tasks":[{"title":"a"}]}`,
		"one that comes later": `{"tasks":[{"title":"a","text":"x","after":["@2"]},{"title":"b","text":"x"}]}`,
		"itself":               `{"tasks":[{"title":"a","text":"x","parent":"@1"}]}`,
		"no number":            `{"tasks":[{"title":"a","text":"x","after":["@x"]}]}`,
		"a priority of 5":      `{"tasks":[{"title":"a","text":"x","priority":5}]}`,
		"an unknown tier":      `{"tasks":[{"title":"a","text":"x","tier":"huge"}]}`,
	} {
		if _, err := plan.Prepare(t.Context(), &tool.Env{}, json.RawMessage(input)); !td.IsKind(err, td.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	call, err := plan.Prepare(t.Context(), &tool.Env{}, json.RawMessage(`{"tasks":[{"title":"a","text":"x","validator":"make\u202e test"}]}`))
	if err != nil || call.Free || !strings.Contains(call.Title, `checked by: make\u{202e} test`) {
		t.Errorf("a command: %+v, %v", call, err)
	}
}
