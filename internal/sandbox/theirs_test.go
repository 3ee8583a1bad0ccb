package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGitTheirs checks that no command has the repositories of a person's changed by what is done after it.
func TestGitTheirs(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(*testing.T, *yard){
		"outside of the workspace": theirsOutside, "outside, by a submodule": theirsModule, "deep": theirsDeep, "behind many others": theirsHidden, "taken into an index": theirsAdded,
		"more than are sealed": theirsUnsealed, "a shim that is killed": theirsKilled, "moved": theirsMoved, "hooks among many": theirsMany, "hooks that are removed": theirsRemoved,
	} {
		t.Run(name, func(t *testing.T) { check(t, gitYard(t)) })
	}
}

// theirs makes a repository as a person has it, with a hook, an alias and an address to push to.
func (y *yard) theirs(dir string) {
	y.t.Helper()
	y.git("init", "-q", dir)
	y.git("-C", dir, "commit", "-q", "--allow-empty", "-m", "x")
	y.git("-C", dir, "config", "alias.st", "status")
	y.git("-C", dir, "config", "remote.origin.pushurl", "elsewhere")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(y.work, dir)
	}
	y.put(dir+"/.git/hooks/pre-commit", "#!/bin/sh\n")
}

// stillTheirs checks that it is as it was.
func (y *yard) stillTheirs(dir string) {
	y.t.Helper()
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(y.work, dir)
	}
	raw, err := os.ReadFile(dir + "/.git/config")
	if err != nil || !strings.Contains(string(raw), "st = status") || !strings.Contains(string(raw), "pushurl = elsewhere") || !fileExists(dir+"/.git/hooks/pre-commit") {
		y.t.Errorf("%s lost its hook or settings: %s, %v", dir, raw, err)
	}
}

func theirsOutside(_ *testing.T, y *yard) {
	other := y.home + "/projects/other"
	y.theirs(other)
	y.git("update-index", "--add", "--cacheinfo", "160000,"+y.git("rev-parse", "HEAD")+",other")
	y.git("config", "core.worktree", y.home+"/projects")
	y.run("true")
	y.stillTheirs(other)
}

func theirsModule(t *testing.T, y *yard) {
	y.git("clone", "-q", y.work, y.home+"/upstream")
	y.git("submodule", "add", "-q", y.home+"/upstream", "sub")
	other := y.home + "/projects/other"
	y.theirs(other)
	y.git("-C", "sub", "update-index", "--add", "--cacheinfo", "160000,"+y.git("rev-parse", "HEAD")+",other")
	y.git("-C", "sub", "config", "core.worktree", y.home+"/projects")
	if err := os.Symlink(y.home+"/projects", y.work+"/way"); err != nil {
		t.Fatal(err)
	}
	y.run("true")
	y.stillTheirs(other)
	if out, err := exec.Command("git", "config", "-f", y.work+"/.git/modules/sub/config", "core.worktree", y.work+"/way").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	y.run("true")
	y.stillTheirs(other)
}

func theirsDeep(_ *testing.T, y *yard) {
	y.theirs(far + "/6")
	y.git("add", "1")
	y.theirs(far + "/6/7/8/9")
	y.git("-C", far+"/6", "add", "7")
	for _, script := range []string{"true", "git add 1; echo x > f; git add f", "echo x > " + far + "/6/f; git -C " + far + "/6 add f"} {
		y.run(script)
		y.stillTheirs(far + "/6")
		y.stillTheirs(far + "/6/7/8/9")
	}
}

// far is deeper than is looked for repositories.
const far = "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17"

// crowd makes more folders than are looked at, which sort before others.
func (y *yard) crowd(dir string, n int) {
	y.t.Helper()
	for i := range n {
		if err := os.MkdirAll(fmt.Sprintf("%s/%s/d%d", y.work, dir, i), 0o755); err != nil {
			y.t.Fatal(err)
		}
	}
}

func theirsHidden(t *testing.T, y *yard) {
	y.crowd("node_modules", 1200)
	y.theirs("pk/b/lib")
	said := string(y.run("rm -rf node_modules").Head)
	y.stillTheirs("pk/b/lib")
	if !strings.Contains(said, "left as they are") || !strings.Contains(said, "pk/b/lib/.git") {
		t.Errorf("the command is not told: %s", said)
	}
	// One that a command makes there is disarmed all the same.
	y.crowd("node_modules", 1200)
	y.run("rm -rf node_modules; mkdir -p pk/c; " + y.armed("pk/c/lib"))
	if y.ran() {
		t.Error("a program was run")
	}
}

func theirsAdded(t *testing.T, y *yard) {
	y.crowd("1/2/3", 1100) // which is more than is looked at
	y.theirs(far + "/6")
	y.run("git add 1")
	y.stillTheirs(far + "/6")
	y.git("reset", "-q")
	// Nor does git go there because a command says so.
	y.git("-C", far+"/6", "config", "core.fsmonitor", "touch "+y.out+"/ran; false")
	y.run("git add 1")
	if y.ran() {
		t.Error("a program was run")
	}
}

