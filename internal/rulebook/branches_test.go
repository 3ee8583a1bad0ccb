package rulebook

import (
	"testing"

	"taskdaemon/internal/config"
	"taskdaemon/internal/policy"
)

func TestProtectedBranchesAreTheConfigs(t *testing.T) {
	cfg := config.Default()
	cfg.Git.Protected = "prod, stable/*"
	b := New(Options{UserDir: t.TempDir(), StateDir: t.TempDir(), Home: "/home/ann", Config: cfg})
	p, err := b.Policy(t.TempDir(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for branch, protected := range map[string]bool{"prod": true, "stable/2": true, "main": false} {
		d := p.Decide(policy.Action{Tool: "Bash", Command: "git push -f origin " + branch})
		if d.Floor != protected {
			t.Errorf("force-push to %s: %s by %s, protected is %v", branch, d.Verdict, d.Rule, protected)
		}
	}
}
