package transcript

import (
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

// What a model said when it was told to go on belongs to its answer, unless that was dropped; and only so much of it.
func TestSaidBefore(t *testing.T) {
	say := func(text string) td.Body {
		return answeredWith(td.ModelResult{StopReason: td.EndTurn, Message: message(td.Assistant, text)})
	}
	urge := func(why td.Why) td.Body { return td.Said{By: "taskdaemon", Why: why, Text: "Go on."} }
	long := strings.Repeat("long ", maxPieces/5)
	for name, c := range map[string]struct {
		said []td.Body
		last string
		want string
		cut  bool
	}{
		"nothing":                {said: []td.Body{say("a")}},
		"reminded":               {said: []td.Body{say("a"), urge(td.Remind), say("b"), urge(td.Remind)}, want: "a\n\nb"},
		"cut":                    {said: []td.Body{say("a "), urge(td.Continue), say("b"), urge(td.Remind), say("c"), urge(td.Continue)}, want: "a b\n\nc", cut: true},
		"repeated":               {said: []td.Body{say("a"), urge(td.Remind), say("b"), urge(td.Remind)}, last: "it is b", want: "a"},
		"dropped":                {said: []td.Body{say("a"), urge(td.Remind), say("b"), urge(td.Remind), td.Discarded{}}, want: "a"},
		"said by a person":       {said: []td.Body{say("a"), td.Said{By: "a person", Text: "Go on."}}},
		"too long":               {said: []td.Body{say(long + "end"), urge(td.Remind)}, want: (long + "end")[:maxPieces]},
		"too long with what was": {said: []td.Body{say("ab"), urge(td.Remind), say(long), urge(td.Remind)}, want: long},
	} {
		tr, _ := play(append([]td.Body{td.ContextSet{Iteration: 1, Opening: message(td.User, "work")}}, c.said...)...)
		if got, cut := tr.SaidBefore(c.last); got != c.want || cut != c.cut {
			t.Errorf("%s: %.40q (%d), %v, want %.40q (%d), %v", name, got, len(got), cut, c.want, len(c.want), c.cut)
		}
	}
}
