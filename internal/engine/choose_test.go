package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

// falling gives the worker and the small model models to fall back on.
func falling(_ *td.Spec, o *Options) {
	o.Chain = func(model string) []string {
		return map[string][]string{"worker-model": {"second", "third"}, "small-model": {"second"}}[model]
	}
}

func (b *bench) asked() (models []string) {
	for _, r := range b.model.requests {
		models = append(models, r.Model)
	}
	return models
}

// A lone task fails too rarely to turn a model off: its own waits decide.
func TestFallback(t *testing.T) {
	network := &llm.Error{Class: td.Network, Err: errors.New("reset")}
	overloaded := &llm.Error{Class: td.Overloaded, Status: 529, Err: errors.New("busy")}
	auth := &llm.Error{Class: td.AuthFailed, Status: 401, Err: errors.New("who are you")}
	done := calls("Complete", `{"summary":"ok"}`)
	w, s, h := "worker-model", "second", "third"
	for _, tc := range []struct {
		name  string
		plays []any
		state td.State
		asked []string
		err   string
	}{
		{"none fails", []any{done}, td.Completed, []string{w}, ""},
		{"the next is used", slices.Concat(slices.Repeat([]any{overloaded}, 4), []any{done}), td.Completed, []string{w, w, w, w, s}, ""},
		{"it has waits of its own", slices.Concat(slices.Repeat([]any{network}, 7), []any{done}), td.Completed, []string{w, w, w, w, s, s, s, s}, ""},
		{"the next answer is the first one's again", slices.Concat(slices.Repeat([]any{network}, 4), []any{calls("Look", `{}`), done}), td.Completed, []string{w, w, w, w, s, w}, ""},
		{"all fail", slices.Repeat([]any{overloaded}, 12), td.Failed, []string{w, w, w, w, s, s, s, s, h, h, h, h}, "worker-model, second, third all failed, the last with: model: 529: busy"},
		{"a bad key is no reason", []any{network, network, network, network, auth}, td.Failed, []string{w, w, w, w, s}, "who are you"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			play(t, tc.plays, falling, func(b *bench, id td.TaskID) {
				task := b.until(id, tc.state)
				if got := b.asked(); !slices.Equal(got, tc.asked) {
					t.Errorf("asked %v, want %v", got, tc.asked)
				}
				if f := task.Status.Failed; f != nil && !strings.Contains(f.Error, tc.err) {
					t.Errorf("it failed with %s", f.Error)
				}
			})
		})
	}
}

// A hook that names the model does not make the loop go round for ever.
func TestFallbackEndsWhateverTheModelIs(t *testing.T) {
	r := &run{Engine: New(Options{Chain: func(string) []string { return []string{"b"} }})}
	spent := []td.ModelFailure{{Model: "x", Class: td.Network}}
	if use, _, ok := r.choose("a", spent); !ok || use != "a" {
		t.Error(use, ok)
	}
	if use, _, ok := r.choose("a", append(spent, spent...)); ok {
		t.Error(use)
	}
}

// Calls beside the conversation are as patient as those in it.
func TestSideCallsTryAgainAndFallBack(t *testing.T) {
	network := &llm.Error{Class: td.Network, Err: errors.New("reset")}
	small, second := slices.Repeat([]string{"small-model"}, 4), slices.Repeat([]string{"second"}, 4)
	for name, c := range map[string]struct {
		failures int
		asked    []string
		learned  bool
	}{
		"at once":   {0, small[:1], true},
		"again":     {1, small[:2], true},
		"fall back": {4, slices.Concat(small, second[:1]), true},
		"all fail":  {8, slices.Concat(small, second), false},
	} {
		t.Run(name, func(t *testing.T) {
			plays := slices.Concat([]any{tells("Complete", `{"summary":"done"}`)}, slices.Repeat([]any{network}, c.failures),
				[]any{says(`{"learnings": [{"title": "Clocks", "text": "There are two clocks."}]}`, td.EndTurn)})
			var dir string
			play(t, plays, func(s *td.Spec, o *Options) {
				falling(s, o)
				dir, o.Knowledge, o.Extract = s.Dir, knowledge.New("", nil), ExtractRefined
			}, func(b *bench, id td.TaskID) {
				b.until(id, td.Completed)
				if got := b.asked()[1:]; !slices.Equal(got, c.asked) {
					t.Errorf("asked %v, want %v", got, c.asked)
				}
				if got := kept(t, dir); strings.Contains(got, "two clocks") != c.learned {
					t.Errorf("kept %q", got)
				}
			})
		})
	}
}

// What a model costs goes by the name it was asked for; what nobody knows is not taken for nothing.
func TestUnknownPricesAreCounted(t *testing.T) {
	prices, err := llm.ParsePrices([]byte(`{"near/worker": {"input": 3, "output": 0}, "worker": {"input": 9, "output": 0}}`))
	if err != nil {
		t.Fatal(err)
	}
	look, done := calls("Look", `{}`), calls("Complete", `{"summary":"ok"}`)
	look.Usage.Input, done.Usage.Input, look.Model, done.Model = 1e6, 1e6, "worker", "worker"
	for asked, want := range map[string]td.Money{
		"near/worker": 6e6,
		"far/worker":  18e6,
		"other":       18e6, // by the name that answered
	} {
		play(t, []any{look, done}, func(s *td.Spec, o *Options) { s.Model, o.Prices = asked, prices }, func(b *bench, id td.TaskID) {
			if got := b.until(id, td.Completed); got.Cost != want || got.Unpriced != 0 {
				t.Errorf("%s: %d, %d calls of unknown price", asked, got.Cost, got.Unpriced)
			}
		})
	}
	look.Model = "nobody-knows"
	play(t, []any{look, done}, func(s *td.Spec, o *Options) { s.Model, o.Prices = "nobody-knows", prices }, func(b *bench, id td.TaskID) {
		if got := b.until(id, td.Completed); got.Cost != 9e6 || got.Unpriced != 1 {
			t.Errorf("%d, %d calls of unknown price", got.Cost, got.Unpriced)
		}
	})
}

