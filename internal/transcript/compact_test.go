package transcript

import (
	"strings"
	"testing"

	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

func message(role td.Role, text string) td.Message {
	return td.Message{Role: role, Blocks: []td.Block{{Type: td.TextBlock, Text: text}}}
}

// However often the last answer is discarded, the summary of what was before stays.
func TestDiscardStopsAtTheSummary(t *testing.T) {
	tr, at := play(
		td.ContextSet{Iteration: 1, Opening: message(td.User, "do it")},
		td.StepEnded{Outcome: td.Outcome{Model: &td.ModelResult{Message: message(td.Assistant, "one")}}},
		td.Said{Text: "go on", By: "me"},
		td.StepEnded{Outcome: td.Outcome{Model: &td.ModelResult{Message: message(td.Assistant, "two")}}},
		td.Said{Text: "and on", By: "me"},
		td.Compacted{Compaction: td.Compaction{
			Strategy: td.Summarised, From: 1, To: 3, With: []td.Message{message(td.Assistant, "SUMMARY"), message(td.User, "go on")},
		}},
	)
	if tr.Bad != 0 || len(tr.Messages) != 5 {
		t.Fatalf("%d messages, %d records of no use", len(tr.Messages), tr.Bad)
	}
	for range 3 {
		tr.Apply(td.Event{At: at, Body: td.Discarded{}})
	}
	var all []string
	for _, m := range tr.Messages {
		all = append(all, m.Text())
	}
	if got := strings.Join(all, "|"); got != "do it|SUMMARY|go on" {
		t.Errorf("left is %s", got)
	}
}

// What answers noted is not lost when they are summarised, and is of their iteration alone.
func TestNotesOutliveCompaction(t *testing.T) {
	answer := func(text string) td.StepEnded {
		return td.StepEnded{Outcome: td.Outcome{Model: &td.ModelResult{Message: message(td.Assistant, text)}}}
	}
	tr, at := play(
		td.ContextSet{Iteration: 1, Opening: message(td.User, "do it; <journal>not an answer</journal>")},
		answer("<journal>first</journal><next-model>expert</next-model>"),
		td.Said{Text: "go on", By: "me"},
		answer("`<journal>in code</journal>`"),
		td.Said{Text: "and on", By: "me"},
		td.Compacted{Compaction: td.Compaction{
			Strategy: td.Summarised, From: 1, To: 3, With: []td.Message{message(td.Assistant, "It said <journal>first</journal>"), message(td.User, "go on")},
		}},
		answer("<journal>second</journal>"),
	)
	notes, next := tr.Said()
	if tr.Bad != 0 || strings.Join(notes, "|") != "first|second" || next != td.Expert {
		t.Errorf("%q, %q; %d records of no use", notes, next, tr.Bad)
	}
	tr.Apply(td.Event{At: at, Body: td.Discarded{}})
	if notes, _ := tr.Said(); strings.Join(notes, "|") != "first" {
		t.Errorf("after the newest answer was discarded: %q", notes)
	}
	tr.Apply(td.Event{At: at, Body: td.ContextSet{Iteration: 2, Opening: message(td.User, "again")}})
	if notes, next := tr.Said(); len(notes) > 0 || next != "" {
		t.Errorf("the next iteration has said %q, %q", notes, next)
	}
}

// What a person says to a task that has not begun is heard when it does.
func TestSaidBeforeTheContext(t *testing.T) {
	tr, _ := play(
		td.Said{Text: "make it blue", By: "me"},
		td.Said{Text: "reminded", By: "taskdaemon", Why: td.Remind},
		td.ContextSet{Iteration: 1, Opening: message(td.User, "paint it")},
	)
	if len(tr.Messages) != 1 || tr.Messages[0].Text() != "paint it\nmake it blue" {
		t.Errorf("the model hears %+v", tr.Messages)
	}
	tr.Apply(td.Event{Body: td.ContextSet{Iteration: 2, Opening: message(td.User, "again")}})
	if len(tr.Messages) != 1 || tr.Messages[0].Text() != "again" {
		t.Errorf("the next iteration begins with %+v", tr.Messages)
	}
}

// A wish is fulfilled when the conversation is as small as it should become, or when that cannot be.
func TestWantedUntilItIsSmallEnough(t *testing.T) {
	long := strings.Repeat("many words ", 50)
	bodies := []td.Body{td.ContextSet{Iteration: 1, System: "be good", Opening: message(td.User, "do it")}}
	for range 4 {
		bodies = append(bodies, answeredWith(td.ModelResult{Message: message(td.Assistant, long)}), td.Said{Text: "go on", By: "me"})
	}
	tr, at := play(append(bodies, td.CompactionWanted{By: "me"})...)
	drop := func(from int) {
		tr.Apply(td.Event{At: at, Body: td.Compacted{Compaction: td.Compaction{
			Strategy: td.Dropped, From: from, To: from + 2, With: []td.Message{message(td.Assistant, "left out"), message(td.User, "go on")},
		}}})
	}
	want := tr.Wanted
	if drop(1); want == 0 || tr.Wanted != want || tr.Bad != 0 {
		t.Errorf("one of four is left out: wanted are %d, then %d", want, tr.Wanted)
	}
	drop(3)
	drop(5)
	if tr.Wanted != 0 || tr.Compacted != 3 {
		t.Errorf("three of four are left out: still wanted are %d, after %d compactions", tr.Wanted, tr.Compacted)
	}
	tr.Apply(td.Event{At: at, Body: td.CompactionWanted{By: "me"}})
	if tr.Apply(td.Event{At: at, Body: td.Compacted{Compaction: td.Compaction{Strategy: td.Dropped}}}); tr.Wanted != 0 {
		t.Errorf("nothing can be left out: still wanted are %d", tr.Wanted)
	}
}

// A small model that had nothing to say is not asked again before the next answer, in whatever life.
func TestNoSummaryIsRemembered(t *testing.T) {
	tr, at := play(td.ContextSet{Iteration: 1, Opening: message(td.User, "do it")})
	for _, c := range []struct {
		key  td.StepKey
		side td.SideResult
		want bool
	}{
		{tr.SummaryKey(), td.SideResult{Text: "all was done"}, false},
		{"t1.digest", td.SideResult{Error: "no"}, false},
		{tr.SummaryKey(), td.SideResult{Error: "no"}, true},
	} {
		tr.Apply(td.Event{At: at, Body: td.StepEnded{Outcome: td.Outcome{Key: c.key, Side: &c.side}}})
		if (tr.NoSummary != "") != c.want {
			t.Errorf("%s gave %+v: no summary is %v", c.key, c.side, tr.NoSummary)
		}
	}
	if tr.Apply(td.Event{At: at, Body: answeredWith(td.ModelResult{})}); tr.NoSummary != "" {
		t.Error("it is never asked again")
	}
}

// What hooks and taskdaemon itself say is nobody's word: a compaction need not keep it.
func TestInjectedWordsAreAsides(t *testing.T) {
	tr, _ := play(
		td.ContextSet{Iteration: 1, Opening: message(td.User, "do it")},
		td.Said{Text: "the tests are red", By: "hook", Why: td.Inject},
		td.Said{Text: "make it blue", By: "me"},
	)
	for _, b := range tr.Messages[0].Blocks {
		if b.Aside != (b.Text == "the tests are red") {
			t.Errorf("%+v", b)
		}
	}
	for range 20 {
		tr.Apply(td.Event{Body: answeredWith(td.ModelResult{Message: message(td.Assistant, strings.Repeat("many words ", 100))})})
		tr.Apply(td.Event{Body: td.Said{Text: "the tests are red", By: "hook", Why: td.Inject}})
		tr.Apply(td.Event{Body: td.Said{Text: "go on", By: "me"}})
	}
	d := window.Plan(tr.Messages, window.Parts{}, window.Budget{Window: 4000}, window.Options{NoSummary: true})
	msgs, err := window.Apply(tr.Messages, d.Compaction)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, m := range msgs {
		for _, b := range m.Blocks {
			count[b.Text]++
		}
	}
	if count["go on"] != 20 || count["the tests are red"] > 10 {
		t.Errorf("a person spoke 20 times, left are %d; a hook 21 times, left are %d", count["go on"], count["the tests are red"])
	}
}

// A call that the provider found too long is made smaller before the next attempt.
func TestTooLongIsAWish(t *testing.T) {
	tr, at := play(talk()...)
	for _, c := range []struct {
		failure td.ModelFailure
		want    bool
	}{
		{td.ModelFailure{Class: td.TooLong}, false}, // it is given up
		{td.ModelFailure{Class: td.Network, RetryAt: at}, false},
		{td.ModelFailure{Class: td.TooLong, RetryAt: at}, true},
	} {
		tr.Apply(td.Event{At: at, Body: td.StepEnded{Outcome: td.Outcome{Failure: &c.failure}}})
		if tr.Wanted > 0 != c.want {
			t.Errorf("after %+v wanted are %d", c.failure, tr.Wanted)
		}
	}
}
