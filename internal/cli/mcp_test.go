package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

func TestMCP(t *testing.T) {
	b := newBench(t)
	if code := b.do(t, "mcp", "list"); code != exitOK {
		t.Errorf("exit %d", code)
	}
	wantIn(t, "no servers", b.stderr.String(), "no MCP servers")
	b.fake.Servers = []api.MCPServer{
		{Name: "notes", Where: "notes-server", State: "up", Server: "No\x1btes", Version: "1.0", Handshake: 20 * time.Millisecond, Tools: []api.MCPTool{
			{Name: "mcp__notes__find", Tool: "find", Effect: td.Pure}, {Name: "mcp__notes__write", Tool: "write", Effect: td.Opaque},
		}, LeftOut: []api.MCPLeftOut{{Tool: "lies", Why: "its schema is broken"}}},
		{Name: "sick", Where: "sick-server", State: "failed", Problem: "it exits with 3"},
	}
	for _, tc := range []struct {
		args []string
		code int
		out  []string
	}{
		{[]string{"mcp", "list"}, exitOK, []string{"notes   up      2      notes-server", "sick    failed         it exits with 3"}},
		{[]string{"mcp", "list", "--json"}, exitOK, []string{`"problem": "it exits with 3"`}},
		{[]string{"mcp", "test", "notes"}, exitOK, []string{"mcp__notes__find   only looks", "mcp__notes__write  may do anything", "lies", "its schema is broken", "No␛tes"}},
		{[]string{"mcp", "test", "sick"}, exitFailed, []string{"it exits with 3"}},
		{[]string{"mcp", "test", "sick", "--json"}, exitFailed, []string{`"state": "failed"`}},
		{[]string{"mcp", "test", "nobody"}, exitNotFound, nil},
		{[]string{"mcp", "test"}, exitUsage, nil},
	} {
		if code := b.do(t, tc.args...); code != tc.code {
			t.Errorf("%v: exit %d, want %d: %s", tc.args, code, tc.code, b.stderr)
		}
		wantIn(t, tc.args[1], b.stdout.String(), tc.out...)
	}
}

func TestSkillsList(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	if code := b.do(t, "skills", "list", "--dir", dir); code != exitOK {
		t.Errorf("exit %d: %s", code, b.stderr)
	}
	wantIn(t, "none", b.stderr.String(), "no skills")
	folder := filepath.Join(dir, ".claude/skills/torn")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "SKILL.md"), []byte("---\nname: torn\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := b.do(t, "skills", "list", "--dir", dir); code != exitOK {
		t.Errorf("exit %d: %s", code, b.stderr)
	}
	wantIn(t, "broken", b.stderr.String(), "torn/SKILL.md:")
	if code := b.do(t, "skills", "list", "--dir", filepath.Join(dir, "nowhere")); code != exitUsage {
		t.Errorf("exit %d", code)
	}
}
