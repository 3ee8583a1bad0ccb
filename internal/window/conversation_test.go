package window

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"taskdaemon/internal/td"

	"pgregory.net/rapid"
)

// remind is what taskdaemon itself says in tests.
const remind = "You ended your turn. Go on."

// conversations are random ones that keep the API's rules, from one message to some hundred, of blocks from a
// word to more than any window in these tests.
func conversations(t *rapid.T) []td.Message {
	n := 0
	unique := func(what string) string { n++; return fmt.Sprintf("%s %d", what, n) }
	msgs := []td.Message{user(unique("task statement") + filler(t, 2000))}
	for range rapid.IntRange(0, 2).Draw(t, "openers") {
		msgs = append(msgs, user(unique("said before the first answer")))
	}
	shared := rapid.Bool().Draw(t, "shared ids")
	for range rapid.IntRange(0, 40).Draw(t, "exchanges") {
		answer := td.Message{Role: td.Assistant}
		if rapid.Bool().Draw(t, "thinks") {
			answer.Blocks = append(answer.Blocks, td.Block{Type: td.ThinkingBlock, Text: unique("thought"), Signature: "c2VhbA=="})
		}
		if rapid.Bool().Draw(t, "talks") {
			answer.Blocks = append(answer.Blocks, td.Block{Type: td.TextBlock, Text: unique("answer") + filler(t, 300)})
		}
		if rapid.IntRange(0, 4).Draw(t, "blank") == 0 {
			answer.Blocks = append(answer.Blocks, td.Block{Type: td.TextBlock, Text: "\n\n"})
		}
		var reply td.Message
		for i := range rapid.IntRange(0, 3).Draw(t, "calls") {
			id := unique("id")
			if shared {
				id = fmt.Sprintf("call_%d", i)
			}
			call, result := exchangeOf(t, strings.ReplaceAll(id, " ", "_"), unique)
			answer.Blocks, reply.Blocks = append(answer.Blocks, call), append(reply.Blocks, result)
		}
		if len(answer.Blocks) == 0 {
			answer.Blocks = []td.Block{{Type: td.TextBlock, Text: unique("answer")}}
		}
		msgs = append(msgs, answer)
		switch rapid.IntRange(0, 9).Draw(t, "says") {
		case 0, 1:
			reply.Blocks = append(reply.Blocks, td.Block{Type: td.TextBlock, Text: unique("a person says") + filler(t, 200)})
		case 2:
			reply.Blocks = append(reply.Blocks, td.Block{Type: td.TextBlock, Text: remind, Aside: true})
		}
		if len(reply.Blocks) == 0 {
			reply.Blocks = []td.Block{{Type: td.TextBlock, Text: remind, Aside: true}}
		}
		reply.Role = td.User
		msgs = append(msgs, reply)
		if rapid.IntRange(0, 9).Draw(t, "says apart") == 0 {
			msgs = append(msgs, user(unique("a person adds")))
		}
	}
	if len(msgs) > 1 && rapid.IntRange(0, 9).Draw(t, "open end") == 0 && len(msgs[len(msgs)-2].ToolUses()) == 0 &&
		msgs[len(msgs)-2].Role == td.Assistant {
		msgs = msgs[:len(msgs)-1]
	}
	return msgs
}

func exchangeOf(t *rapid.T, id string, unique func(string) string) (call, result td.Block) {
	name := rapid.SampledFrom([]string{"Read", "Bash", "Grep", "Edit", "Write", todoTool, askTool}).Draw(t, "tool")
	input, err := json.Marshal(map[string]string{"about": unique("input of " + name)})
	if err != nil {
		t.Fatal(err)
	}
	call = td.Block{Type: td.ToolUseBlock, ID: id, Name: name, Input: input}
	result = td.Block{Type: td.ToolResultBlock, ID: id, Text: unique("result of " + name), IsError: rapid.IntRange(0, 4).Draw(t, "failed") == 0}
	if name != todoTool {
		result.Text += filler(t, 4000)
	}
	return call, result
}

// filler is text of up to so many words, mostly far fewer.
func filler(t *rapid.T, most int) string {
	n := rapid.IntRange(0, most).Draw(t, "words")
	if !rapid.Bool().Draw(t, "long") {
		n /= 50
	}
	word := rapid.SampledFrom([]string{" word", "\na line of text", " {\"k\":1},", "漢字", "🎉", "0123456789abcdef"}).Draw(t, "word")
	return strings.Repeat(word, n)
}

// precious is what must outlive everything, as texts: what people said and answered and the newest todos.
func precious(msgs []td.Message) []string {
	var keep []string
	var todos string
	for i, m := range msgs {
		for _, b := range m.Blocks {
			if m.Role == td.User && b.Type == td.TextBlock && !b.Aside {
				keep = append(keep, "said "+b.Text)
			}
			if b.Type != td.ToolUseBlock {
				continue
			}
			for _, r := range msgs[i+1].Blocks {
				switch {
				case r.Type != td.ToolResultBlock || r.ID != b.ID || r.IsError:
				case b.Name == askTool:
					keep = append(keep, "asked "+string(b.Input)+r.Text)
				case b.Name == todoTool:
					todos = "todos " + string(b.Input)
				}
			}
		}
	}
	if todos != "" {
		keep = append(keep, todos)
	}
	return keep
}

func TestGenerator(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if err := Check(conversations(t)); err != nil {
			t.Fatal(err)
		}
	})
}
