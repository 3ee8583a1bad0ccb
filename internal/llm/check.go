package llm

import (
	"fmt"

	"taskdaemon/internal/td"
)

// Check says what is wrong with the conversation of a request that every provider would refuse, whatever its encoding: messages that do
// not take turns, beginning with the user; a tool call without its result in the next message, or a result without its call; an id that
// calls share. The rehearsal is as strict as that, so that what passes there has a chance with the others.
func Check(r Request) error {
	ids := map[string]bool{}
	open := map[string]bool{} // calls without a result
	for i, m := range r.Messages {
		want := td.User
		if i%2 == 1 {
			want = td.Assistant
		}
		switch {
		case m.Role != want:
			return fmt.Errorf("message %d is the %s's: messages take turns, beginning with the user", i, m.Role)
		case len(m.Blocks) == 0:
			return fmt.Errorf("message %d is empty", i)
		}
		next := map[string]bool{}
		for _, b := range m.Blocks {
			switch b.Type {
			case td.ToolUseBlock:
				if b.ID == "" || b.Name == "" || ids[b.ID] || m.Role != td.Assistant {
					return fmt.Errorf("message %d: the call %q of %q: calls are the assistant's, and each has an id of its own", i, b.ID, b.Name)
				}
				ids[b.ID], next[b.ID] = true, true
			case td.ToolResultBlock:
				if !open[b.ID] {
					return fmt.Errorf("message %d: a result of %q, which no call in the message before it waits for", i, b.ID)
				}
				delete(open, b.ID)
			}
		}
		for id := range open {
			return fmt.Errorf("message %d: no result of the call %q", i, id)
		}
		open = next
	}
	for id := range open {
		return fmt.Errorf("no result of the call %q at the end", id)
	}
	return nil
}
