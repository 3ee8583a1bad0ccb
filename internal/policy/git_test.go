package policy

import "testing"

// Without a .git of its own, files of the workspace may pass for a bare repository whose settings git runs.
func TestGitWithoutRepository(t *testing.T) {
	where := place()
	where.Git = func(dir string) Git { return Git{Inside: dir == where.Workspace} }
	p, err := New(where, []Rule{{Verdict: Allow, Match: "Bash(git log *)"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		mode, action string
		want         Verdict
	}{
		{"ask", "git status", Ask},
		{"ask", "git -C . diff", Ask},
		{"ask", "git -C sub status", Ask},
		{"ask", "cd . && git branch", Ask},
		{"accept-edits", "git add -A", Ask},
		{"accept-edits", "git ls-files -z | xargs -0 cat", Ask},
		{"plan", "git show", Deny},
		{"ask", "git version", Allow},
		{"ask", "git --version", Allow},
		{"ask", "git log -1", Allow}, // a person said so
		{"auto+sandbox", "git status", Allow},
		{"accept-edits", "@Write /src/proj/config", Deny},
		{"accept-edits", "echo x > hooks/post-checkout", Deny},
	} {
		if d := p.Decide(exampleAction(tt.mode, tt.action)); d.Verdict != tt.want {
			t.Errorf("%s %q: got %s (%s: %s), want %s", tt.mode, tt.action, d.Verdict, d.Rule, d.Why, tt.want)
		}
	}
}