func theirsUnsealed(t *testing.T, y *yard) {
	y.crowd("", 200)
	y.theirs("zz")
	y.git("-C", "zz", "config", "core.hooksPath", "hooks")
	y.run("cd zz; git config remote.more.url ../x; git config user.name y; echo x > g; git add g; " + gitAs + "commit -qnm g")
	y.stillTheirs("zz")
	if y.git("-C", "zz", "config", "remote.more.url") != "../x" {
		t.Error("what names no program was taken")
	}
	y.run("cd zz; git config --unset alias.st; git config core.fsmonitor 'touch " + y.out + "/ran; false'; rm -r .git/hooks; echo 'touch " + y.out + "/ran' > .git/post-index-change; mkdir .git/hooks; ln -s ../post-index-change .git/hooks")
	y.stillTheirs("zz")
	if y.ranIn("zz", "status") {
		t.Error("a program was run")
	}
	if found, _ := filepath.Glob(y.work + "/zz/.git/config.kept-*"); len(found) != 1 {
		t.Errorf("what was changed is not kept: %v", found)
	}
	y.run("rm -rf zz/.git; " + y.bare("zz/.git", ".."))
	if y.ranIn("zz", "status") {
		t.Error("a program was run")
	}
}

func theirsKilled(t *testing.T, y *yard) {
	y.theirs(far + "/6")
	y.git("add", "1")
	y.crowd("", 200)
	y.theirs("zz")
	y.kill("git -C zz config core.fsmonitor 'touch " + y.out + "/ran; false'")
	y.stillTheirs(far + "/6")
	y.stillTheirs("zz")
	if y.ranIn("zz", "status") {
		t.Error("a program was run")
	}
}

func theirsMoved(t *testing.T, y *yard) {
	y.theirs(far + "/known")
	y.git("add", "1")
	y.theirs(far + "/deep")
	y.crowd("", 200)
	y.theirs("zz")
	y.run("mv " + far + "/known aa; mv zz 1/yy; git -C 1/yy config core.fsmonitor 'touch " + y.out + "/ran; false'; mv " + far + "/deep bb")
	y.stillTheirs("aa")
	y.stillTheirs("1/yy")
	if y.ranIn("1/yy", "status") {
		t.Error("a program was run")
	}
	y.stillTheirs("bb")
}

func theirsMany(t *testing.T, y *yard) {
	y.git("clone", "-q", y.work, y.home+"/upstream")
	y.crowd("", 200)
	y.theirs("zz")
	y.git("-C", "zz", "submodule", "add", "-q", y.home+"/upstream", "sub")
	hook := func(dir, name string) string {
		return "printf '#!/bin/sh\ntouch " + y.out + "/ran' > " + dir + "/" + name + "; chmod 755 " + dir + "/" + name + "; "
	}
	many := "; for i in $(seq 2100); do : > "
	y.run("cd zz/.git/hooks" + many + "a$i; done; " + hook(".", "post-checkout"))
	y.stillTheirs("zz")
	if y.ranIn("zz", "checkout", "-q", "HEAD") {
		t.Error("a hook was run that lay behind many others")
	}
	if found, _ := filepath.Glob(y.work + "/zz/.git/hooks.kept-*/a2100"); len(found) != 1 {
		t.Errorf("what was put there is not kept: %v", found)
	}
	y.run("cd zz/.git/modules; mkdir aa; cd aa" + many + "a$i; done; cd ..; " + hook("sub/hooks", "post-checkout"))
	if y.ranIn("zz/sub", "checkout", "-q", "HEAD") {
		t.Error("a hook of a submodule was run that lay behind many files")
	}
	y.stillTheirs("zz")
	y.run("git init -q m; cd m; " + gitAs + "commit -q --allow-empty -m x; cd .git/hooks" + many + "a$i; done; " + hook(".", "post-checkout"))
	if y.ranIn("m", "checkout", "-q", "HEAD") {
		t.Error("a hook of a new repository was run")
	}
}

func theirsRemoved(t *testing.T, y *yard) {
	y.crowd("", 200)
	y.theirs("zz")
	evil := "mkdir -p evil; printf '#!/bin/sh\ntouch " + y.out + "/ran' > evil/post-checkout; chmod 755 evil/*; "
	for _, script := range []string{"rm -rf zz/.git/hooks", evil + "rm -rf zz/.git/hooks; ln -s ../../evil zz/.git/hooks", "rm -rf zz/.git/hooks; : > zz/.git/hooks", "rm -rf zz/.git/hooks; mkfifo zz/.git/hooks"} {
		y.run(script)
		y.stillTheirs("zz")
		if y.ranIn("zz", "checkout", "-q", "HEAD") {
			t.Errorf("%s: a program was run", script)
		}
	}
	// Nor does anything stand in the way of what is put back.
	y.run("cd zz/.git; mkdir -p config.new/x hooks/pre-commit.new/x; git config core.fsmonitor 'touch " + y.out + "/ran; false'; echo 'touch " + y.out + "/ran' > hooks/pre-commit")
	y.stillTheirs("zz")
	if y.ranIn("zz", "status") || y.ranIn("zz", "commit", "--allow-empty", "-qm", "x") {
		t.Error("a program was run")
	}
	// A repository that is gone stays so.
	y.run("rm -rf zz")
	if fileExists(y.work + "/zz") {
		t.Error("a removed repository is made again")
	}
}
