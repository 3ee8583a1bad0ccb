package window

import (
	"slices"
	"strings"

	"taskdaemon/internal/td"
)

// Worded is a message without its text of blanks only. Models give such text, before a tool call for
// instance, and no provider takes it back.
func Worded(m td.Message) td.Message {
	blank := func(b td.Block) bool { return b.Type == td.TextBlock && strings.TrimSpace(b.Text) == "" }
	if slices.ContainsFunc(m.Blocks, blank) {
		m.Blocks = slices.DeleteFunc(slices.Clone(m.Blocks), blank)
	}
	return m
}

// Check reports how a conversation breaks the API's rules of message order: it begins with the user, the
// model never speaks twice in a row, every tool call is answered once, in the user's very next turn and before
// any text, there is no result without its call, no empty message.
//
// User messages in a row are one turn, as the API itself takes them: words that come while a failed
// call waits for its next attempt are a message of their own.
func Check(msgs []td.Message) error {
	if len(msgs) == 0 {
		return broken("the conversation is empty")
	}
	open := map[string]bool{} // calls that have no result yet
	seen := map[string]bool{} // calls of the newest answer
	text := false             // the user's turn has come to its text
	for i, m := range msgs {
		switch {
		case len(m.Blocks) == 0:
			return broken("message %d is empty", i)
		case m.Role == td.Assistant && i == 0:
			return broken("the model speaks first")
		case m.Role == td.Assistant && msgs[i-1].Role == td.Assistant:
			return broken("message %d: the model speaks twice in a row", i)
		case m.Role == td.Assistant && len(open) > 0:
			return broken("message %d: %d tool calls before it have no result", i, len(open))
		case m.Role != td.Assistant && m.Role != td.User:
			return broken("message %d is from %.20q", i, m.Role)
		}
		if m.Role == td.Assistant {
			clear(seen)
			text = false
		}
		for j, b := range m.Blocks {
			var why string
			switch b.Type {
			case td.TextBlock:
				text = text || m.Role == td.User
			case td.ThinkingBlock, td.RedactedThinkingBlock:
				if m.Role != td.Assistant {
					why = "is a thought of the user"
				}
			case td.ToolUseBlock:
				if why = checkCall(m.Role, b, seen); why == "" {
					seen[b.ID], open[b.ID] = true, true
				}
			case td.ToolResultBlock:
				if why = checkResult(m.Role, b, open, text); why == "" {
					delete(open, b.ID)
				}
			default:
				why = "is of no known type"
			}
			if why != "" {
				return broken("message %d: block %d %s", i, j, why)
			}
		}
	}
	if len(open) > 0 {
		return broken("%d tool calls at the end have no result", len(open))
	}
	return nil
}

func checkCall(from td.Role, b td.Block, seen map[string]bool) string {
	switch {
	case from != td.Assistant:
		return "is a tool call of the user"
	case b.ID == "" || b.Name == "":
		return "is a tool call without an id or a name"
	case seen[b.ID]:
		return "is a tool call with the id of another"
	}
	return ""
}

func checkResult(from td.Role, b td.Block, open map[string]bool, text bool) string {
	switch {
	case from != td.User:
		return "is a tool result of the model"
	case !open[b.ID]:
		return "is a tool result without its call"
	case text:
		return "is a tool result after text"
	}
	return ""
}

func broken(format string, args ...any) error { return td.Errorf(td.Corrupt, format, args...) }
