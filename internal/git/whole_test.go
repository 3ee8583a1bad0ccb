package git

import (
	"os/exec"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

func TestWhole(t *testing.T) {
	t.Parallel()
	dir := checkout(t)
	const none = "1234567890123456789012345678901234567890"
	begin := user(t, dir, "rev-parse", "HEAD")
	tree := user(t, dir, "rev-parse", "HEAD^{tree}")
	good := user(t, dir, "commit-tree", tree, "-p", begin, "-m", "good")
	bad := piped(t, dir, "100644 blob "+none+"\tz\n", "mktree", "--missing")
	between := user(t, dir, "commit-tree", bad, "-p", begin, "-m", "step")
	after := user(t, dir, "commit-tree", tree, "-p", between, "-m", "good again")
	orphan := piped(t, dir, "tree "+tree+"\nparent "+none+"\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nx\n", "hash-object", "-t", "commit", "-w", "--stdin")
	for name, tc := range map[string]struct {
		commit string
		whole  bool
	}{
		"all is there":          {good, true},
		"nothing is new":        {begin, true},
		"a file is missing":     {between, false},
		"one was missing once":  {after, false},
		"a commit is missing":   {orphan, false},
		"the commit is missing": {none, false},
	} {
		err := Whole(t.Context(), dir, tc.commit, "refs/heads/main", "refs/heads/not-there")
		switch {
		case tc.whole && err != nil:
			t.Errorf("%s: %v", name, err)
		case !tc.whole && (!td.IsKind(err, td.Conflict) || !strings.Contains(err.Error(), none)):
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := FastForward(t.Context(), dir, "main", after, nil); !td.IsKind(err, td.Refused) {
		t.Errorf("the trunk came to a history that lacks objects: %v", err)
	}
}

// piped is user with something to read.
func piped(t *testing.T, dir, in string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}
