package clean

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"taskdaemon/internal/redact"
	"taskdaemon/internal/store"
	"taskdaemon/internal/store/mem"
	"taskdaemon/internal/td"
)

const (
	value = "canary-of-the-daemon"
	shape = "sk-ant-api03-canarycanarycanary"
)

func TestClean(t *testing.T) {
	both := value + " and " + shape
	say := func(text string) td.Message {
		return td.Message{Role: td.User, Blocks: []td.Block{{Type: td.TextBlock, Text: text, Input: json.RawMessage("{}")}}}
	}
	j := New(nil, redact.New(value))
	for name, c := range map[string]struct {
		body  td.Body
		stays bool // what is only shaped like a secret
	}{
		"context":  {td.ContextSet{System: both, Opening: say(both), Tools: json.RawMessage("[]")}, false},
		"result":   {td.StepEnded{Outcome: td.Outcome{Key: "k", Tool: &td.ToolResult{Content: both, Side: &td.SideResult{Text: both}}}}, false},
		"said":     {td.Said{Text: both}, false},
		"request":  {td.RequestOpened{Request: td.Request{Prompt: both, Detail: both, Offers: []td.Offer{{Rules: []string{"Bash(curl " + shape + ")"}, Words: "this"}}}}, false},
		"answer":   {td.RequestAnswered{Answer: td.Answer{Choice: both, Words: both}}, false},
		"move":     {td.Moved{Status: td.Status{Reason: both, Failed: &td.FailedData{Error: both}, Waiting: &td.WaitingData{Prompt: both}}}, false},
		"model":    {td.AnswerChanged{Message: say(both)}, true},
		"evidence": {td.StepIntended{Intent: td.Intent{Key: "k", Evidence: json.RawMessage(`{"command":"` + both + `"}`)}}, true},
	} {
		sealed, err := j.Clean(c.body)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		folded, err := td.EncodeBody(sealed.Body)
		if err != nil {
			t.Fatal(err)
		}
		for what, raw := range map[string][]byte{"kept": sealed.Raw(), "folded": folded} {
			if bytes.Contains(raw, []byte(value)) || bytes.Contains(raw, []byte(shape)) != c.stays {
				t.Errorf("%s, as it is %s: %s", name, what, raw)
			}
		}
	}
}

func TestCleanLeavesWhatItIsGiven(t *testing.T) {
	j := New(nil, redact.New(value))
	body := td.StepEnded{Outcome: td.Outcome{Key: "k", Tool: &td.ToolResult{Content: value}}}
	if _, err := j.Clean(body); err != nil || body.Tool.Content != value {
		t.Errorf("the body itself was changed: %q, %v", body.Tool.Content, err)
	}
}

func TestJournal(t *testing.T) {
	var _ store.Cleaner = (*Journal)(nil)
	m := mem.New(nil)
	j := New(m, redact.New(value))
	task, err := j.Create(t.Context(), td.Spec{ID: td.NewTaskID(), Handle: "t-1", Title: value, Prompt: "use " + value + " or " + shape, Dir: "/"}, "key")
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Post(t.Context(), task.ID, td.Command{Key: "c", Type: td.CmdMessage, Text: value, Answer: &td.Answer{Words: shape}}); err != nil {
		t.Fatal(err)
	}
	cmd, _, err := m.Posted(t.Context(), task.ID, "c")
	if err != nil {
		t.Fatal(err)
	}
	all, err := json.Marshal([]any{task, cmd})
	if err != nil || strings.Contains(string(all), "canary") {
		t.Errorf("kept %s, %v", all, err)
	}
}
