package git

import (
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
