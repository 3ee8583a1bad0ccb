package skill

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/td"
)

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func matter(name, description string) string {
	return fmt.Sprintf("---\nname: %s\ndescription: %s\n---\n\nDo %s.\n", name, description, name)
}

func names(skills []Skill) string {
	var out []string
	for _, s := range skills {
		out = append(out, s.Name)
	}
	return strings.Join(out, " ")
}

func TestLoad(t *testing.T) {
	user, project := t.TempDir(), t.TempDir()
	write(t, user, "skills/pdf/SKILL.md", matter("pdf", "Reads PDF files"))
	write(t, user, "skills/release/SKILL.md", matter("release", "The person's way"))
	write(t, project, ".taskdaemon/skills/release/SKILL.md", matter("release", "The project's way"))
	write(t, project, ".claude/skills/review/SKILL.md", "---\nname: review\ndescription: >\n  Reviews\n  changes\nallowed-tools: Read, Grep\nlicense: MIT\n---\nLook.")
	write(t, project, ".claude/skills/unnamed/SKILL.md", "---\ndescription: Named by its folder\n---\n")
	write(t, project, ".claude/skills/assets/logo.svg", "<svg/>")
	write(t, project, ".claude/skills/README.md", "not a skill")
	skills, problems := Load(Sources(user, project)...)
	if len(problems) != 0 {
		t.Errorf("problems %v", problems)
	}
	if got := names(skills); got != "pdf release review unnamed" {
		t.Errorf("skills %q", got)
	}
	want := "- pdf: Reads PDF files\n- release: The project's way\n- review: Reviews changes\n- unnamed: Named by its folder\n"
	if got := Index(skills); got != want {
		t.Errorf("index %q", got)
	}
	backwards := slices.Clone(skills)
	slices.Reverse(backwards)
	if Index(backwards) != want {
		t.Error("the index depends on the order of the skills")
	}
	if skills, problems := Load(Sources(t.TempDir()+"/none", t.TempDir())...); len(skills)+len(problems) != 0 {
		t.Errorf("nothing gave %v, %v", skills, problems)
	}
}

func TestTwoOfOneName(t *testing.T) {
	project := t.TempDir()
	write(t, project, ".taskdaemon/skills/b/SKILL.md", matter("same", "second"))
	write(t, project, ".taskdaemon/skills/a/SKILL.md", matter("same", "first"))
	write(t, project, ".claude/skills/0/SKILL.md", matter("same", "third"))
	skills, problems := Load(Sources(t.TempDir(), project)...)
	if len(skills) != 1 || skills[0].Description != "first" {
		t.Errorf("took %+v", skills)
	}
	var files []string
	for _, p := range problems {
		rel, _ := filepath.Rel(project, p.File)
		files = append(files, rel)
		if !strings.Contains(p.Msg, `two skills are called "same"`) {
			t.Errorf("problem %v", p)
		}
	}
	want := []string{".claude/skills/0/SKILL.md", ".taskdaemon/skills/a/SKILL.md", ".taskdaemon/skills/a/SKILL.md", ".taskdaemon/skills/b/SKILL.md"}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Error(diff)
	}
}

