package git

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

func TestDescribe(t *testing.T) {
	dir := checkout(t)
	info, err := Describe(t.Context(), dir+"/pkg")
	if err != nil {
		t.Fatal(err)
	}
	if !info.Repo || info.Top != dir || info.Branch != "main" || info.Dirty || len(info.Commits) != 1 || !strings.HasSuffix(info.Commits[0], " first") {
		t.Errorf("clean: %+v", info)
	}
	write(t, dir+"/new.go", "package main\n")
	if info, _ = Describe(t.Context(), dir); !info.Dirty {
		t.Errorf("an untracked file: %+v", info)
	}
	user(t, dir, "add", "-A")
	for range 6 {
		user(t, dir, "commit", "-q", "--allow-empty", "-m", "more")
	}
	user(t, dir, "checkout", "-q", "--detach")
	if info, _ = Describe(t.Context(), dir); info.Branch != "" || info.Dirty || len(info.Commits) != 5 {
		t.Errorf("detached: %+v", info)
	}
}

func TestDescribeOutsideAndEmpty(t *testing.T) {
	dir := t.TempDir()
	if info, err := Describe(t.Context(), dir); err != nil || info.Repo {
		t.Errorf("no repository: %+v, %v", info, err)
	}
	user(t, dir, "init", "-q", "-b", "main")
	if info, err := Describe(t.Context(), dir); err != nil || !info.Repo || info.Head != "" || info.Branch != "main" {
		t.Errorf("no commit yet: %+v, %v", info, err)
	}
	if info, err := Describe(t.Context(), dir+"/.git"); err != nil || info.Repo {
		t.Errorf("inside .git: %+v, %v", info, err)
	}
	if _, err := Describe(t.Context(), dir+"/gone"); !td.IsKind(err, td.NotFound) {
		t.Errorf("no folder: %v", err)
	}
}

// What is seen without git is what git says, wherever the folder lies.
func TestPlain(t *testing.T) {
	repo, outside := checkout(t), t.TempDir()
	write(t, outside+"/sub/file", "x")
	user(t, outside, "init", "-q", "--bare", "bare.git")
	user(t, repo, "worktree", "add", "-q", outside+"/linked")
	for name, to := range map[string]string{"into": repo + "/pkg", "out": outside + "/sub"} {
		if err := os.Symlink(to, outside+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside+"/sub", repo+"/out"); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{
		outside: true, outside + "/sub": true, outside + "/out": true, repo + "/out": true,
		repo: false, repo + "/pkg": false, repo + "/.git": false, outside + "/into": false, outside + "/linked": false,
		outside + "/bare.git": false, outside + "/bare.git/objects": false, outside + "/gone": false,
	} {
		if got := plain(dir); got != want {
			t.Errorf("%s: %v", dir, got)
		}
		cmd := exec.Command("git", "rev-parse", "--git-dir")
		cmd.Dir = dir
		if err := cmd.Run(); want && err == nil {
			t.Errorf("%s: git says otherwise", dir)
		}
	}
}

// Titles and summaries are words of models; what people read with git log acts on no terminal.
func TestMessagesActOnNoTerminal(t *testing.T) {
	w, _ := made(t)
	write(t, w.Path+"/new", "1\n")
	commit, err := w.Commit(t.Context(), "a\x1b[31m\u202eb\u009bc\td\n\nmore \u2067é\n")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := user(t, w.Repo, "log", "-1", "--format=%B", commit), "a\ufffd[31m\ufffdb\ufffdc\td\n\nmore \ufffdé"; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
}
