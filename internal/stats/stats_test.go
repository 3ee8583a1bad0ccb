package stats

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// fold counts bodies of task t that come a second apart.
func fold(bodies ...td.Body) *Fold {
	f := &Fold{}
	for i, b := range bodies {
		f.Add(td.Event{Task: "t", At: noon.Add(time.Duration(i) * time.Second), Body: b})
	}
	return f
}

func intent(key td.StepKey, kind td.StepKind, name string) td.Body {
	return td.StepIntended{Intent: td.Intent{Key: key, Kind: kind, Name: name}}
}

func end(key td.StepKey, took time.Duration, with func(*td.Outcome)) td.Body {
	out := td.Outcome{Key: key, Took: took}
	if with != nil {
		with(&out)
	}
	return td.StepEnded{Outcome: out}
}

func TestSteps(t *testing.T) {
	usage := td.Usage{Input: 100, Output: 10}
	got := fold(
		td.Created{},
		end("t0.0", time.Hour, nil), // it began before
		intent("t1.model", td.ModelStep, "m"),
		end("t1.model", 3*time.Second, func(o *td.Outcome) { o.Model = &td.ModelResult{Usage: usage, Cost: 5} }),
		intent("t1.0", td.ToolStep, "Bash"), intent("t1.1", td.ToolStep, "Read"),
		end("t1.1", time.Millisecond, func(o *td.Outcome) { o.Tool = &td.ToolResult{} }),
		end("t1.0", 2*time.Millisecond, func(o *td.Outcome) { o.Tool = &td.ToolResult{IsError: true} }),
		intent("t2.model", td.ModelStep, "m"),
		end("t2.model", time.Second, func(o *td.Outcome) { o.Failure = &td.ModelFailure{} }),
		intent("side", td.SideStep, "m"),
		end("side", time.Second, func(o *td.Outcome) { o.Side = &td.SideResult{Usage: usage, Cost: 1, Error: "no answer"} }),
		td.Queried{Side: td.SideResult{Usage: usage, Cost: 1}},
		intent("removal", td.RemoveStep, "x"), end("removal", 0, nil),
		intent("merge", td.MergeStep, "x"), // under way
		td.RequestOpened{}, td.Received{}, td.Received{},
		td.Recovered{Report: td.Report{Clean: true}}, td.Recovered{},
		td.Trimmed{Was: "step_ended"},
		td.Moved{Status: td.Status{State: td.Running}},
		td.Moved{Status: td.Status{State: td.Completed}},
	).Stats(time.Time{}, noon.Add(time.Hour))
	want := api.Stats{
		Since: noon, Until: noon.Add(time.Hour), Added: 1, Ended: map[td.State]int{td.Completed: 1},
		Calls: 3, Usage: td.Usage{Input: 300, Output: 30}, Cost: 7, Asked: 1, Letters: 2, Crashes: 1, Trimmed: 1,
		Steps: []api.StepStats{
			{Kind: td.ModelStep, Count: 2, Failed: 1, P50: 1000, P95: 3000, P99: 3000},
			{Kind: td.RemoveStep, Count: 1, P50: 1000, P95: 1000, P99: 1000},
			{Kind: td.SideStep, Count: 1, Failed: 1, P50: 1000, P95: 1000, P99: 1000},
			{Kind: td.ToolStep, Name: "Bash", Count: 1, Failed: 1, P50: 2, P95: 2, P99: 2},
			{Kind: td.ToolStep, Name: "Read", Count: 1, P50: 1, P95: 1, P99: 1},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got.Hours() != 1 {
		t.Errorf("%v hours", got.Hours())
	}
}

func TestNothing(t *testing.T) {
	got := new(Fold).Stats(time.Time{}, noon)
	if got.Since != noon || got.Steps == nil || got.Ended == nil || got.Hours() <= 0 {
		t.Errorf("%+v", got)
	}
}

func TestWithin(t *testing.T) {
	var took []time.Duration
	for i := range 100 {
		took = append(took, time.Duration(i+1)*time.Millisecond)
	}
	for percent, want := range map[int]float64{50: 50, 95: 95, 99: 99, 100: 100} {
		if got := within(took, percent); got != want {
			t.Errorf("%d %% within %v ms, want %v", percent, got, want)
		}
	}
	if got := within(took[:1], 50); got != 1 {
		t.Errorf("of one: %v", got)
	}
}
