package strategy

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"taskdaemon/internal/td"
)

func tries(ends ...td.Ending) []td.Try {
	var out []td.Try
	for i, e := range ends {
		out = append(out, td.Try{Iteration: i + 1, Ending: e})
	}
	return out
}

func TestChoose(t *testing.T) {
	clean, failed, slow := Outcome{Clean: true}, Outcome{Failed: true}, Outcome{}
	for _, c := range []struct {
		name     string
		strategy td.ModelStrategy
		in       Signals
		want     td.Tier
	}{
		{"fixed", td.Fixed, Signals{Own: td.Small, Tries: tries(td.EndedFailed)}, td.Small},
		{"fixed, with a hint", td.Fixed, Signals{Own: td.Small, Hint: td.Expert}, td.Expert},
		{"fixed, of no class", td.Fixed, Signals{}, td.Worker},

		{"usual", td.CostOptimized, Signals{Own: td.Expert, Iteration: 1}, td.Worker},
		{"usual, by default", "", Signals{}, td.Worker},
		{"usual, of a strategy that is not known", "luck", Signals{Tries: tries(td.EndedUnclear)}, td.Expert},
		{"usual, with a hint down", td.CostOptimized, Signals{Tries: tries(td.EndedUnclear), Hint: td.Small}, td.Small},
		{"usual, with a hint that is none", td.CostOptimized, Signals{Hint: "gpt"}, td.Worker},
		{"usual, a sibling failed", td.CostOptimized, Signals{Siblings: []Outcome{clean, clean, failed}}, td.Expert},
		{"usual, a sibling failed long ago", td.CostOptimized, Signals{Siblings: []Outcome{clean, slow, clean, failed}}, td.Worker},
		{"usual, after three clean ones", td.CostOptimized, Signals{Siblings: []Outcome{clean, clean, clean, failed}}, td.Small},
		{"usual, after two clean ones", td.CostOptimized, Signals{Siblings: []Outcome{clean, clean}}, td.Worker},
		{"usual, after clean ones with a try of its own", td.CostOptimized, Signals{Siblings: []Outcome{clean, clean, clean}, Tries: tries(td.EndedUnclear)}, td.Expert},

		{"escalate, at first", td.Escalate, Signals{Iteration: 1, Own: td.Expert}, td.Small},
		{"escalate, after a reset", td.Escalate, Signals{Iteration: 5, Last: td.Expert}, td.Small},
		{"escalate, unclear", td.Escalate, Signals{Tries: tries(td.EndedUnclear), Last: td.Small}, td.Worker},
		{"escalate, mistaken twice", td.Escalate, Signals{Tries: tries(td.EndedMistaken, td.EndedMistaken), Last: td.Worker}, td.Expert},
		{"escalate, unverified", td.Escalate, Signals{Tries: tries(td.EndedUnverified)}, td.Worker},
		{"escalate, unverified twice, the second time with the smallest by a hint", td.Escalate,
			Signals{Tries: tries(td.EndedUnverified, td.EndedUnverified), Last: td.Small}, td.Expert},
		{"escalate, failed", td.Escalate, Signals{Tries: tries(td.EndedFailed), Last: td.Small}, td.Expert},
		{"escalate, interrupted", td.Escalate, Signals{Tries: tries(td.EndedUnclear, td.EndedInterrupted), Last: td.Worker}, td.Worker},
		{"cost-optimized, interrupted", td.CostOptimized, Signals{Tries: tries(td.EndedInterrupted), Last: td.Small}, td.Small},
		{"plan-then-execute, interrupted", td.PlanThenExecute, Signals{Iteration: 2, Tries: tries(td.EndedInterrupted), Last: td.Expert}, td.Expert},
		{"interrupted, and then nothing came of it", td.CostOptimized, Signals{Tries: tries(td.EndedInterrupted, td.EndedUnclear), Last: td.Small}, td.Expert},
		{"escalate, given up", td.Escalate, Signals{Tries: tries(td.EndedGivenUp), Last: td.Small}, td.Expert},
		{"escalate, unclear at the top", td.Escalate, Signals{Tries: tries(td.EndedUnclear), Last: td.Expert}, td.Expert},
		{"escalate, led down by a hint", td.Escalate, Signals{Tries: tries(td.EndedFailed), Last: td.Expert, Hint: td.Small}, td.Small},
		{"escalate, up again from there", td.Escalate, Signals{Tries: tries(td.EndedUnverified, td.EndedUnclear), Last: td.Small}, td.Worker},

		{"plan", td.PlanThenExecute, Signals{Iteration: 1, Own: td.Small}, td.Expert},
		{"plan, then", td.PlanThenExecute, Signals{Iteration: 2, Tries: tries(td.EndedFailed)}, td.Worker},
		{"plan, with a hint", td.PlanThenExecute, Signals{Iteration: 1, Hint: td.Small}, td.Small},
	} {
		got, why := Choose(c.strategy, c.in)
		if got != c.want {
			t.Errorf("%s: %s (%s), want %s", c.name, got, why, c.want)
		}
		if !strings.HasSuffix(why, ".") || strings.Count(why, ".") != 1 {
			t.Errorf("%s: not one sentence: %q", c.name, why)
		}
	}
}

// However a task fares, escalate leads down only where the agent asks for it, and every strategy chooses a class.
func TestEscalateNeverGoesDown(t *testing.T) {
	endings := []td.Ending{td.EndedFailed, td.EndedUnverified, td.EndedUnclear, td.EndedMistaken, td.EndedGivenUp, td.EndedInterrupted}
	rapid.Check(t, func(t *rapid.T) {
		in := Signals{Iteration: 1}
		for range rapid.IntRange(1, 12).Draw(t, "iterations") {
			for _, s := range td.ModelStrategies {
				if tier, why := Choose(s, in); !slices.Contains(ladder, tier) || why == "" {
					t.Fatalf("%s: %q, %q", s, tier, why)
				}
			}
			tier, why := Choose(td.Escalate, in)
			if in.Hint == "" && slices.Index(ladder, tier) < slices.Index(ladder, in.Last) {
				t.Fatalf("from %s down to %s: %s; %+v", in.Last, tier, why, in)
			}
			end := rapid.SampledFrom(endings).Draw(t, "ending")
			in.Tries = append(in.Tries, td.Try{Iteration: in.Iteration, Ending: end, Tier: tier})
			in.Tries = in.Tries[max(0, len(in.Tries)-10):] // as a task keeps them
			in.Iteration++
			in.Last = tier
			in.Hint = rapid.SampledFrom([]td.Tier{"", "", "", td.Small, td.Expert}).Draw(t, "hint")
		}
	})
}
