package git

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCommonDir: worktrees of one repository share one folder, and nothing else does.
func TestCommonDir(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	main, linked, broken := filepath.Join(dir, "main"), filepath.Join(dir, "linked"), filepath.Join(dir, "broken")
	for _, d := range []string{filepath.Join(main, "sub"), filepath.Join(broken, "sub")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	user(t, main, "init", "-q")
	user(t, main, "commit", "-q", "--allow-empty", "-m", "one")
	user(t, main, "worktree", "add", "-q", linked)
	if err := os.WriteFile(filepath.Join(broken, ".git"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	common := filepath.Join(main, ".git")
	for at, want := range map[string]string{
		main: common, filepath.Join(main, "sub"): common, linked: common,
		filepath.Join(broken, "sub"): "", filepath.Join(main, "missing", "folder"): common,
	} {
		if got := CommonDir(at); got != want {
			t.Errorf("of %s it is %q, want %q", at, got, want)
		}
	}
}
