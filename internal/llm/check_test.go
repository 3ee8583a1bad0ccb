package llm

import (
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

func TestCheck(t *testing.T) {
	text := td.Block{Type: td.TextBlock, Text: "a"}
	call := td.Block{Type: td.ToolUseBlock, ID: "c", Name: "A"}
	result := td.Block{Type: td.ToolResultBlock, ID: "c"}
	user := func(b ...td.Block) td.Message { return td.Message{Role: td.User, Blocks: b} }
	model := func(b ...td.Block) td.Message { return td.Message{Role: td.Assistant, Blocks: b} }
	for want, messages := range map[string][]td.Message{
		"":                          {user(text), model(text, call), user(text, result), model(text)},
		"message 0 is the assist":   {model(text)},
		"message 1 is the user's":   {user(text), user(text)},
		"message 1 is empty":        {user(text), model()},
		"no result of the call":     {user(text), model(call), user(text)},
		"at the end":                {user(text), model(call)},
		"which no call":             {user(text), model(text), user(result)},
		"an id of its own":          {user(text), model(call), user(result), model(call), user(result)},
		"message 1: the call":       {user(text), model(td.Block{Type: td.ToolUseBlock, Name: "A"})},
		"calls are the assistant's": {user(call), model(text)},
	} {
		switch err := Check(Request{Messages: messages}); {
		case want == "" && err != nil:
			t.Error(err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v, want %q", err, want)
		}
	}
}
