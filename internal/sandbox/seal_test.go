package sandbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSealed checks that what is sealed inside of the workspace can be read, and neither changed nor replaced.
func TestSealed(t *testing.T) {
	y := newYard(t)
	own := y.work + "/.config/own"
	if err := os.MkdirAll(own+"/skills", 0o755); err != nil {
		t.Fatal(err)
	}
	y.put(own+"/rules", "secret")
	y.put(own+"/skills/one", "read me")
	y.put(y.work+"/.taskdaemon.yaml", "rules: []")
	y.p.Seal = []string{y.work + "/.taskdaemon.yaml", own, y.work + "/not-there"}
	y.p.Hide = append(y.p.Hide, own+"/rules")
	y.works("cat .taskdaemon.yaml && cat .config/own/skills/one && test ! -s .config/own/rules && echo x > .config/other && echo x > file")
	y.run("echo x > .config/own/rules") // goes where it cannot be read again
	for _, script := range []string{
		"echo x > .taskdaemon.yaml", "rm .taskdaemon.yaml", "mv .taskdaemon.yaml x", "echo x > new && mv new .taskdaemon.yaml",
		"echo x > .config/own/new", "mv .config/own x", "mv .config x", "rm -r .config",
	} {
		y.fails(script)
	}
	if raw, err := os.ReadFile(own + "/rules"); err != nil || string(raw) != "secret" {
		t.Errorf("the rules: %q, %v", raw, err)
	}
}

// TestIntrudersOfALostCommand checks that what leads git elsewhere goes even if the shim that would have removed
// it is dead, and that what a repository had before stays.
func TestIntrudersOfALostCommand(t *testing.T) {
	s := open(t)
	work, dir := t.TempDir(), filepath.Join(s.Dir, "lost")
	for _, d := range []string{dir, work + "/.git/objects/info", work + "/.git/hooks", work + "/.git/logs", work + "/lib/.git/hooks"} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	boot, err := BootID()
	if err != nil {
		t.Fatal(err)
	}
	p := Profile{Files: WorkspaceWrite, Network: NetworkFull, Workspace: work, GitWrite: true}
	raw, err := json.Marshal(spec{ID: "i", Boot: boot, Shell: "/bin/sh", Timeout: time.Minute, Task: "t", Step: "s", Profile: &p})
	if err != nil {
		t.Fatal(err)
	}
	put := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(dir + "/" + specFile)
	before, after := work+"/.git/logs/old", work+"/.git/commondir"
	put(work + "/.git/config.worktree")
	if err := os.Symlink("nowhere", before); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the clock of files goes on", func() bool { // it is coarser than that of the processor
		put(dir + "/" + startedFile)
		a, aerr := os.Lstat(before)
		b, berr := os.Stat(dir + "/" + startedFile)
		return aerr == nil && berr == nil && b.ModTime().After(a.ModTime())
	})
	put(after)
	put(work + "/lib/.git/config.worktree")
	put(work + "/.git/unknown") // by now nobody knows whose it is, and git does not look at it
	for _, link := range []string{"COMMIT_EDITMSG", "logs/HEAD"} {
		if err := os.Symlink("nowhere", filepath.Join(work, ".git", link)); err != nil {
			t.Fatal(err)
		}
	}
	if _, state, err := s.Find("lost"); state != Lost {
		t.Fatalf("state %v, %v", state, err)
	}
	for _, name := range []string{".git/commondir", ".git/COMMIT_EDITMSG", ".git/logs/HEAD", "lib/.git/config.worktree"} {
		if exists(work, name) {
			t.Errorf("git is led elsewhere by %s", name)
		}
	}
	for _, name := range []string{".git/config.worktree", ".git/logs/old", ".git/unknown"} {
		if !exists(work, name) {
			t.Errorf("%s is gone", name)
		}
	}
}