func TestBrokenSkillsAreReported(t *testing.T) {
	project, outside := t.TempDir(), t.TempDir()
	dir := filepath.Join(project, ".taskdaemon/skills")
	write(t, outside, "SKILL.md", matter("stolen", "from outside"))
	write(t, dir, "fine/SKILL.md", matter("fine", "works"))
	for name, content := range map[string]string{
		"plain":    "# No front matter",
		"unclosed": "---\nname: x\n",
		"yaml":     "---\nname: x\ndescription: [a\n---\n",
		"nodesc":   "---\nname: nodesc\n---\n",
		"badname":  "---\ndescription: x\nname: a__b\n---\n",
		"binary":   "\x00\x01",
		"huge":     matter("huge", "x") + strings.Repeat("x", maxFile),
		"listname": "---\nname: [a]\ndescription: x\n---\n",
		"server":   matter("mcp", "x"),
		"server2":  matter("mcp_", "x"),
		"server3":  matter("MCP_notes", "x"),
		"bomb":     "---\na: &a x\nb: *a\n---\n",
	} {
		write(t, dir, name+"/SKILL.md", content)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "filelink"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "SKILL.md"), filepath.Join(dir, "filelink/SKILL.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("fine", filepath.Join(dir, "again")); err != nil { // inside, where it could as well lead to what may not be read
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "pipe"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe/SKILL.md"), 0o644); err != nil {
		t.Fatal(err)
	}
	skills, problems := Load(Sources(t.TempDir(), project)...)
	if names(skills) != "fine" {
		t.Errorf("skills %q", names(skills))
	}
	got := map[string]string{}
	for _, p := range problems {
		got[filepath.Base(filepath.Dir(p.File))] = p.Error()
	}
	for name, says := range map[string]string{
		"plain": ":1: ", "unclosed": "not closed", "yaml": ":3: ", "nodesc": "no description", "badname": ":3: ", "binary": "UTF-8", "huge": "bytes",
		"server": "reserved", "server2": "reserved", "server3": "reserved",
		"listname": ":2: text", "bomb": ":2: anchors", "link": "symbolic link", "filelink": "symbolic link", "again": "symbolic link", "pipe": "regular",
	} {
		if !strings.Contains(got[name], says) {
			t.Errorf("%s: %q does not say %q", name, got[name], says)
		}
		delete(got, name)
	}
	if len(got) != 0 {
		t.Errorf("more problems: %v", got)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, dir); err != nil {
		t.Fatal(err)
	}
	if skills, problems := Load(Sources(t.TempDir(), project)...); len(skills) != 0 || len(problems) != 1 {
		t.Errorf("a folder of skills outside the project: %v, %v", skills, problems)
	}
}

