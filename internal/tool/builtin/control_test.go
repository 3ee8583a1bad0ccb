package builtin

import (
	"bytes"
	"encoding/json"
	"testing"

	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

func TestTodo(t *testing.T) {
	b := newBench(t)
	res := b.ok("Todo", args{"todos": []args{{"text": "a", "status": "completed"}, {"text": "b", "status": "in_progress"}, {"text": "c", "status": "pending"}}})
	if res.Content != "[x] a\n[>] b\n[ ] c\n" {
		t.Errorf("got %q", res.Content)
	}
	b.bad("Todo", args{"todos": []args{{"text": "a", "status": "later"}}}, "status")
	b.bad("Todo", args{"todos": nil}, "todos")
	b.bad("Todo", args{}, "todos")
}

func TestControls(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		control tool.Control
		in      args
	}{
		"Ask":      {tool.AskControl, args{"question": "which?", "options": []string{"a", "b"}}},
		"Complete": {tool.CompleteControl, args{"summary": "done"}},
		"Fail":     {tool.FailControl, args{"reason": "cannot"}},
	} {
		if tl := b.tool(name); tl.Control != c.control {
			t.Errorf("%s is the control %q", name, tl.Control)
		}
		if call := b.prepare(name, c.in); call.Effect != td.Pure {
			t.Errorf("%s: %+v", name, call)
		}
		b.bad(name, args{}, "missing")
		for field := range c.in {
			if field != "options" {
				b.bad(name, args{field: " "}, "is empty")
			}
		}
	}
}

// TestSchemas holds what models are told: it is part of every cached prefix, so it must be the same bytes
// each time, and every property must be explained.
func TestSchemas(t *testing.T) {
	one, two := tool.NewRegistry(Tools(Options{})...).Describe(), tool.NewRegistry(Tools(Options{})...).Describe()
	for i := range one {
		if !bytes.Equal(one[i].Schema, two[i].Schema) || one[i].Description == "" {
			t.Errorf("%s: %s", one[i].Name, one[i].Schema)
		}
		var s struct {
			Type       string
			Properties map[string]struct{ Description string }
			Additional json.RawMessage `json:"additionalProperties"`
		}
		if err := json.Unmarshal(one[i].Schema, &s); err != nil || s.Type != "object" || s.Additional == nil {
			t.Errorf("%s: %s, %v", one[i].Name, one[i].Schema, err)
		}
		for name, p := range s.Properties {
			if p.Description == "" {
				t.Errorf("%s.%s is not explained", one[i].Name, name)
			}
		}
	}
	edit, _ := tool.NewRegistry(Tools(Options{})...).Get("Edit")
	const want = `{"type":"object","properties":{"path":{"type":"string","description":"the file, relative to the workspace or absolute","minLength":1},"old_string":{"type":"string","description":"the exact text to replace, without line numbers","minLength":1},"new_string":{"type":"string","description":"what to put in its place"},"replace_all":{"type":"boolean","description":"replace every occurrence; without it the text must occur once"}},"required":["path","old_string","new_string"],"additionalProperties":false}`
	if string(edit.Schema) != want {
		t.Errorf("Edit: %s", edit.Schema)
	}
}
