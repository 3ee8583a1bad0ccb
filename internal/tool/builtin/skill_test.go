package builtin

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/skill"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// teaSkill is a bench with a skill that brings a command.
func teaSkill(t *testing.T, command string) *bench {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "skills", "tea")
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	text := "---\nname: tea\ndescription: How tea is made\ntools:\n  - name: boil\n    description: Boils water\n" +
		"    params: {cups: {type: integer}}\n    command: " + command + "\n---\nWarm the pot.\n"
	for name, content := range map[string]string{"SKILL.md": text, "more.txt": "Pour \x1b[31mslowly."} {
		if err := os.WriteFile(filepath.Join(path, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	skills, problems := skill.Load(skill.Sources(dir, t.TempDir())...)
	if len(skills) != 1 || len(problems) > 0 {
		t.Fatal(skills, problems)
	}
	b := newBench(t)
	b.tools = tool.NewRegistry(SkillTools(skills)...)
	return b
}

func TestSkillTool(t *testing.T) {
	b := teaSkill(t, "'true'")
	if call := b.prepare("Skill", args{"name": "tea"}); call.Effect != td.Pure {
		t.Errorf("got %+v", call)
	}
	if res := b.ok("Skill", args{"name": "tea"}); !strings.Contains(res.Content, "Warm the pot.") || !strings.Contains(res.Content, "more.txt") {
		t.Errorf("got %q", res.Content)
	}
	if res := b.ok("Skill", args{"name": "tea", "file": "more.txt"}); res.Content != "Pour slowly." {
		t.Errorf("got %q", res.Content)
	}
	b.bad("Skill", args{"name": "coffee"}, "the skills are: tea")
	b.bad("Skill", args{"name": ""}, "schema")
}

func TestSkillCommand(t *testing.T) {
	b := teaSkill(t, `'echo "$INPUT_cups $(cat)"; exit $INPUT_cups'`)
	call := b.prepare("tea__boil", args{"cups": 3})
	if call.Effect != td.Opaque || call.Command == "" || !call.Kept || !strings.Contains(call.Title, "exit $INPUT_cups") || !strings.Contains(call.Title, `{"cups":3}`) {
		t.Errorf("got %+v", call)
	}
	res := b.do("tea__boil", args{"cups": 3})
	if !res.IsError || res.Content != "3 {\"cups\":3}\n[exit code 3]" {
		t.Errorf("got %+v", res)
	}
	b.bad("tea__boil", args{"cups": "many"}, "schema")
}

// TestCommandOfAGoneSkillIsAdopted kills the daemon under a command whose skill then disappears.
func TestCommandOfAGoneSkillIsAdopted(t *testing.T) {
	b := teaSkill(t, `'echo begin; until [ -e go ]; do sleep 0.01; done; echo end'`)
	in := json.RawMessage(`{"cups":1}`)
	call := b.prepare("tea__boil", args{"cups": 1})
	inFlight(b, call)
	b.put("go", "")
	gone := GoneCommand("tea__boil")
	if _, err := gone.Prepare(t.Context(), b.env, in); !td.IsKind(err, td.Unavailable) {
		t.Errorf("a gone command: %v", err)
	}
	res, err := gone.Resolve(context.Background(), b.env, in, td.Intent{Key: b.env.Step, Effect: td.Opaque, Evidence: call.Evidence})
	if err != nil || res.State != tool.Done || res.Via != td.Adopted || !strings.Contains(res.Result.Content, "begin\nend\n[exit code 0]") {
		t.Errorf("got %+v, %v", res, err)
	}
}