func TestBody(t *testing.T) {
	project := t.TempDir()
	dir := filepath.Join(project, ".claude/skills/pdf")
	write(t, dir, "SKILL.md", matter("pdf", "Reads"))
	write(t, dir, "scripts/run.sh", "echo")
	write(t, dir, "reference.md", "More.")
	write(t, dir, ".git/config", "hidden")
	write(t, project, "secret", "x")
	if err := os.Symlink("../../../secret", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	skills, _ := Load(Sources(t.TempDir(), project)...)
	got, err := Body(skills[0])
	if want := "Do pdf.\n\nOther files of this skill. Read one with Skill {\"name\": \"pdf\", \"file\": \"reference.md\"}; they are in " + dir + ", which may be outside of your workspace:\n- reference.md\n- scripts/run.sh\n"; err != nil || got != want {
		t.Errorf("body %q, %v", got, err)
	}
	if got, err := File(skills[0], "./reference.md"); err != nil || got != "More." {
		t.Errorf("file %q, %v", got, err)
	}
	for name, kind := range map[string]td.Kind{"none": td.NotFound, "../../../secret": td.Refused, "link": td.Refused, "/etc/passwd": td.Refused, "scripts": td.Refused} {
		if _, err := File(skills[0], name); !td.IsKind(err, kind) {
			t.Errorf("%s: %v (%s), want %s", name, err, td.KindOf(err), kind)
		}
	}
	write(t, dir, "SKILL.md", "broken")
	if _, err := Body(skills[0]); !td.IsKind(err, td.Corrupt) {
		t.Errorf("broken: %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Body(skills[0]); !td.IsKind(err, td.NotFound) {
		t.Errorf("gone: %v", err)
	}
}

func TestMatch(t *testing.T) {
	var skills []Skill
	for name, description := range map[string]string{
		"pdf":             "Extract text and tables from PDF files, fill forms, merge documents. Use when working with PDF files.",
		"release-notes":   "Write release notes from the git history. Use when a version is released or a changelog is needed.",
		"db-migration":    "Write database migrations: schema changes, backfills, rollbacks. Use when tables or columns change.",
		"frontend-design": "Design web pages and components. Use when building user interfaces.",
	} {
		skills = append(skills, Skill{Name: name, Description: description})
	}
	for text, want := range map[string]string{
		"Fill the forms in these PDF documents and merge them":                      "pdf",
		"Write the changelog for the next version":                                  "release-notes",
		"add a column to the users table and write a backfill, with schema changes": "db-migration",
		"use the frontend-design skill":                                             "frontend-design",
		"the text must be working":                                                  "", // two words of many
		"Fix the flaky test in the engine":                                          "",
		"":                                                                          "",
	} {
		if got := names(Match(skills, text)); got != want {
			t.Errorf("Match(%q) = %q, want %q", text, got, want)
		}
	}
	for range 10 {
		skills = append(skills, Skill{Name: fmt.Sprintf("same%d", len(skills)), Description: "golang linters for builds"})
	}
	if got := names(Match(skills, "run the golang linters on all builds")); got != "same10 same11 same12" {
		t.Errorf("equals: %q", got)
	}
}

const toolSkill = `---
name: weather
description: Tells the weather
tools:
  - name: forecast
    description: The forecast of a city
    params:
      city: the city's name
      days: {type: integer, optional: true}
      unit: {enum: [c, f], description: of temperature, optional: true}
    command: |
      cat; echo "$INPUT_city|$INPUT_days|$SKILL_DIR" # in the end
    timeout: 5s
  - name: raw
    description: With a schema
    schema:
      type: object
      properties:
        x: {type: array, items: {type: number}}
      required: [x]
    command: exit 3
---
`

func TestTools(t *testing.T) {
	project := t.TempDir()
	write(t, project, ".claude/skills/weather/SKILL.md", toolSkill)
	skills, problems := Load(Sources(t.TempDir(), project)...)
	if len(problems) != 0 || len(skills) != 1 || len(skills[0].Tools) != 2 {
		t.Fatalf("%+v, %v", skills, problems)
	}
	tool := skills[0].Tools[0]
	if tool.Name != "weather__forecast" || tool.Timeout != 5*time.Second || !json.Valid(tool.Schema) {
		t.Errorf("tool %+v", tool)
	}
	want := `{"type":"object","properties":{"city":{"type":"string","description":"the city's name"},"days":{"type":"integer"},"unit":{"type":"string","enum":["c","f"],"description":"of temperature"}},"required":["city"],"additionalProperties":false}`
	if string(tool.Schema) != want {
		t.Errorf("schema %s", tool.Schema)
	}
	input := `{"city": "São Paulo'; $(touch x)\nSKILL_INPUT\n", "days": 12345678901234567890}`
	inv, err := tool.Invoke(json.RawMessage(input))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", inv.Shell)
	cmd.Dir, cmd.Env = t.TempDir(), append(inv.Env, "PATH="+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	if want := `{"city":"São Paulo'; $(touch x)\nSKILL_INPUT\n","days":12345678901234567890}` + "\n" + "São Paulo'; $(touch x)\nSKILL_INPUT\n|12345678901234567890|" + skills[0].Dir + "\n"; string(out) != want {
		t.Errorf("it got %q", out)
	}
	if left, _ := os.ReadDir(cmd.Dir); len(left) != 0 {
		t.Errorf("the input was run: %v", left)
	}
	for _, bad := range []string{`{}`, `{"city": 1}`, `{"city": "x", "more": 1}`, `[]`, `null`, `{`, `{"city": "\u0000"}`, `{"city": "` + strings.Repeat("x", maxInput) + `"}`} {
		if _, err := tool.Invoke(json.RawMessage(bad)); !td.IsKind(err, td.Invalid) {
			t.Errorf("%.30s: %v", bad, err)
		}
	}
	inv, err = skills[0].Tools[1].Invoke(json.RawMessage(`{"x": [1, 2]}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("sh", "-c", inv.Shell).Run(); err == nil || err.(*exec.ExitError).ExitCode() != 3 {
		t.Errorf("the exit status is lost: %v", err)
	}
}

func TestBrokenTools(t *testing.T) {
	for _, c := range []struct{ tools, says string }{
		{"tools: Read, Grep", "4: tools is a list"},
		{"tools:\n  - x", "5: a tool has"},
		{"tools:\n  - {name: a, description: b}", "5: tool a has no command"},
		{"tools:\n  - {name: a, command: b}", "no description"},
		{"tools:\n  - {name: a__b, description: b, command: c}", "no name"},
		{"tools:\n  - {name: " + strings.Repeat("a", 62) + ", description: b, command: c}", "no name"},
		{"tools:\n  - {name: a, description: b, command: c, timeout: soon}", "not a time"},
		{"tools:\n  - {name: a, description: b, command: c, timeout: 900h}", "not a time"},
		{"tools:\n  - {name: a, description: b, command: c, schema: {type: array}}", "not object"},
		{"tools:\n  - {name: a, description: b, command: c, schema: {type: object, $ref: 'http://x/y'}}", "schema"},
		{"tools:\n  - {name: a, description: b, command: c, schema: {type: object, properties: {x: {pattern: '('}}}}", "schema"},
		{"tools:\n  - {name: a, description: b, command: c, params: {x: {type: file}}}", "the type is"},
		{"tools:\n  - {name: a, description: b, command: c, colour: red}", "no key"},
	} {
		s, problems, err := parse("x", []byte("---\nname: x\ndescription: y\n"+c.tools+"\n  - {name: ok, description: b, command: c}\n---\n"))
		if strings.HasPrefix(c.tools, "tools: ") {
			s, problems, err = parse("x", []byte("---\nname: x\ndescription: y\n"+c.tools+"\n---\n"))
			s.Tools = append(s.Tools, Tool{})
		}
		if err != nil || len(problems) != 1 || !strings.Contains(problems[0].Error(), c.says) || len(s.Tools) != 1 {
			t.Errorf("%q: %v, %v, %d tools", c.tools, problems, err, len(s.Tools))
		}
	}
	doubling := "{type: object, $ref: '#/$defs/a0', $defs: {a30: {}"
	for i := range 30 {
		doubling += fmt.Sprintf(", a%d: {allOf: [{$ref: '#/$defs/a%d'}, {$ref: '#/$defs/a%d'}]}", i, i+1, i+1)
	}
	s, problems, err := parse("x", []byte("---\nname: x\ndescription: y\ntools:\n  - {name: a, description: b, command: c, schema: "+doubling+"}}}\n---\n"))
	if err != nil || len(s.Tools) != 0 || len(problems) != 1 || !strings.Contains(problems[0].Error(), "more than 10000 parts") {
		t.Errorf("a schema that doubles: %v, %v", problems, err)
	}
	two := "---\nname: x\ndescription: y\ntools:\n" + strings.Repeat("  - {name: ok, description: b, command: c}\n", 2) + "---\n"
	if s, problems, _ := parse("x", []byte(two)); len(s.Tools) != 1 || len(problems) != 1 {
		t.Errorf("the same tool twice: %v", problems)
	}
}

func TestSchemaThatContainsItself(t *testing.T) {
	for _, schema := range []string{
		"{type: object, $ref: '#'}",
		"{type: object, properties: {child: {$ref: '#'}, n: {type: integer}}}",
	} {
		s, problems, err := parse("x", []byte("---\nname: x\ndescription: y\ntools:\n  - {name: a, description: b, command: c, schema: "+schema+"}\n---\n"))
		if err != nil || len(problems) != 0 || len(s.Tools) != 1 {
			t.Fatalf("%s: %v, %v", schema, problems, err)
		}
		if _, err := s.Tools[0].Invoke(json.RawMessage(`{"child": {"child": {"n": 1}}}`)); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(toolSkill))
	f.Add([]byte(matter("a", "b")))
	f.Add([]byte("---\nname: 1\ndescription: true\ntools: [{name: a, description: b, command: c, params: {x: {enum: [1]}}}]\n---\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, _, err := parse("folder", src)
		if err != nil {
			return
		}
		if s.Name == "" || s.Description == "" || strings.ContainsAny(Index([]Skill{s}), "\r\x1b") || strings.Count(Index([]Skill{s}), "\n") != 1 {
			t.Errorf("skill %+v", s)
		}
		for _, tool := range s.Tools {
			if len(tool.Name) > 64 || !json.Valid(tool.Schema) {
				t.Errorf("tool %+v", tool)
			}
			_, _ = tool.Invoke(json.RawMessage(`{"x": 1}`))
		}
	})
}
