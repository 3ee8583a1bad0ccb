package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReadRules(t *testing.T) {
	path := filepath.Join(t.TempDir(), "permissions.yaml")
	if got, err := ReadRules(path); err != nil || got != nil {
		t.Fatalf("no file: %v, %v", got, err)
	}
	text := `# kept
rules:
  - {allow: "Bash(go test *)", in: /src/proj, by: eve, untrusted: true, at: 2026-11-15T10:00:00Z}

  - deny: Write(infra/**)
    why: ask the platform team
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRules(path)
	if err != nil || len(got) != 2 {
		t.Fatalf("got %v, %v", got, err)
	}
	if v, m := got[0].Verdict(); v != "allow" || m != "Bash(go test *)" || got[0].In != "/src/proj" || got[0].By != "eve" || !got[0].Untrusted || got[0].Line != 3 {
		t.Errorf("first: %+v", got[0])
	}
	if want := time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC); !got[0].At.Equal(want) {
		t.Errorf("at %v", got[0].At)
	}
	if v, m := got[1].Verdict(); v != "deny" || m != "Write(infra/**)" || got[1].Why != "ask the platform team" || got[1].Line != 5 {
		t.Errorf("second: %+v", got[1])
	}
}

func TestRulesThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		"rules: [{allow: a, deny: b}]":                  "one of allow, ask and deny",
		"rules: [{}]":                                   "one of allow, ask and deny",
		"rules: [{alow: a}]":                            "alow",
		"rules: [{allow: a, in: [x]}]":                  "p.yaml:1:",
		"rules: {allow: a}":                             "want a list",
		"rules: [{deny: a, untrusted: true}]":           "untrusted belongs to allow",
		"limits: {loops: 3}":                            "limits.loops does not belong here",
		"hooks: [{point: PreToolUse, command: 'true'}]": "rules only",
		"rules: [": "p.yaml",
	} {
		_, err := ParseRules("p.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to say %q", text, err, want)
		}
	}
}

func TestRates(t *testing.T) {
	c := Default()
	c.sources = map[string]Source{}
	if err := parse(&c, "c.yaml", []byte("rates: [{tool: Bash, limit: 3}]")); err != nil || len(c.Rates) != 1 || c.Rates[0].Per != time.Minute {
		t.Fatalf("got %+v, %v", c.Rates, err)
	}
	for _, text := range []string{"rates: [{tool: Bash}]", "rates: [{limit: 3}]", "rates: [{tool: Bash, limit: -1}]", "rates: [{tool: Bash, limit: 1, per: 1ms}]"} {
		if err := parse(&c, "c.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "a rate names") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
