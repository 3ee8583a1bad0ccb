package window_test

import (
	"testing"

	"taskdaemon/internal/td"
	"taskdaemon/internal/transcript"
	"taskdaemon/internal/window"
)

// What the loop makes of its events keeps the rules, also where a person speaks between two attempts of a call.
func TestTranscriptKeepsTheRules(t *testing.T) {
	says := func(role td.Role, text string) td.Message {
		return td.Message{Role: role, Blocks: []td.Block{{Type: td.TextBlock, Text: text}}}
	}
	intent := td.StepIntended{Intent: td.Intent{Kind: td.ModelStep, Effect: td.Pure}}
	answer := func(m td.Message) td.Body {
		return td.StepEnded{Outcome: td.Outcome{Model: &td.ModelResult{Message: m}}}
	}
	var script transcript.Transcript
	for _, b := range []td.Body{
		td.ContextSet{Opening: says(td.User, "task")},
		intent,
		answer(td.Message{Role: td.Assistant, Blocks: []td.Block{{Type: td.ToolUseBlock, ID: "1", Name: "Read", Input: []byte(`{}`)}}}),
		td.Said{Text: "mind the tests"},
		td.StepEnded{Outcome: td.Outcome{Key: "t1.0", Tool: &td.ToolResult{Content: "ok"}}},
		intent,
		td.StepEnded{Outcome: td.Outcome{Failure: &td.ModelFailure{}}},
		td.Said{Text: "are you there?"},
		answer(says(td.Assistant, "yes")),
	} {
		script.Apply(td.Event{Body: b})
	}
	msgs := script.Messages
	if err := window.Check(msgs); err != nil || len(msgs) != 4 || len(msgs[2].Blocks) != 3 {
		t.Errorf("%v: %+v", err, msgs)
	}
}
