package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

const gitAs = "git -c user.name=a -c user.email=a@b "

func hostileToGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	y := newYard(t)
	if out, err := exec.Command("git", "init", "-q", y.work).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_ = os.RemoveAll(y.work + "/.git/hooks")
	evil := func(y *yard, dot string) {
		for _, script := range []string{
			"echo x > " + dot + "/hooks/pre-commit", "echo x >> " + dot + "/config", "rm " + dot + "/config", rename(dot+"/hooks", dot+"/h"),
			"git config core.fsmonitor 'touch /tmp/x'", "echo x > " + dot + "/info/attributes", rename(dot, "old"), "rm -rf " + dot + "/hooks",
			"umount " + dot + "/config", "ln -sf /dev/null " + dot + "/config", "mount -o remount,rw " + dot + "/hooks",
		} {
			y.fails(script)
		}
	}
	y.works("echo 1 > f && git add f && " + gitAs + "commit -qm one && git branch side && git checkout -q side && echo 2 > f && " +
		gitAs + "commit -qam two && git checkout -q - && git merge -q side && git log --oneline && git tag t && git stash list && git gc -q")
	evil(y, ".git")
	y.run("mkdir -p lead/hooks && cp .git/config lead/ && echo ../lead > .git/commondir") // which ends it, if it does not end before
	if exists(y.work+"/.git", "commondir") {
		t.Error("git is led elsewhere")
	}

	y.works("git worktree list")
	other := y.home + "/linked"
	if out, err := exec.Command("git", "-C", y.work, "worktree", "add", "-q", other).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	linked := *y
	linked.work, linked.p.Workspace = other, other
	linked.works("echo 3 > g && git add g && " + gitAs + "commit -qm three && git status")
	evil(&linked, y.work+"/.git")
	for _, script := range []string{"echo gitdir: /tmp > .git", "rm .git", "mv .git x", "d=$(git rev-parse --git-dir); echo /tmp > $d/commondir", "d=$(git rev-parse --git-dir); mv $d $d.x", "echo x > " + y.work + "/f"} {
		linked.fails(script)
	}
	for _, script := range []string{
		"echo /tmp > .git/worktrees/linked/commondir", "rm .git/worktrees/linked/gitdir", "mv .git/worktrees/linked .git/worktrees/x", "mv .git/worktrees .git/x",
	} {
		y.fails(script)
	}
	if err := os.MkdirAll(y.work+"/.git/modules/sub/hooks", 0o755); err != nil {
		t.Fatal(err)
	}
	y.put(y.work+"/.git/modules/sub/config", "")
	for _, script := range []string{
		"echo x > .git/modules/sub/config", "mv .git/modules/sub .git/modules/x", "mv .git/modules .git/x", "echo x > .git/modules/sub/hooks/pre-commit",
	} {
		y.fails(script)
	}
	y.works("echo 4 > f && " + gitAs + "commit -qam four")
	hostileToNested(t, y)
	y.works("rm .git/HEAD") // which makes nothing else of it
	evil(y, ".git")
}

// rename is a command that moves a folder and, unlike mv, never copies and removes it instead, which would take away objects.
func rename(from, to string) string {
	return "perl -e 'rename($ARGV[0], $ARGV[1]) or die $!' " + from + " " + to
}

// hostileToNested is hostileToGit for repositories that lie in the workspace, and are not its own.
func hostileToNested(t *testing.T, y *yard) {
	y.works("git init -q libs/one && git init -q two && mkdir -p three && echo gitdir: ../two/.git > three/.git")
	dots := []string{"libs/one/.git", "two/.git"}
	for _, dot := range dots {
		y.works("cd " + dot + "/.. && echo 1 >> f && git add f && " + gitAs + "commit -qm one && git gc -q")
		y.run("cd " + dot + "/.. && mkdir lead && echo ../lead > .git/commondir") // which ends it, if it does not end before
		if exists(y.work, dot+"/commondir") {
			t.Errorf("git is led elsewhere by %s", dot)
		}
	}
	for _, dot := range dots {
		inside := []string{
			"echo x > " + dot + "/hooks/pre-commit", "echo x >> " + dot + "/config", "git config -f " + dot + "/config core.fsmonitor 'touch /tmp/x'",
			"echo x > " + dot + "/info/attributes", "rm -r " + dot + "/hooks", "mv " + dot + "/hooks x",
			"echo gitdir: /tmp > three/.git", "rm three/.git",
		}
		for _, script := range slices.Concat(inside, []string{"mv libs x", "mv two x", "mv " + dot + " x", "rm -rf libs two", "rm -rf " + dot}, inside) {
			y.fails(script) // the last, of what removing the rest has left
		}
	}
	y.works("mkdir -p libs && echo x > libs/file && mv libs/file file && git init -q four && echo x > four/.git/hooks/x && rm -rf four")
	// How deep something lies does not count. What there is too much of is left to the rules on calls.
	deep := filepath.Join(y.work, far)
	if err := os.MkdirAll(deep+"/.git", 0o755); err != nil {
		t.Fatal(err)
	}
	near := func() []string {
		found := searchRepos(y.work, nil, nil)
		return found.repos[:found.near]
	}
	if found := near(); !slices.Contains(found, deep) || !slices.Contains(found, y.work+"/libs/one") {
		t.Errorf("found %v", found)
	}
	for i := range nestedFolders {
		if err := os.Mkdir(filepath.Join(y.work, fmt.Sprintf("many%d", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if found := near(); len(found) > 4 {
		t.Errorf("found %v", found)
	}
	y.works("true")
}
