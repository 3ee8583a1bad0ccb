package transcript

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

var driftLimits = DriftLimits{TurnTokens: 1000, ToolFailures: 3, NoProgress: 10 * time.Minute, Repeats: 5}

// play folds bodies a second apart and returns the transcript and the time after the last.
func play(bodies ...td.Body) (*Transcript, time.Time) {
	t, at := &Transcript{}, time.Unix(1_000_000, 0)
	for i, b := range bodies {
		at = at.Add(time.Second)
		t.Apply(td.Event{Seq: uint64(i + 1), At: at, Body: b})
	}
	return t, at
}

func called(name string, input int, failed bool) []td.Body {
	key := td.StepKey(fmt.Sprintf("t1.%d", input))
	return []td.Body{
		td.StepIntended{Intent: td.Intent{Key: key, Kind: td.ToolStep, Name: name, InputHash: fmt.Sprintf("%016d", input)}},
		td.StepEnded{Outcome: td.Outcome{Key: key, Tool: &td.ToolResult{IsError: failed}}},
	}
}

// turn is one whose call brings so much that is new, to a provider that tells nothing of a cache.
func turn(fresh, output int64) []td.Body {
	said := td.Said{Text: strings.Repeat("0", int(fresh)), By: "me"}
	return []td.Body{said, answeredWith(td.ModelResult{
		Message: message(td.Assistant, "hm"), Prefix: &td.Prefix{Sent: 90_000}, Usage: td.Usage{Input: 90_000, Output: output},
	})}
}

var toldTokens = []td.Body{td.Drifted{Signal: td.DriftTokens, Action: td.DriftWarn}}

func validated(call td.StepKey, failed bool) td.Body {
	return td.StepEnded{Outcome: td.Outcome{Key: call + ".validate", Tool: &td.ToolResult{IsError: failed}}}
}

func learned(key td.StepKey) td.Body {
	return td.StepEnded{Outcome: td.Outcome{Key: key, Tool: &td.ToolResult{}}}
}

func times(n int, bodies func(i int) []td.Body) []td.Body {
	var out []td.Body
	for i := range n {
		out = append(out, bodies(i)...)
	}
	return out
}

