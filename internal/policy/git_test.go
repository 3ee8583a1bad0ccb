package policy

import (
	"errors"
	"strings"
	"testing"
)

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

// What git runs or obeys by its settings is kept, by those of the workspace and those of a repository that the file lies in, however deep. Where nobody can tell, nothing is written.
func TestSteeringIsKept(t *testing.T) {
	where := place()
	where.Git = func(dir string) Git { return Git{Top: dir == where.Workspace+"/a/b/lib"} }
	asked := map[string]int{}
	where.Steering = func(dir string) ([]string, error) {
		asked[dir]++
		switch dir {
		case where.Workspace:
			return []string{where.Workspace + "/hk"}, nil
		case where.Workspace + "/a/b/lib":
			return []string{where.Workspace + "/a/b/lib/.husky"}, nil
		}
		return nil, errors.New("x is 100% odd")
	}
	p, err := New(where, nil)
	if err != nil {
		t.Fatal(err)
	}
	writes := func(paths ...string) Decision {
		a := Action{Tool: "Write", Mode: ModeAuto}
		for _, path := range paths {
			a.Paths = append(a.Paths, PathUse{Path: where.Workspace + "/" + path, Access: Write})
		}
		return p.Decide(a)
	}
	for path, want := range map[string]Verdict{"hk/pre-commit": Deny, "a/b/lib/.husky/pre-commit": Deny, "a/b/lib/x": Allow, "x": Allow} {
		if d := writes(path); d.Verdict != want {
			t.Errorf("%s: %+v", path, d)
		}
	}
	clear(asked)
	if writes("x", "y", "a/b/lib/x", "a/b/lib/y"); asked[where.Workspace] != 1 || asked[where.Workspace+"/a/b/lib"] != 1 || len(asked) != 2 {
		t.Errorf("asked %v", asked)
	}
	where.Git = func(dir string) Git { return Git{Top: dir == where.Workspace+"/odd"} }
	if p, err = New(where, nil); err != nil {
		t.Fatal(err)
	}
	if d := writes("odd/x"); d.Verdict != Deny || !strings.HasSuffix(d.Why, "cannot be told: x is 100% odd.") {
		t.Errorf("%+v", d)
	}
}
