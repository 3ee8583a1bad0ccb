package sandbox

import "testing"

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