func TestDrift(t *testing.T) {
	start := td.Moved{Verb: td.VerbStart}
	same := func(int) []td.Body { return called("Grep", 7, false) }
	fresh := func(i int) []td.Body { return called("Read", i, false) }
	failing := func(i int) []td.Body { return called("Bash", i, true) }
	for _, c := range []struct {
		name   string
		bodies []td.Body
		pause  time.Duration // before the last of the bodies
		later  time.Duration
		want   td.Drift
		action td.DriftAction
		detail string
	}{
		{name: "nothing yet"},
		{name: "work goes on", bodies: times(30, fresh)},
		{name: "four of the same", bodies: times(4, same)},
		{name: "five of the same", bodies: times(5, same), want: td.DriftRepeats, action: td.DriftWarn, detail: "Grep"},
		{name: "the same, far apart", bodies: times(5, func(i int) []td.Body { return append(called("Grep", 7, false), times(3, fresh)...) })},
		{name: "told, and the same again", bodies: append(append(times(5, same), td.Drifted{Signal: td.DriftRepeats, Action: td.DriftWarn}), times(5, same)...), want: td.DriftRepeats, action: td.DriftStuck},
		{name: "told, and something else", bodies: append(append(times(5, same), td.Drifted{Signal: td.DriftRepeats, Action: td.DriftWarn}), times(4, same)...)},
		{name: "two failures", bodies: times(2, failing)},
		{name: "three failures", bodies: times(3, failing), want: td.DriftFailures, action: td.DriftStuck, detail: "3 tool calls"},
		{name: "a success between", bodies: append(append(times(2, failing), called("Read", 1, false)...), times(2, failing)...)},
		{name: "a person's word between", bodies: append(append(times(2, failing), td.Said{Text: "try this", By: "me"}), times(2, func(i int) []td.Body { return failing(i + 9) })...)},
		{name: "a nudge is nobody's word", bodies: append(append(times(2, failing), td.Said{Text: "hm", By: "taskdaemon", Why: td.Nudge}), failing(9)...), want: td.DriftFailures, action: td.DriftStuck},
		{name: "dear turn", bodies: turn(900, 200), want: td.DriftTokens, action: td.DriftWarn, detail: "added 11"},
		{name: "cheap turn of a long conversation", bodies: slices.Concat(turn(700, 200), turn(700, 200))},
		{name: "dear turn, then a cheap one", bodies: slices.Concat(turn(2000, 0), turn(10, 0))},
		{name: "dear turn, told", bodies: slices.Concat(turn(2000, 0), toldTokens, turn(2000, 0))},
		{name: "dear turn, told, a cheap one, a dear one", bodies: slices.Concat(turn(2000, 0), toldTokens, turn(10, 0), turn(2000, 0)), want: td.DriftTokens, action: td.DriftWarn},
		{name: "cheap turn of a compacted conversation", bodies: slices.Concat(
			[]td.Body{td.ContextSet{Opening: message(td.User, "do it")}}, turn(2000, 0), toldTokens, turn(700, 0), turn(10, 0),
			[]td.Body{td.Compacted{Compaction: td.Compaction{
				Strategy: td.Summarised, From: 1, To: 3, With: []td.Message{message(td.Assistant, strings.Repeat("0", 2000)), message(td.User, "x")},
			}}}, turn(10, 0))},
		{name: "a call that takes long", bodies: append([]td.Body{start}, called("Bash", 1, false)...), pause: 9 * time.Minute, later: 9 * time.Minute},
		{name: "a validator that takes long", bodies: []td.Body{start, validated("t1.0", true)}, pause: 9 * time.Minute, later: 9 * time.Minute},
		{name: "a validator that fails is one failure", bodies: slices.Concat(times(2, failing), []td.Body{validated("t1.9", true)})},
		{name: "taskdaemon learns by itself", bodies: slices.Concat(times(2, failing), []td.Body{
			td.StepIntended{Intent: td.Intent{Key: "t1.learn.0", Kind: td.LearnStep}}, learned("t1.learn.0"),
		}, failing(9)), want: td.DriftFailures, action: td.DriftStuck},
		{name: "attempts of one call are no repeats", bodies: times(5, func(i int) []td.Body {
			return []td.Body{td.StepIntended{Intent: td.Intent{Key: "t1.0", Kind: td.ToolStep, Name: "Bash", InputHash: fmt.Sprintf("%016d", 1), Attempt: i}}}
		})},
		{name: "quiet for long", bodies: []td.Body{start}, later: 10 * time.Minute, want: td.DriftNoProgress, action: td.DriftStuck, detail: "10m"},
		{name: "quiet, not for long", bodies: []td.Body{start}, later: 9 * time.Minute},
		{name: "only the same for long", bodies: append([]td.Body{start}, called("Bash", 1, false)...), later: 10 * time.Minute, want: td.DriftNoProgress, action: td.DriftStuck},
		{name: "time it did not run does not count", bodies: []td.Body{start, td.Moved{Verb: td.VerbStart}}, later: 9*time.Minute + 59*time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, at := play(c.bodies[:max(len(c.bodies)-1, 0)]...)
			if n := len(c.bodies); n > 0 {
				at = at.Add(c.pause + time.Second)
				tr.Apply(td.Event{Seq: uint64(n), At: at, Body: c.bodies[n-1]})
			}
			got, found := tr.Drift(at.Add(c.later), driftLimits)
			if found != (c.want != "") || got.Signal != c.want || got.Action != c.action || !strings.Contains(got.Detail, c.detail) {
				t.Errorf("got %+v, %v; want %s %s", got, found, c.want, c.action)
			}
			if _, found := tr.Drift(at.Add(c.later), DriftLimits{}); found {
				t.Error("a signal that is off was seen")
			}
			if !found {
				return
			}
			tr.Apply(td.Event{At: at.Add(c.later), Body: td.Drifted{Signal: got.Signal, Action: got.Action}})
			if again, found := tr.Drift(at.Add(c.later), driftLimits); found && again.Signal == got.Signal {
				t.Errorf("recorded, it is seen again: %+v", again)
			}
		})
	}
}
