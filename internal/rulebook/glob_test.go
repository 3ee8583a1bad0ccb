package rulebook

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"taskdaemon/internal/config"
	"taskdaemon/internal/policy"
)

func TestGlobLeadsNowhereUnasked(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws, home := filepath.Join(base, "ws"), filepath.Join(base, "home")
	for _, dir := range []string{filepath.Join(ws, "docs", "a"), filepath.Join(ws, "plain", "b"), home} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{filepath.Join(ws, "docs", "a", "x"), filepath.Join(ws, "plain", "b", "x"), filepath.Join(home, "x")} {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(home, filepath.Join(ws, "docs", "out")); err != nil {
		t.Fatal(err)
	}
	got, ok := Glob(filepath.Join(ws, "docs", "*", "x"))
	if want := []string{filepath.Join(ws, "docs", "a", "x"), filepath.Join(ws, "docs", "out", "x")}; !ok || !slices.Equal(got, want) {
		t.Errorf("Glob: %v %v, want %v", got, ok, want)
	}
	p, err := New(Options{UserDir: filepath.Join(base, "user"), StateDir: filepath.Join(base, "state"), Home: home, Config: config.Config{}}).Policy(ws, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]policy.Verdict{
		"cat plain/*/x":      policy.Allow,
		"cat docs/*/x":       policy.Ask,
		"cat docs/out/x":     policy.Ask,
		"grep -r x .":        policy.Allow, // it follows no links that it finds
		"grep -R x .":        policy.Ask,
		"rg -L x":            policy.Ask,
		"find -L . -name x":  policy.Ask,
		"head -1 < docs/*/x": policy.Ask,
	} {
		if d := p.Decide(policy.Action{Tool: "Bash", Command: command, Mode: policy.ModeAcceptEdits}); d.Verdict != want {
			t.Errorf("%s: %s (%s), want %s", command, d.Verdict, d.Why, want)
		}
	}
}