// resting gives the task a night's patience.
func resting(_ *td.Spec, o *Options) {
	o.Retry.Rest, o.Retry.RestMax = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute}, 12*time.Hour
}

// What passes by itself is waited for, with growing rests in which the task holds nothing, and asked for once after each.
func TestOutageIsRestedThrough(t *testing.T) {
	for _, f := range []*llm.Error{
		{Class: td.Network, Err: errors.New("no route to host")},
		{Class: td.Overloaded, Status: 529, Err: errors.New("busy")},
		{Class: td.RateLimited, Status: 429, Err: errors.New("slow down")},
	} {
		plays := slices.Concat(slices.Repeat([]any{f}, 7), []any{calls("Complete", `{"summary":"ok"}`)})
		play(t, plays, resting, func(b *bench, id td.TaskID) {
			began := time.Now()
			b.until(id, td.Blocked)
			task := b.until(id, td.Completed)
			if took := time.Since(began); took < 36*time.Minute || took > 62*time.Minute || len(b.model.requests) != 8 {
				t.Errorf("%s: %d calls in %s", f.Class, len(b.model.requests), took)
			}
			if task.Turns != 1 {
				t.Errorf("%d turns", task.Turns)
			}
		})
	}
}

// A provider that names a long time is not asked before, and nobody holds a place meanwhile.
func TestLongRetryAfterIsRested(t *testing.T) {
	limited := &llm.Error{Class: td.RateLimited, Status: 429, RetryAfter: 2 * time.Hour, Err: errors.New("slow down")}
	play(t, []any{limited, calls("Complete", `{"summary":"ok"}`)}, resting, func(b *bench, id td.TaskID) {
		o := b.until(id, td.Blocked).Status.Blocked.Outage
		if o == nil || o.Wait < 2*time.Hour || len(b.model.requests) != 1 {
			t.Errorf("%+v after %d calls", o, len(b.model.requests))
		}
		b.until(id, td.Completed)
	})
}

func TestOutageEnds(t *testing.T) {
	down := &llm.Error{Class: td.Network, Err: errors.New("no route to host"), Hint: "check the network"}
	play(t, slices.Repeat([]any{down}, 500), resting, func(b *bench, id td.TaskID) {
		began := time.Now()
		failed := b.until(id, td.Failed).Status.Failed
		if took := time.Since(began); took < 12*time.Hour || took > 12*time.Hour+time.Minute {
			t.Errorf("it gave up after %s", took)
		}
		if !strings.Contains(failed.Error, "no answer from the model for 12h0m") || failed.Hint != "check the network" || !failed.Recoverable {
			t.Errorf("%+v", failed)
		}
		n := len(b.model.requests)
		b.post(id, td.Command{Type: td.CmdResume})
		if o := b.until(id, td.Blocked).Status.Blocked.Outage; o.Rests != 1 || len(b.model.requests) != n+4 {
			t.Errorf("after a resume %+v, %d calls", o, len(b.model.requests)-n)
		}
	})
}

// A fallback that a person must see to does not end a task whose own model is only away for a while.
func TestBadFallbackEndsNoOutage(t *testing.T) {
	down := &llm.Error{Class: td.Network, Err: errors.New("no route to host")}
	auth := &llm.Error{Class: td.AuthFailed, Status: 401, Err: errors.New("who are you")}
	play(t, []any{down, down, down, down, auth, calls("Complete", `{"summary":"ok"}`)}, func(s *td.Spec, o *Options) {
		falling(s, o)
		resting(s, o)
	}, func(b *bench, id td.TaskID) {
		b.until(id, td.Blocked)
		b.until(id, td.Completed)
	})
}

// A small model that does not keep to what it was asked for fills no journal.
func TestSideAnswerIsBounded(t *testing.T) {
	play(t, []any{says(strings.Repeat("é", 10<<20), td.EndTurn)}, func(s *td.Spec, _ *Options) { s.Mode = td.Interactive }, func(b *bench, id td.TaskID) {
		out, err := b.engine.Aside(t.Context(), b.task(id), "", "sum it up", 100)
		if err != nil || len(out.Text) > 2000 || !strings.HasSuffix(out.Text, "longer than asked for]") {
			t.Errorf("%d bytes, %v", len(out.Text), err)
		}
	})
}

// An answer without an end is asked for once more, and is no outage that a task rests for.
func TestEndlessIsNoOutage(t *testing.T) {
	table := RetryTable{Network: []time.Duration{time.Second, time.Second, time.Second}, Rest: []time.Duration{time.Hour}, RestMax: 12 * time.Hour}
	now := time.Now()
	var failed []td.ModelFailure
	for i := range 2 {
		f := table.failure("m", &llm.Error{Class: td.Endless, Err: errors.New("the answer is longer than 4 MiB")}, failed, now)
		if again := !f.RetryAt.IsZero(); again != (i == 0) {
			t.Errorf("after %d failures it is asked again: %v", i+1, again)
		}
		failed = append(failed, *f)
	}
	if out := table.rest(nil, failed, now); out != nil {
		t.Errorf("the task rests: %+v", out)
	}
}
