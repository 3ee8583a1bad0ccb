package sandbox

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestNamesRef takes what git takes, and nothing that it stops at.
func TestNamesRef(t *testing.T) {
	for _, name := range []string{"HEAD", "refs/heads/taskdaemon/run/t-1/fix", "refs/bisect/bad", "refs/heads/größe", "refs/heads/a.b", "refs/heads/a@b"} {
		if !namesRef(name) {
			t.Errorf("%q is one", name)
		}
	}
	for _, name := range []string{
		"refs/heads/a..b", "refs/heads/x~y", "refs/heads/e\x1b]0;hi\az", "refs/heads/.a", "refs/heads/a.lock", "refs/heads/a.lock/b", "refs/heads/a b", "refs/heads/a.", "refs//a", "refs/heads/a@{b",
		"refs/heads/@", "refs/heads/a\xff", "refs/heads/a\\b", "refs/heads/a:b", "refs/heads/a?", "refs/heads/a*", "refs/heads/a[", "refs/heads/a^",
	} {
		if namesRef(name) {
			t.Errorf("%q is none", name)
		}
	}
}

// A command that can only look leaves references as they are, broken ones, too: it made none of them, and nobody noted what they were before.
func TestLookingKeepsRefs(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	y := newYard(t)
	const refs = "refs/heads/taskdaemon/run/t-1"
	repo, work := y.out+"/repo", y.home+"/tree"
	y.put(repo+"/file", "text")
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "file"}, {"-c", "user.name=Ann", "-c", "user.email=a@example.org", "commit", "-qm", "first"},
		{"worktree", "add", "-q", "-b", "taskdaemon/run/t-1/fix", work},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = repo
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	broken, lost := repo+"/.git/"+refs+"/lost", strings.Repeat("7", 40)+"\n"
	y.put(broken, lost)
	y.work, y.p.Workspace, y.p.Refs, y.p.Files = work, work, []string{refs}, ReadOnly
	if said := y.works("true"); said != "" {
		t.Errorf("it is told %q", said)
	}
	if got, err := os.ReadFile(broken); err != nil || string(got) != lost {
		t.Errorf("the reference is %q (%v)", got, err)
	}
}
