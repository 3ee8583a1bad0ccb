package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// gitYard is a yard whose workspace is a repository with two commits on main and one on side, that do not agree.
func gitYard(t *testing.T) *yard {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	y := newYard(t)
	y.git("init", "-q", "-b", "main")
	y.put(y.work+"/f", "1\n")
	y.git("add", "f")
	y.git("commit", "-qm", "one")
	y.git("branch", "side")
	y.put(y.work+"/f", "2\n")
	y.git("commit", "-qam", "two")
	y.git("checkout", "-q", "side")
	y.put(y.work+"/f", "3\n")
	y.git("commit", "-qam", "three")
	y.git("checkout", "-q", "main")
	return y
}

// git runs git as a person does, outside of any sandbox.
func (y *yard) git(args ...string) string {
	y.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = y.work
	out, err := cmd.CombinedOutput()
	if err != nil {
		y.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestGitWorks is what people do with git all day: all of it works, and nothing of it is taken away.
func TestGitWorks(t *testing.T) {
	y := gitYard(t)
	y.git("clone", "-q", y.work, y.home+"/upstream")
	for _, script := range []string{
		"echo x > g && git add g && G commit -qm g && G commit -q --amend -m better && git status && git log -1 --format=%s | grep better",
		"! G merge side && git status | grep -q 'both modified' && test -e .git/MERGE_HEAD",
		"echo 4 > f && git add f && G commit -qm merged && test ! -e .git/MERGE_HEAD",
		"git checkout -qb topic HEAD~1 && echo y > h && git add h && G commit -qm h && G rebase main && git log --format=%s | grep -q merged",
		"git checkout -qb clash main~1 && echo 5 > f && G commit -qam five && ! G rebase main && test -d .git/rebase-merge",
		"echo 6 > f && git add f && GIT_EDITOR=true G rebase --continue && test ! -d .git/rebase-merge && git log -1 --format=%s | grep five",
		"GIT_SEQUENCE_EDITOR=true G rebase -qi HEAD~1 && git checkout -q main",
		"G cherry-pick topic && G revert --no-edit HEAD && ! G cherry-pick clash~0 side && git cherry-pick --abort",
		"echo z >> f && G stash -q && git stash list | grep -q stash && G stash pop -q && git checkout -q f",
		"echo z >> f && git add f && git format-patch -q -1 topic && git reset -q --hard && git checkout -q topic~1 && G am -q 0001-h.patch && git checkout -q main && rm 0001-h.patch",
		"git tag light && G tag -a -m heavy heavy && git branch gone && git branch -D gone && git switch -q topic && git switch -q main",
		"git fetch -q " + y.home + "/upstream main && git merge-base HEAD FETCH_HEAD",
		"git bisect start && git bisect bad && git bisect good HEAD~2 && git bisect reset",
		"G notes add -m note && git rerere && git reflog > log && git pack-refs --all && git repack -qad && git gc -q && git fsck && rm log",
		"git update-index --split-index && git status && git update-index --no-split-index && git mv f k && git rm -q --cached k && git reset -q --hard",
	} {
		res := y.run(strings.ReplaceAll(strings.ReplaceAll(script, "! G ", "! "+gitAs), "G ", gitAs))
		if res.Exit != 0 || strings.Contains(string(res.Head), "taskdaemon: removed") {
			t.Errorf("%s: exit %d: %s", script, res.Exit, res.Head)
		}
	}
}

// TestGitRefuses is what is not for a command: git says itself what it could not do.
func TestGitRefuses(t *testing.T) {
	y := gitYard(t)
	y.git("clone", "-q", y.work, y.home+"/upstream")
	for _, script := range []string{
		"git config user.name x", "git remote add x /tmp", "git worktree add -q wt", "git sparse-checkout set f", "echo x >> .git/info/exclude",
		gitAs + "-c protocol.file.allow=always submodule add -q " + y.home + "/upstream sub", "echo x > .git/description", "git branch -m side renamed",
	} {
		if said := y.fails(script); !strings.Contains(said, "Read-only file system") && !strings.Contains(said, "could not write config file") {
			t.Errorf("%s: %s", script, said)
		}
	}
	y.git("worktree", "add", "-q", "wt")
	for _, script := range []string{"cd wt && echo x > new && git add new", "echo x > .git/worktrees/wt/HEAD", "rm wt/.git", "mv wt x", "git worktree remove wt"} {
		y.fails(script)
	}
	y.works("echo x > wt/f && git -C wt log > log && echo x > n && git add n && " + gitAs + "commit -qm n")
}

// TestGitLeavings checks that a command leaves nothing in .git that no commit needs, that it is told, and that what a person has
// there stays as it is.
func TestGitLeavings(t *testing.T) {
	y := gitYard(t)
	dot := y.work + "/.git"
	y.put(dot+"/mine", "a person's")
	if err := os.Mkdir(dot+"/tool", 0o755); err != nil {
		t.Fatal(err)
	}
	before := namesIn(t, dot)
	for _, script := range []string{
		"echo ../lead > .git/commondir", "printf '[core]\\nfsmonitor = ./x\\n' > .git/config.worktree", "mkdir -p .git/annex/deep && echo x > .git/annex/deep/file", "touch .git/new",
		"mkdir .git/remotes && echo URL: /tmp > .git/remotes/origin", "mkfifo .git/FETCH_HEAD",
		"ln -s " + y.out + "/file .git/MERGE_MSG", "mv f .git/f && exit", "rm .git/index && ln -s " + y.out + "/file .git/index",
		"rm .git/logs/HEAD && ln -s " + y.out + "/file .git/logs/HEAD", "mv .git/logs/refs .git/logs/old && ln -s " + y.out + " .git/logs/refs", "ln -s " + y.out + "/file .git/refs/heads/linked",
		"ln -s " + y.out + "/file .git/refs/heads/old && touch -h -d 2000-01-01 .git/refs/heads/old",
	} {
		res := y.run(script)
		if res.Exit != 0 && res.Limit == "" || !strings.Contains(string(res.Head), "taskdaemon: removed "+dot) {
			t.Errorf("%s: exit %d: %s", script, res.Exit, res.Head)
		}
	}
	for _, script := range []string{"echo x > .git/mine", "rm .git/mine", "touch .git/tool/x", "mv .git/tool .git/t", "rmdir .git/tool"} {
		y.fails(script)
	}
	after := slices.DeleteFunc(namesIn(t, dot), func(name string) bool { return name == "modules" || name == "worktrees" })
	if before = slices.DeleteFunc(before, func(name string) bool { return name == "index" }); !slices.Equal(after, before) {
		t.Errorf("left %v, there was %v", after, before)
	}
	y.git("reset", "-q", "--hard")
	y.git("commit", "-q", "--allow-empty", "-m", "a person's words")
	y.untouched()
	y.works("for i in $(seq 30); do touch .git/many$i; done")
	if exists(dot, "many7") || !strings.Contains(string(y.run("for i in $(seq 30); do touch .git/many$i; done").Head), "and 20 more") {
		t.Error("many are left, or all of them are told")
	}
}

// TestGitCrowded checks that a folder of git with more in it than can be sealed one by one is sealed as a whole.
func TestGitCrowded(t *testing.T) {
	y := gitYard(t)
	for i := range mostClosed + 1 {
		y.put(fmt.Sprintf("%s/.git/odd%d", y.work, i), "")
	}
	for _, script := range []string{"echo x > .git/odd1", "touch .git/index.lock", "echo x > n && git add n"} {
		y.fails(script)
	}
	y.works("git log > log && rm log")
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestGitLinks checks that a person's own link to hooks stays one, and what it leads to as it is.
func TestGitLinks(t *testing.T) {
	y := gitYard(t)
	hooks := y.work + "/.git/hooks"
	if err := os.RemoveAll(hooks); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{y.work + "/githooks", y.work + "/evil"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../githooks", hooks); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", y.work+"/.git/dangling"); err != nil {
		t.Fatal(err)
	}
	y.fails("echo x > githooks/pre-commit")
	y.works("rm .git/hooks && mkdir .git/hooks && echo x > .git/hooks/pre-commit")
	y.works("rm .git/hooks && ln -s ../evil .git/hooks")
	y.works("rm .git/hooks .git/dangling")
	if link, err := os.Readlink(hooks); link != "../githooks" {
		t.Errorf("the link to hooks is %q, %v", link, err)
	}
	if link, err := os.Readlink(y.work + "/.git/dangling"); link != "nowhere" {
		t.Errorf("the other link is %q, %v", link, err)
	}
}

// TestGitSubmodule checks that a command can commit in a submodule, and not make another repository of it.
func TestGitSubmodule(t *testing.T) {
	y := gitYard(t)
	y.git("clone", "-q", y.work, y.home+"/upstream")
	y.git("submodule", "add", "-q", y.home+"/upstream", "libs/sub")
	y.git("commit", "-qm", "with a submodule")
	y.works("cd libs/sub && echo x > new && git add new && " + gitAs + "commit -qm inside && cd ../.. && git add libs/sub && " + gitAs + "commit -qm outside")
	for _, script := range []string{
		"git -C libs/sub config user.name x", "echo x > .git/modules/libs/sub/hooks/pre-commit", "mkdir .git/modules/new", "mv .git/modules/libs .git/modules/x",
		"mv .git/modules/libs/sub .git/modules/libs/x", "echo /tmp > .git/modules/libs/sub/info/attributes", "echo gitdir: /tmp > libs/sub/.git",
	} {
		y.fails(script)
	}
	y.works("touch .git/modules/libs/sub/new")
	for _, name := range []string{"commondir", "objects/info/alternates"} { // who is quick may end before they are ended
		y.run("echo x > .git/modules/libs/sub/" + name)
	}
	for _, name := range []string{"new", "commondir", "objects/info/alternates"} {
		if exists(y.work+"/.git/modules/libs/sub", name) {
			t.Errorf("%s is left", name)
		}
	}
}

// TestGitLinkedWorktree checks that a command in a linked worktree has of the repository only what a commit needs, and that one with
// references of its own cannot change those of others, wherever git keeps them.
func TestGitLinkedWorktree(t *testing.T) {
	y := gitYard(t)
	main, own := y.work, y.work+"/.git/worktrees/one"
	y.git("branch", "taskdaemon/graph")
	y.git("worktree", "add", "-q", "-b", "taskdaemon/run/one", ".worktrees/one")
	run := *y
	run.work, run.p.Workspace = main+"/.worktrees/one", main+"/.worktrees/one"
	for _, script := range []string{
		"echo x > new && git add new && G commit -qm new && G commit -q --amend -m newer && git tag free && echo x >> f && G stash -q && G stash pop -q && git checkout -q f",
		"git checkout -qb other && git checkout -q taskdaemon/run/one", "! G merge side && git merge --abort",
	} {
		run.works(strings.ReplaceAll(strings.ReplaceAll(script, "! G ", "! "+gitAs), "G ", gitAs))
	}
	for _, script := range []string{
		"echo x > " + own + "/commondir", "rm " + own + "/gitdir", "echo /tmp > " + main + "/.git/objects/info/alternates && exit 1", "touch " + main + "/.git/new", "echo x >> " + main + "/.git/config",
	} {
		run.fails(script)
	}
	if res := run.run("printf '[core]\\nfsmonitor = ./x\\n' > " + own + "/config.worktree; sleep 15"); res.Limit == "" {
		t.Errorf("a second file of settings: %+v", res)
	}
	run.works("touch " + own + "/new")
	// Nothing that a git outside would follow, or wait for, gets there in the first place.
	for _, script := range []string{
		"ln -s " + y.out + "/file " + own + "/linked", "ln -s " + y.out + "/file link; mv link " + own + "/other", "ln -s " + y.out + "/file " + main + "/.git/logs/refs/heads/linked",
		"ln -s " + y.out + "/file two; ln two " + own + "/two", "mkfifo " + own + "/pipe", "mkfifo p; mv p " + main + "/.git/objects/p", "mkfifo " + main + "/.git/refs/heads/pipe",
		"python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"" + own + "/s\")'",
	} {
		run.fails(script)
	}
	run.run("rm -f link two p")
	for _, path := range []string{own + "/config.worktree", own + "/new", own + "/linked", own + "/pipe", main + "/.git/logs/refs/heads/linked", main + "/.git/objects/info/alternates"} {
		if exists("/", path) {
			t.Errorf("%s is left", path)
		}
	}

	run.p.Refs = []string{"refs/heads/taskdaemon/run"}
	// References that every git would have to list do not outlive the command; a handful does.
	for script, left := range map[string]int{
		"for i in 1 2 3; do git update-ref refs/heads/taskdaemon/run/more/$i HEAD; done":                                                       4,
		"h=$(git rev-parse HEAD); cd $(git rev-parse --git-common-dir)/refs/heads/taskdaemon/run; for i in $(seq 300); do echo $h > x$i; done": 1,
		"n=$(printf 'a%.0s' $(seq 200)); git update-ref refs/heads/taskdaemon/run/$n/$n HEAD":                                                  1,
	} {
		run.run(script)
		if got := y.git("for-each-ref", "--format=%(refname)", "refs/heads/taskdaemon/run"); strings.Count(got, "\n")+1 != left {
			t.Errorf("%.60s: left %.200s", script, got)
		}
		run.run("git update-ref -d refs/heads/taskdaemon/run/more/1; git update-ref -d refs/heads/taskdaemon/run/more/2; git update-ref -d refs/heads/taskdaemon/run/more/3")
	}
	// One that runs on is ended.
	if res := run.run("h=$(git rev-parse HEAD); cd $(git rev-parse --git-common-dir)/refs/heads/taskdaemon/run; for i in $(seq 300); do echo $h > x$i; done; sleep 30"); !strings.Contains(res.Limit, "more than 200 references") {
		t.Errorf("a command with 300 references: %+v", res)
	}
	// A branch of the task's that stands for another one is what it was: a commit there would move the person's.
	was := y.git("rev-parse", "refs/heads/taskdaemon/run/one")
	run.run("printf 'ref: refs/heads/main\\n' > $(git rev-parse --git-common-dir)/$(git symbolic-ref HEAD); git symbolic-ref refs/heads/taskdaemon/run/more/sym refs/heads/main")
	if now := y.git("rev-parse", "refs/heads/taskdaemon/run/one") + y.git("for-each-ref", "--format=%(symref)", "refs/heads/taskdaemon/run"); now != was {
		t.Errorf("a symbolic reference: %s, was %s", now, was)
	}
	// What is under way and names branches of others goes; what names the task's own stays.
	on := y.git("-C", run.work, "symbolic-ref", "HEAD")
	for file, text := range map[string]string{
		"rebase-merge/head-name": "REF\n", "rebase-apply/head-name": "REF\n", "rebase-merge/update-refs": on + "\nID\nID\nREF\nID\nID\n",
		"rebase-merge/git-rebase-todo": "update-ref REF\n", "BISECT_START": "REF\n",
	} {
		for ref, stays := range map[string]bool{"refs/heads/main": false, on: true} {
			said := strings.NewReplacer("REF", ref, "ID", strings.Repeat("1", 40)).Replace(text)
			run.run("cd $(git rev-parse --git-dir) && mkdir -p rebase-merge rebase-apply && printf %s '" + said + "' > " + file)
			if exists("/", own+"/"+file) != stays {
				t.Errorf("%s with %s: is left %t", file, ref, !stays)
			}
			run.run("cd $(git rev-parse --git-dir) && rm -rf rebase-merge rebase-apply BISECT_START")
		}
	}
	for _, packed := range []bool{false, true} {
		if packed {
			y.git("pack-refs", "--all")
		}
		at := y.git("rev-parse", "main", "side", "taskdaemon/graph")
		run.works("echo y >> new && " + gitAs + "commit -qam more && " + gitAs + "rebase -q HEAD~1 && ! " + gitAs + "merge side && git merge --abort && git log -g -1 > /dev/null")
		for _, script := range []string{
			"git branch -f side HEAD", "git update-ref refs/heads/main HEAD", "git update-ref -d refs/heads/main", "git checkout -qb another", "git branch taskdaemon/into/main", "git tag mine",
			"git update-ref refs/heads/taskdaemon/graph HEAD", "git rev-parse HEAD > " + main + "/.git/refs/heads/main", "rm " + main + "/.git/packed-refs", "git pack-refs --all",
		} {
			run.fails(script)
		}
		if now := y.git("rev-parse", "main", "side", "taskdaemon/graph"); now != at {
			t.Errorf("references moved from %s to %s", at, now)
		}
	}
}

func TestOpenInGit(t *testing.T) {
	for _, name := range []string{"HEAD", "ORIG_HEAD", "COMMIT_EDITMSG", "BISECT_LOG", "index", "index.lock", "config.lock", "refs", "sharedindex.0123"} {
		if !openInGit(name) {
			t.Errorf("%s is closed", name)
		}
	}
	for _, name := range []string{"config", "config.worktree", "hooks", "info", "commondir", "modules", "worktrees", "head", "HEAD~", "indexes", "remotes"} {
		if openInGit(name) {
			t.Errorf("%s is open", name)
		}
	}
	if dir := t.TempDir(); len(planGit(dir, false, false).dirs) != 0 || filepath.Base(dir) == ".git" {
		t.Error("a folder without a repository has a plan")
	}
}

// TestGitShut is a person's own checkout: commands read what git knows and change nothing of it, however they try.
func TestGitShut(t *testing.T) {
	y := gitYard(t)
	y.p.GitWrite = false
	at := y.git("rev-parse", "HEAD", "side")
	y.works("git status && git log -1 && git diff HEAD~1 && git show side:f && echo x > g && test -n \"$(git status --porcelain)\"")
	for _, script := range []string{
		"git add g", gitAs + "commit -qam x", "git update-ref refs/heads/side HEAD", "git config a.b c", "git stash", "git gc", "rm -rf .git", "mv .git moved", "mkdir .git/lfs",
		"echo x > .git/index", "echo x > .git/MERGE_RR", "mkdir .git/rr-cache", "ln -s /etc/passwd .git/logs/HEAD2", "touch .git/index.lock", "chmod 777 .git/config",
		"echo x > .git/objects/pack/pack-1.pack", "git hash-object -w g", "echo /tmp > .git/commondir",
	} {
		y.fails(script)
	}
	if now := y.git("rev-parse", "HEAD", "side"); now != at {
		t.Errorf("references moved from %s to %s", at, now)
	}
	if got := y.git("status", "--porcelain"); got != "?? g" {
		t.Errorf("status: %s", got)
	}
	// A repository that a command makes is its own.
	y.works("git init -q sub && cd sub && echo s > s && git add s && " + gitAs + "commit -qm s && git log -1")
	// So is nobody's linked worktree but the task's.
	y.git("worktree", "add", "-q", "-b", "mine", y.home+"/linked")
	linked := *y
	linked.work, linked.p.Workspace = y.home+"/linked", y.home+"/linked"
	linked.works("git status && git log -1")
	linked.fails("echo x > h && git add h")
	linked.fails(gitAs + "commit -q --allow-empty -m x")
}
