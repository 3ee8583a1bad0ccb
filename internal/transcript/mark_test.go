package transcript

import (
	"strings"
	"testing"

	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

// talk is a conversation of five messages, of which the newest call carried three.
func talk() []td.Body {
	sent := func(n int) *td.Prefix { return &td.Prefix{Sent: n} }
	return []td.Body{
		td.ContextSet{Iteration: 1, System: "be good", Opening: message(td.User, "do it")},
		answeredWith(td.ModelResult{Message: message(td.Assistant, "one"), Prefix: sent(100)}),
		td.Said{Text: "go on", By: "me"},
		answeredWith(td.ModelResult{Message: message(td.Assistant, "two"), Prefix: sent(120)}),
		td.Said{Text: "and on", By: "me"},
	}
}

func tokens(msgs ...td.Message) (n int) {
	for _, m := range msgs {
		n += window.MessageTokens(m)
	}
	return n
}

func TestFreshAndChanged(t *testing.T) {
	two, more := message(td.Assistant, "two"), message(td.User, "and on")
	stub := []td.Message{message(td.Assistant, "SUMMARY"), message(td.User, "go on")}
	long := td.Block{Type: td.TextBlock, Text: "still there?"}
	added := tokens(td.Message{Blocks: []td.Block{long}}) - tokens(td.Message{})
	for _, c := range []struct {
		name           string
		then           []td.Body
		fresh, changed int
		rewrote        bool
	}{
		{"as it is", nil, tokens(two, more), tokens(two, more), false},
		{"a hook answers", []td.Body{answeredWith(td.ModelResult{Message: message(td.Assistant, "hooked")})},
			tokens(two, more, message(td.Assistant, "hooked")), tokens(two, more, message(td.Assistant, "hooked")), false},
		{"an empty answer, then words", []td.Body{answeredWith(td.ModelResult{Prefix: &td.Prefix{Sent: 150}}), td.Said{Text: long.Text, By: "me"}}, added, added, false},
		{"discarded", []td.Body{td.Discarded{}}, 0, 0, true},
		{"discarded twice", []td.Body{td.Discarded{}, td.Discarded{}}, 0, 0, true},
		{"compacted", []td.Body{td.Compacted{Compaction: td.Compaction{Strategy: td.Summarised, From: 1, To: 3, With: stub}}},
			tokens(two, more), tokens(stub...) + tokens(two, more), true},
		{"nothing to compact", []td.Body{td.Compacted{Compaction: td.Compaction{Strategy: td.Dropped}}}, tokens(two, more), tokens(two, more), false},
	} {
		tr, _ := play(append(talk(), c.then...)...)
		if tr.Bad != 0 || tr.Fresh() != c.fresh || tr.Changed() != c.changed || (tr.Rewrote != "") != c.rewrote {
			t.Errorf("%s: %d fresh, %d changed, rewrote %q; want %d and %d", c.name, tr.Fresh(), tr.Changed(), tr.Rewrote, c.fresh, c.changed)
		}
		if !c.rewrote && !strings.HasPrefix(c.name, "an empty") && tr.Estimate() != 120+c.fresh {
			t.Errorf("%s: the next call is taken for %d tokens", c.name, tr.Estimate())
		}
	}
}

func TestCutResultIsChanged(t *testing.T) {
	call := td.Message{Role: td.Assistant, Blocks: []td.Block{{Type: td.ToolUseBlock, ID: "1", Name: "Read", Input: []byte(`{}`)}}}
	tr, _ := play(
		td.ContextSet{Iteration: 1, Opening: message(td.User, "do it")},
		answeredWith(td.ModelResult{Message: call, Prefix: &td.Prefix{Sent: 100}}),
		td.StepEnded{Outcome: td.Outcome{Key: "t1.0", Tool: &td.ToolResult{Content: "long long long"}}},
		answeredWith(td.ModelResult{Message: message(td.Assistant, "two"), Prefix: &td.Prefix{Sent: 150}}),
		td.Compacted{Compaction: td.Compaction{Strategy: td.Truncated, Edits: []td.Edit{{Message: 2, Text: "cut"}}}},
	)
	if want := tokens(tr.Messages[2:]...); tr.Changed() != want || tr.Fresh() != tokens(tr.Messages[3]) {
		t.Errorf("%d changed, %d fresh, want %d and %d", tr.Changed(), tr.Fresh(), want, tokens(tr.Messages[3]))
	}
}
