package window

import (
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

func call(ids ...string) td.Message {
	m := td.Message{Role: td.Assistant}
	for _, id := range ids {
		m.Blocks = append(m.Blocks, td.Block{Type: td.ToolUseBlock, ID: id, Name: "Read", Input: []byte(`{}`)})
	}
	return m
}

func results(ids ...string) td.Message {
	m := td.Message{Role: td.User}
	for _, id := range ids {
		m.Blocks = append(m.Blocks, td.Block{Type: td.ToolResultBlock, ID: id, Text: "result"})
	}
	return m
}

func join(ms ...td.Message) td.Message {
	m := td.Message{Role: ms[0].Role}
	for _, o := range ms {
		m.Blocks = append(m.Blocks, o.Blocks...)
	}
	return m
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		msgs []td.Message
		want string // in the error; empty: none
	}{
		{"opening", []td.Message{user("a")}, ""},
		{"talk", []td.Message{user("a"), assistant("b"), user("c")}, ""},
		{"calls", []td.Message{user("a"), call("1", "2"), join(results("1", "2"), user("and this"))}, ""},
		{"results in another order", []td.Message{user("a"), call("1", "2"), results("2", "1")}, ""},
		{"an id used again", []td.Message{user("a"), call("1"), results("1"), call("1"), results("1")}, ""},
		{"words apart", []td.Message{user("a"), call("1"), results("1"), user("and this"), assistant("b")}, ""},
		{"results apart", []td.Message{user("a"), call("1", "2"), results("1"), results("2")}, ""},
		{"thinking", []td.Message{user("a"), join(td.Message{Role: td.Assistant, Blocks: []td.Block{{Type: td.ThinkingBlock}}}, assistant("b"))}, ""},
		{"blank text", []td.Message{user("a"), join(assistant("\n\n"), call("1")), results("1")}, ""},

		{"nothing", nil, "is empty"},
		{"empty message", []td.Message{user("a"), {Role: td.Assistant}}, "message 1 is empty"},
		{"model first", []td.Message{assistant("a")}, "speaks first"},
		{"model twice", []td.Message{user("a"), assistant("b"), assistant("c")}, "twice in a row"},
		{"no one", []td.Message{user("a"), {Role: "system", Blocks: user("b").Blocks}}, `from "system"`},
		{"no result", []td.Message{user("a"), call("1"), user("b")}, "at the end have no result"},
		{"no result, then on", []td.Message{user("a"), call("1"), user("b"), assistant("c")}, "have no result"},
		{"half the results", []td.Message{user("a"), call("1", "2"), results("1"), assistant("c")}, "1 tool calls before it"},
		{"result without call", []td.Message{user("a"), assistant("b"), results("1")}, "without its call"},
		{"result twice", []td.Message{user("a"), call("1"), results("1", "1")}, "without its call"},
		{"result too late", []td.Message{user("a"), call("1"), results("1"), assistant("b"), results("1")}, "without its call"},
		{"result after text", []td.Message{user("a"), call("1"), join(user("b"), results("1"))}, "after text"},
		{"result after text apart", []td.Message{user("a"), call("1"), user("b"), results("1")}, "after text"},
		{"result of the model", []td.Message{user("a"), join(call("1"), results("1")), user("b")}, "result of the model"},
		{"call of the user", []td.Message{join(user("a"), call("1"))}, "call of the user"},
		{"calls of one id", []td.Message{user("a"), call("1", "1"), results("1")}, "id of another"},
		{"call without id", []td.Message{user("a"), call(""), results("")}, "without an id"},
		{"thought of the user", []td.Message{join(user("a"), td.Message{Blocks: []td.Block{{Type: td.ThinkingBlock}}})}, "thought of the user"},
		{"unknown block", []td.Message{join(user("a"), td.Message{Blocks: []td.Block{{Type: "image"}}})}, "no known type"},
	} {
		err := Check(c.msgs)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
