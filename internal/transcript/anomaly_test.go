package transcript

import (
	"testing"
	"time"

	"taskdaemon/internal/td"
)

func TestAnomalies(t *testing.T) {
	begin := time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC)
	step := func(tool string, reach ...string) td.Body {
		return td.StepIntended{Intent: td.Intent{Key: "t1.0", Kind: td.ToolStep, Name: tool, Reach: reach}}
	}
	shim := func(tool string) td.Body {
		return td.StepIntended{Intent: td.Intent{Key: "t1.0", Kind: td.ToolStep, Name: tool, Boot: "b"}}
	}
	ended := func(memory int64, cpu time.Duration) td.Body {
		return td.StepEnded{Outcome: td.Outcome{Key: "t1.0", Tool: &td.ToolResult{Memory: memory, CPU: cpu}}}
	}
	limits := AnomalyLimits{Writes: 2, Commands: 2, Places: true, Memory: 1 << 20, CPU: time.Second}
	for _, c := range []struct {
		name string
		evs  []td.Body
		gap  time.Duration
		want td.Anomaly
	}{
		{"writes", []td.Body{step("Write"), step("Edit"), step("MultiEdit")}, time.Second, td.WriteRate},
		{"writes far apart", []td.Body{step("Write"), step("Edit"), step("MultiEdit")}, 31 * time.Second, ""},
		{"commands", []td.Body{step("Bash"), step("Bash"), step("Bash")}, time.Second, td.CommandRate},
		{"commands of a skill", []td.Body{shim("tea__boil"), shim("tea__boil"), shim("tea__boil")}, time.Second, td.CommandRate},
		{"looking", []td.Body{step("Read"), step("Read"), step("Read")}, time.Second, ""},
		{"a path", []td.Body{step("Bash", "/etc")}, 0, td.OddPath},
		{"more paths than are listed", []td.Body{td.StepIntended{Intent: td.Intent{Key: "t1.0", Kind: td.ToolStep, Name: "Bash", Unlisted: 3}}}, 0, td.OddPath},
		{"a host", []td.Body{step("WebFetch", td.ReachHost+"example.org")}, 0, td.NewHost},
		{"memory", []td.Body{ended(2<<20, 0)}, 0, td.MemorySpike},
		{"processor", []td.Body{ended(0, time.Minute)}, 0, td.CPUSpike},
		{"little", []td.Body{ended(1, 1)}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var script Transcript
			for i, b := range c.evs {
				script.Apply(td.Event{At: begin.Add(time.Duration(i) * c.gap), Body: b})
			}
			got, found := script.Anomaly(limits)
			if found != (c.want != "") || got.Anomaly != c.want {
				t.Fatalf("got %v, %v; want %q", got, found, c.want)
			}
			if !found {
				return
			}
			if off, found := script.Anomaly(AnomalyLimits{}); found {
				t.Errorf("switched off, and still %v", off)
			}
			// Once it was told, it is told anew only when it happens anew.
			script.Apply(td.Event{At: begin, Body: td.AnomalyFound{Anomaly: got.Anomaly}})
			if again, found := script.Anomaly(limits); found {
				t.Errorf("told twice: %v", again)
			}
			for i, b := range c.evs {
				script.Apply(td.Event{At: begin.Add(time.Hour + time.Duration(i)*c.gap), Body: b})
			}
			_, found = script.Anomaly(limits)
			place := got.Anomaly == td.OddPath || got.Anomaly == td.NewHost
			if found == place {
				t.Errorf("happened anew: found %v", found)
			}
		})
	}
}

// Of each tool the newest calls are remembered, and not ever more of them.
func TestMadeIsBounded(t *testing.T) {
	var script Transcript
	begin := time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC)
	call := func(i int, tool string) {
		script.Apply(td.Event{At: begin.Add(time.Duration(i) * time.Second), Body: td.StepIntended{Intent: td.Intent{Kind: td.ToolStep, Name: tool}}})
	}
	call(0, "Bash")
	for i := range 5 * MostMade {
		call(i, "Read")
		made := script.Made()
		reads := made[1:]
		if made[0].Tool != "Bash" || len(reads) < min(i+1, MostMade) || len(reads) >= 2*MostMade {
			t.Fatalf("after %d reads %d are remembered, behind a %s", i+1, len(reads), made[0].Tool)
		}
		for j, m := range reads {
			if want := begin.Add(time.Duration(i-len(reads)+1+j) * time.Second); m.Tool != "Read" || !m.At.Equal(want) {
				t.Fatalf("after %d reads the one at %d is %+v, want %s", i+1, j, m, want)
			}
		}
	}
}
