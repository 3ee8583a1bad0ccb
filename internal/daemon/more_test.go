package daemon

import (
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/config"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/tool/mcp"
)

func TestWantedServers(t *testing.T) {
	for _, tc := range []struct {
		tools, want []string
	}{
		{nil, nil}, // all of them
		{[]string{"Read", "Complete"}, []string{}},
		{[]string{"Read", "mcp__notes__find", "mcp__a_b__c__d"}, []string{"notes", "a_b"}},
	} {
		if got := wantedServers(tc.tools); !slices.Equal(got, tc.want) || (got == nil) != (tc.want == nil) {
			t.Errorf("%q: got %#v", tc.tools, got)
		}
	}
}

func TestInvalidServerIsNamedWithItsPlace(t *testing.T) {
	for name, servers := range map[string][]config.Server{
		"no command": {{Name: "good", Command: "true", Where: "f:1:1"}, {Name: "bad", Where: "f:2:1"}},
		"twice":      {{Name: "good", Command: "true", Where: "f:1:1"}, {Name: "good", Command: "true", Where: "f:2:1"}, {Where: "f:3:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newPool(Options{Config: config.Config{MCP: servers}})
			if !td.IsKind(err, td.Invalid) || !strings.HasPrefix(err.Error(), "f:2:1: ") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestVariablesInServers(t *testing.T) {
	env := map[string]string{"TOKEN": "secret $ ${HOME}"}
	o := Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Getenv: func(k string) string { return env[k] }}
	got := expand(o, config.Server{}, map[string]string{"a": "Bearer ${TOKEN}", "b": "$TOKEN ${}", "c": "x${UNSET}y"})
	want := map[string]string{"a": "Bearer secret $ ${HOME}", "b": "$TOKEN ${}", "c": "xy"}
	if !maps.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestRecordedToolsOutliveTheirSource makes a task's tools again when the server is no longer in the config and the
// skill's folder is gone.
func TestRecordedToolsOutliveTheirSource(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	pool, err := newPool(Options{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	task := td.Task{Spec: td.Spec{Dir: t.TempDir()}}
	dir := filepath.Join(task.Dir, ".claude/skills/tea")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	text := "---\nname: tea\ndescription: How tea is made\ntools:\n  - {name: boil, description: Boils, command: \"true\"}\n---\nPour.\n"
	if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &Daemon{o: Options{Log: log}, pool: pool}
	first := d.more(t.Context(), task, nil)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	var r record
	if err := json.Unmarshal(first.Record, &r); err != nil {
		t.Fatal(err)
	}
	schema := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)
	r.Offers = []mcp.Offer{{Name: "mcp__notes__find", Server: "notes", Tool: "find", Description: "Finds", Schema: schema}}
	raw, err := json.Marshal(r.brief())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "properties") || strings.Contains(string(raw), "Finds") {
		t.Errorf("what the model is told stands in the record, too: %s", raw)
	}
	told, err := json.Marshal([]llm.Tool{{Name: "mcp__notes__find", Description: "Finds", Schema: schema}})
	if err != nil {
		t.Fatal(err)
	}
	again := d.more(t.Context(), task, &td.ContextSet{Tools: told, More: raw})
	if string(again.Record) != string(raw) {
		t.Errorf("the record became %s", again.Record)
	}
	find := again.Tools[slices.IndexFunc(again.Tools, func(t tool.Tool) bool { return t.Name == "mcp__notes__find" })]
	if find.Description != "Finds" || string(find.Schema) != string(schema) {
		t.Errorf("it became %+v", find)
	}
	says := map[string]string{"tea__boil": "not there any more", "mcp__notes__find": "not configured any more"}
	for _, tl := range again.Tools {
		if want := says[tl.Name]; want != "" {
			delete(says, tl.Name)
			if _, err := tl.Prepare(t.Context(), nil, json.RawMessage(`{}`)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s says %v", tl.Name, err)
			}
			if tl.Resolve == nil {
				t.Errorf("%s cannot say what became of a call in flight", tl.Name)
			}
		}
	}
	if len(says) > 0 {
		t.Errorf("missing: %v", says)
	}
}
