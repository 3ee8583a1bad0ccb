package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

func TestProjectsHaveSettingsOfTheirOwn(t *testing.T) {
	path := write(t, `
projects:
  - path: shop/web
    worktree: {trunk: branch}
  - path: shop
    worktree: {setup: npm ci, copy: ".env", trunk: ask}
    limits: {loops_per_project: 2}
worktree: {setup: make, quota: 1GiB}
`)
	c, err := Load(LoadOptions{File: path, Environ: []string{"TASKDAEMON_WORKTREE_COPY=all.env"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ dir, want string }{
		{"", "setup make file, copy all.env env, trunk auto default, loops 0 default"},
		{"shop", `setup "npm ci" project, copy all.env env, trunk ask project, loops 2 project`},
		{"shop/web/src", `setup "npm ci" project, copy all.env env, trunk branch project, loops 2 project`},
		{"shopping", "setup make file, copy all.env env, trunk auto default, loops 0 default"},
	} {
		in := c.In(filepath.Join(filepath.Dir(path), tc.dir))
		var got []string
		for _, k := range [][2]string{{"setup", "worktree.setup"}, {"copy", "worktree.copy"}, {"trunk", "worktree.trunk"}, {"loops", "limits.loops_per_project"}} {
			key, _ := find(k[1])
			got = append(got, k[0]+" "+key.Value(in)+" "+string(in.SourceOf(key)))
		}
		if got := strings.Join(got, ", "); got != tc.want {
			t.Errorf("in %q: %s, want %s", tc.dir, got, tc.want)
		}
		if in.Worktree.Quota != 1<<30 {
			t.Errorf("in %q: what nobody says otherwise is lost", tc.dir)
		}
	}
	if c.Worktree.Setup != "make" {
		t.Error("to look at a project changes the general settings")
	}
}

// A task's folder is known by its real name, whatever the person calls it.
func TestAProjectBehindALink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	c, err := Load(LoadOptions{File: write(t, "projects: [{path: "+filepath.Join(dir, "link")+", worktree: {setup: make}}]")})
	if err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(filepath.Join(dir, "real"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.In(real).Worktree.Setup; got != "make" {
		t.Errorf("set-up is %q", got)
	}
}

func TestProjectErrors(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"no list", "projects: {path: a}\n", ":1:11: want a list of projects, found keys"},
		{"no path", "projects:\n  - worktree: {setup: make}\n", ":2:"},
		{"empty path", "projects: [{path: ''}]\n", "path: want a folder's path"},
		{"text", "projects: [a]\n", "want key: value, found the text"},
		{"unknown", "projects: [{path: a, worktree: {stup: x}}]\n", `unknown key "worktree.stup"; did you mean worktree.setup?`},
		{"not of a project", "projects: [{path: a, provider: openai}]\n", "provider holds for all projects"},
		{"no section", "projects: [{path: a, hooks: []}]\n", "hooks holds for all projects"},
		{"projects in projects", "projects: [{path: a, projects: []}]\n", "projects holds for all projects"},
		{"bad value", "projects: [{path: a, worktree: {trunk: never}}]\n", "worktree.trunk: want auto or ask or branch"},
		{"failed check", "projects:\n  - path: a\n    worktree: {copy: ../x}\n", `worktree.copy: "../x" is no file or folder within`},
		{"path twice", "projects: [{path: a, path: b}]\n", "already defined"},
		{"project twice", "projects:\n  - {path: a}\n  - {path: a/}\n", ":3:5: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := write(t, tc.text)
			_, err := Load(LoadOptions{File: path})
			if !td.IsKind(err, td.Invalid) || td.HintOf(err) == "" {
				t.Fatalf("error is %v, want one of kind invalid with a hint", err)
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %q, want it to name %s and say %q", err, path, tc.want)
			}
		})
	}
}
