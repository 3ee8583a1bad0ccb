package stats

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// tallied are the tallies of bodies of one task that come a second apart.
func tallied(bodies ...td.Body) (out []td.Tally) {
	var inFlight []td.StepRef
	for i, b := range bodies {
		ev := td.Event{Task: "t", At: noon.Add(time.Duration(i) * time.Second), Body: b}
		if t, ok := td.TallyOf(inFlight, ev); ok {
			out = append(out, t)
		}
		inFlight = td.StepsAfter(inFlight, ev)
	}
	return out
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
	got := Of(tallied(
		td.Created{},
		end("t0.0", time.Hour, nil), // nobody knows what it was
		intent("t1.model", td.ModelStep, "m"),
		end("t1.model", 3*time.Second, func(o *td.Outcome) { o.Model = &td.ModelResult{Usage: usage, Cost: 5} }),
		intent("t1.0", td.ToolStep, "Bash"), intent("t1.1", td.ToolStep, "Read"),
		end("t1.1", time.Microsecond, func(o *td.Outcome) { o.Tool = &td.ToolResult{} }),
		end("t1.0", 2*time.Microsecond, func(o *td.Outcome) { o.Tool = &td.ToolResult{IsError: true} }),
		intent("t2.model", td.ModelStep, "m"),
		end("t2.model", time.Second, func(o *td.Outcome) { o.Failure = &td.ModelFailure{} }),
		intent("side", td.SideStep, "m"),
		end("side", time.Second, func(o *td.Outcome) { o.Side = &td.SideResult{Usage: usage, Cost: 1, Error: "no answer"} }),
		td.Queried{Side: td.SideResult{Usage: usage, Cost: 1}},
		intent("removal", td.RemoveStep, "x"), end("removal", 0, nil),
		intent("merge", td.MergeStep, "x"), // under way
		td.RequestOpened{}, td.Received{}, td.Received{},
		td.Recovered{Report: td.Report{Clean: true}}, td.Recovered{},
		td.Moved{Status: td.Status{State: td.Running}},
		td.Moved{Status: td.Status{State: td.Completed}},
	), time.Time{}, noon.Add(time.Hour))
	second, three := 1015.807, 3014.655 // the longest of their classes
	want := api.Stats{
		Since: noon, Until: noon.Add(time.Hour), Added: 1, Ended: map[td.State]int{td.Completed: 1},
		Calls: 3, Usage: td.Usage{Input: 300, Output: 30}, Cost: 7, Asked: 1, Letters: 2, Crashes: 1,
		Steps: []api.StepStats{
			{Kind: td.ModelStep, Count: 2, Failed: 1, P50: second, P95: three, P99: three},
			{Kind: td.RemoveStep, Count: 1, P50: second, P95: second, P99: second},
			{Kind: td.SideStep, Count: 1, Failed: 1, P50: second, P95: second, P99: second},
			{Kind: td.ToolStep, Name: "Bash", Count: 1, Failed: 1, P50: 0.002, P95: 0.002, P99: 0.002},
			{Kind: td.ToolStep, Name: "Read", Count: 1, P50: 0.001, P95: 0.001, P99: 0.001},
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
	got := Of(nil, time.Time{}, noon)
	if got.Since != noon || got.Steps == nil || got.Ended == nil || got.Hours() <= 0 {
		t.Errorf("%+v", got)
	}
	if got := Of(nil, noon.Add(-time.Hour), noon); got.Since != noon.Add(-time.Hour) {
		t.Errorf("nothing in an hour: %+v", got)
	}
}

func TestWithin(t *testing.T) {
	var took []td.Tally
	for i := range 10 {
		took = append(took, td.Tally{TallyKey: td.TallyKey{Took: i + 1}, Count: 10})
	}
	for percent, want := range map[int]float64{50: 0.005, 95: 0.010, 90: 0.009, 100: 0.010, 1: 0.001} {
		if got := within(took, 100, percent); got != want {
			t.Errorf("%d %% within %v ms, want %v", percent, got, want)
		}
	}
}
