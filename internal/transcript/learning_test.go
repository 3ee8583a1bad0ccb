package transcript

import (
	"testing"

	"taskdaemon/internal/td"
)

func TestLearningIsRememberedUntilTheNextAnswer(t *testing.T) {
	answer := td.StepEnded{Outcome: td.Outcome{Key: "t1.model", Model: &td.ModelResult{Message: td.Message{
		Role: td.Assistant, Blocks: []td.Block{{Type: td.TextBlock, Text: "done"}},
	}}}}
	script := Of([]td.Event{{Body: td.ContextSet{}}, {Body: answer}})
	key := script.LearnKey()
	for _, b := range []td.Body{
		td.StepIntended{Intent: td.Intent{Key: key, Kind: td.SideStep}},
		td.StepEnded{Outcome: td.Outcome{Key: key, Side: &td.SideResult{Text: "x"}}},
		td.StepIntended{Intent: td.Intent{Key: key + ".0", Kind: td.LearnStep, Attempt: 1}},
		td.StepIntended{Intent: td.Intent{Key: "t1.summary3", Kind: td.SideStep}},
	} {
		script.Apply(td.Event{Body: b})
	}
	if asked := script.Learning(key); key != "t1.learn" || asked.Outcome == nil || asked.Outcome.Side.Text != "x" {
		t.Errorf("asked under %s: %+v", key, asked)
	}
	if l := script.Learning(key + ".0"); l.Intent == nil || l.Intent.Attempt != 1 || l.Outcome != nil {
		t.Errorf("in flight: %+v", l)
	}
	if l := script.Learning("t1.summary3"); l.Intent != nil {
		t.Errorf("a summary counts as learning: %+v", l)
	}
	if len(script.Messages) != 2 {
		t.Errorf("learning is in the conversation: %+v", script.Messages)
	}
	script.Apply(td.Event{Body: answer})
	if l := script.Learning(key); l.Intent != nil || script.LearnKey() != "t2.learn" {
		t.Errorf("after the next answer: %+v under %s", l, script.LearnKey())
	}
}
