package transcript

import (
	"slices"
	"testing"

	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

func answeredWith(r td.ModelResult) td.Body { return td.StepEnded{Outcome: td.Outcome{Model: &r}} }

// Models put blanks before a tool call, and no provider takes them back.
func TestBlankTextIsNoPartOfAnAnswer(t *testing.T) {
	blank := td.Block{Type: td.TextBlock, Text: "\n\n"}
	call := td.Block{Type: td.ToolUseBlock, ID: "1", Name: "Read", Input: []byte(`{}`)}
	answer := td.Message{Role: td.Assistant, Blocks: []td.Block{blank, call}}
	opening := td.ContextSet{Iteration: 1, Opening: message(td.User, "do it")}
	for name, bodies := range map[string][]td.Body{
		"given":   {answeredWith(td.ModelResult{Message: answer})},
		"changed": {answeredWith(td.ModelResult{Message: message(td.Assistant, "x")}), td.AnswerChanged{Message: answer}},
	} {
		tr, _ := play(append([]td.Body{opening}, bodies...)...)
		if m := tr.Messages[len(tr.Messages)-1]; len(m.Blocks) != 1 || m.Blocks[0].ID != "1" || len(tr.Calls) != 1 {
			t.Errorf("%s: the conversation ends with %+v", name, m)
		}
	}
	if tr, _ := play(opening, answeredWith(td.ModelResult{Message: message(td.Assistant, " \n")})); len(tr.Messages) != 1 || tr.Untouched {
		t.Errorf("an answer of blanks is a message: %+v", tr.Messages)
	}
	if len(answer.Blocks) != 2 || !slices.ContainsFunc(answer.Blocks, func(b td.Block) bool { return b.Text == blank.Text }) {
		t.Error("the record was changed")
	}
}

// The model never speaks twice in a row: a turn that paused and went on is one message.
func TestPausedTurnIsOneMessage(t *testing.T) {
	tr, _ := play(
		td.ContextSet{Iteration: 1, Opening: message(td.User, "do it")},
		answeredWith(td.ModelResult{Message: message(td.Assistant, "one"), StopReason: td.PauseTurn}),
		answeredWith(td.ModelResult{Message: message(td.Assistant, "two"), StopReason: td.PauseTurn}),
		answeredWith(td.ModelResult{Message: message(td.Assistant, "three")}),
	)
	if err := window.Check(tr.Messages); err != nil || len(tr.Messages) != 2 || tr.Messages[1].Text() != "one\ntwo\nthree" {
		t.Errorf("%v: %+v", err, tr.Messages)
	}
	if got := tr.Latest().Text(); got != "three" || tr.Answers != 3 {
		t.Errorf("the newest of %d answers is %q", tr.Answers, got)
	}
	tr.Apply(td.Event{Body: td.AnswerChanged{Message: message(td.Assistant, "four")}})
	if got := tr.Messages[1].Text(); got != "one\ntwo\nfour" {
		t.Errorf("a change of the newest answer makes it %q", got)
	}
}
