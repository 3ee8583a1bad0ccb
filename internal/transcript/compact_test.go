package transcript

import (
	"strings"
	"testing"

	"taskdaemon/internal/td"
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
