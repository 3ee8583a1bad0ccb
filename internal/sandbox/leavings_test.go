package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestGitTraps is what a command may leave for a person's git to run, to write or to believe: nothing comes of it.
func TestGitTraps(t *testing.T) {
	t.Parallel()
	for name, trap := range map[string]func(*testing.T, *yard){
		"a list of lenders that is a link": trapLenders, "paths of an index": trapIndex,
		"a shim that is killed": trapKilled, "a repository among many folders": trapMany, "another way to merge": trapStrategy,
		"another object for one": trapReplace, "the end of history": trapShallow, "a repository without a checkout": trapBare, "objects that are none": trapJunk,
		"a workspace that becomes a repository itself": trapRoot, "a .git that leads into another": trapInto, "repositories of repositories": trapLinks, "names among many": trapCrowd,
		"a repository in two folders": trapSplit, "a new repository": trapNew, "hooks beside a new repository": trapBeside, "references moved away": trapRefs, "flags of git am": trapMail, "the person's own": trapTheirs,
		"a killed shim's history": trapKilledHistory, "trees that an index remembers": trapTrees, "repositories that are none": trapDecoys, "what is not sealed": trapUnsealed, "a worktree of a new one": trapWorktree,
		"old links moved": trapMoved, "a killed shim's links": trapKilledMoved, "a person's own rebase": trapRebase, "folders that cannot be listed": trapLocked, "folders that hide a repository": trapHidden, "a partial clone": trapPartial, "an old repository where an index leads": trapParked,
	} {
		t.Run(name, func(t *testing.T) { trap(t, gitYard(t)) })
	}
}

// TestSlowObjects is TestGitTraps for what takes its time.
func TestSlowObjects(t *testing.T) {
	t.Parallel()
	if exec.Command("perl", "-MCompress::Zlib", "-e", "1").Run() != nil {
		t.Skip("perl has no zlib")
	}
	t.Run("while it runs", func(t *testing.T) { trapSlow(t, gitYard(t)) })
	t.Run("at its end", func(t *testing.T) { trapSlowEnd(t, gitYard(t)) })
}

// armed is a script that makes a repository in a folder whose settings name a program, and takes it into the index.
func (y *yard) armed(dir string) string {
	return "git init -q " + dir + " && " + gitAs + "-C " + dir + " commit -q --allow-empty -m x && git -C " + dir + " config core.fsmonitor 'touch " + y.out + "/ran; false' && git add " + dir + " 2>/dev/null;"
}

// ran reports whether the program was run, after a person's git has looked around.
func (y *yard) ran() bool {
	cmd := exec.Command("git", "status")
	cmd.Dir = y.work
	_ = cmd.Run()
	return fileExists(y.out + "/ran")
}

func trapLenders(t *testing.T, y *yard) {
	y.put(y.priv+"/id", "one\ntwo\nthree\n")
	for _, script := range []string{
		"mkdir n && cd n && git init -q . && mkdir -p x/info && echo $PWD/x > .git/objects/info/alternates; ln -s " + y.priv + "/id x/info/alternates",
		"mkdir m && cd m && git init -q . && ln -s " + y.priv + "/id .git/objects/info/alternates",
	} {
		y.run(script)
		said := string(y.run("cat [mn]/.git/objects/info/alternates; cat /tmp/.git-objects/*/info/alternates; true").Head)
		if strings.Contains(said, "two") {
			t.Errorf("%s: %s", script, said)
		}
	}
	y.works("echo x > g && git add g && " + gitAs + "commit -qm g")
}

func trapIndex(t *testing.T, y *yard) {
	// The names sort as what they become: an index that is out of order is refused for that.
	y.put(y.work+"/.giu/hooks/evilx", "evil\n")
	y.put(y.work+"/..0..0outside", "evil\n")
	y.works("git add . && perl -pi -e 's,\\.giu/hooks/evilx,.git/hooks/evilx,; s,\\.\\.0\\.\\.0outside,../../outside,' .git/index; perl -0777 -MDigest::SHA=sha1 -i -pe 's/.{20}$/sha1(substr($_,0,-20))/se' .git/index")
	if fileExists(y.work + "/.git/index") {
		t.Error("the index is left")
	}
	cmd := exec.Command("git", "restore", ".")
	cmd.Dir = y.work
	_ = cmd.Run()
	if fileExists(y.work+"/.git/hooks/evilx") || fileExists(filepath.Dir(y.work)+"/outside") {
		t.Error("git wrote where the index says")
	}
	y.git("reset", "-q")
	y.untouched()
}

// bomb is a script that makes a file of a few MiB which git would take an age to read.
const bomb = `d=.git/objects/ab; mkdir -p $d; perl -MCompress::Zlib -e '$d = deflateInit(-Level => 9); print scalar $d->deflate("blob 536870912\0"); $z = "\0" x (1<<20); for (1..512) { print scalar $d->deflate($z) } print scalar $d->flush()' > $d/tmp && mv $d/tmp $d/00000000000000000000000000000000000000;`

func trapSlow(t *testing.T, y *yard) {
	res := y.run(bomb + " mkdir lead; echo ../lead > .git/commondir; sleep 2") // while the object is read
	if !strings.Contains(res.Limit, "commondir") || fileExists(y.work+"/.git/commondir") {
		t.Errorf("it was let run: %+v", res)
	}
}

func trapSlowEnd(t *testing.T, y *yard) {
	name := y.next()
	p := start(t, y.s, name, y.command(y.armed("n")+bomb+" touch done"))
	eventually(t, "the command has ended", func() bool { return fileExists(y.work + "/done") })
	eventually(t, "the repository is disarmed", func() bool {
		raw, err := os.ReadFile(y.work + "/n/.git/config")
		return err == nil && !strings.Contains(string(raw), "fsmonitor")
	})
	if exists(y.s.Dir, name+"/"+resultFile) {
		t.Error("the object was read before, or so fast that this shows nothing")
	}
	wait(t, p)
	if y.ran() {
		t.Error("a program was run")
	}
}

// kill runs a script and then kills its shim.
func (y *yard) kill(script string) {
	y.t.Helper()
	name := y.next()
	p := start(y.t, y.s, name, y.command(script+"; touch done; sleep 600"))
	eventually(y.t, "the script is through", func() bool { return fileExists(y.work + "/done") })
	h, err := load(filepath.Join(y.s.Dir, name), lockFile, decodeHolder)
	if err == nil {
		err = signal(h, syscall.SIGKILL)
	}
	if err != nil {
		y.t.Fatal(err)
	}
	_, _ = p.Wait(y.t.Context(), nil)
}

func trapKilled(t *testing.T, y *yard) {
	y.kill(strings.TrimSuffix(y.armed("n"), ";"))
	if y.ran() {
		t.Error("a program was run")
	}
}

func trapMany(t *testing.T, y *yard) {
	y.run("for i in $(seq 1200); do mkdir d$i; done; mkdir -p e/f/g/h/i; " + y.armed("zz") + y.armed("e/f/g/h/i/j"))
	if y.ran() {
		t.Error("a program was run")
	}
}

func trapStrategy(t *testing.T, y *yard) {
	evil := "mkdir git-merge-x; printf '#!/bin/sh\ntouch " + y.out + "/ran\nexit 1\n' > evil.sh; chmod 755 evil.sh;"
	for _, c := range []struct{ script, goesOn string }{
		{"for i in 2 3; do echo $i > h; git add h; " + gitAs + "commit -qam $i; done; GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' " + gitAs + "rebase -q -i HEAD~2 -s ours;" + evil +
			"echo x/../evil.sh > .git/rebase-merge/strategy; echo c > b; git add b; " + gitAs + "commit -qm o", "rebase"},
		{evil + "! " + gitAs + "cherry-pick side~0 main~1; printf '[options]\n\tstrategy = x/../evil.sh\n' > .git/sequencer/opts", "cherry-pick"},
	} {
		y.run(c.script)
		cmd := exec.Command("git", c.goesOn, "--continue")
		cmd.Dir = y.work
		_ = cmd.Run()
		if fileExists(y.out + "/ran") {
			t.Errorf("%s --continue ran a program", c.goesOn)
		}
		_ = exec.Command("git", "-C", y.work, "reset", "-q", "--hard").Run()
	}
	y.git("checkout", "-q", "-f", "main")
	y.works("! " + gitAs + "merge -q side; git merge --abort; ! " + gitAs + "rebase -q -s recursive side")
	if said := y.git("status"); !strings.Contains(said, "rebas") {
		t.Errorf("an honest rebase is gone: %s", said)
	}
}

func trapReplace(t *testing.T, y *yard) {
	blob := y.git("rev-parse", "main:f")
	for _, script := range []string{
		"git replace " + blob + " $(echo forged | git hash-object -w --stdin)",
		"h=$(echo forged | git hash-object -w --stdin); git pack-refs --all; echo $h refs/replace/" + blob + " >> .git/packed-refs",
		"h=$(echo forged | git hash-object -w --stdin); git update-ref refs/replace/" + blob + " $h; mkdir -p .git/refs/replace; echo $h > .git/refs/replace/" + blob,
	} {
		y.run(script)
		if got := y.git("show", "main:f"); got != "2" {
			t.Errorf("%s: it is %q", script, got)
		}
	}
	other := y.git("rev-parse", "side:f")
	y.git("replace", blob, other)
	y.git("pack-refs", "--all")
	y.works("git pack-refs --all && echo x > g && git add g && " + gitAs + "commit -qm g")
	if got := y.git("show", "main~1:f"); got != "3" {
		t.Errorf("the person's own replacement is gone: %q", got)
	}
}

func trapShallow(t *testing.T, y *yard) {
	y.git("clone", "-q", y.work, y.home+"/upstream")
	for _, script := range []string{"git rev-parse HEAD > .git/shallow", "git fetch -q --depth 1 file://" + y.home + "/upstream main"} {
		y.run(script)
		if n := strings.Count(y.git("log", "--oneline", "main")+"\n", "\n"); n != 2 {
			t.Errorf("%s: %d commits are left", script, n)
		}
	}
}

func trapBare(t *testing.T, y *yard) {
	y.run("mkdir docs; cd docs; git init -q --bare .; git --git-dir=. config core.bare false; git --git-dir=. config core.worktree ..; git --git-dir=. config core.fsmonitor 'touch " + y.out + "/ran; false'")
	cmd := exec.Command("git", "status")
	cmd.Dir = y.work + "/docs"
	_ = cmd.Run()
	if fileExists(y.out + "/ran") {
		t.Error("a program was run")
	}
	// One that was there before is sealed.
	y.git("init", "-q", "--bare", "theirs.git")
	y.fails("git --git-dir=theirs.git config core.fsmonitor x")
	y.works("git push -q ./theirs.git main:main")
	if got := y.git("--git-dir=theirs.git", "show", "main:f"); got != "2" {
		t.Errorf("what was pushed is not there: %q", got)
	}
}

func trapJunk(t *testing.T, y *yard) {
	y.run("printf hello | git hash-object -w -t commit --literally --stdin; printf hello | git hash-object -w -t tree --literally --stdin; for i in $(seq 2000); do printf x > .git/objects/aa/$(printf %038d $i); done")
	y.git("gc", "-q")
	y.git("fsck", "--full")
}

// bare is a script that makes a folder of git whose settings name a program and another checkout.
func (y *yard) bare(dir, checkout string) string {
	return "git init -q --bare " + dir + "; git --git-dir=" + dir + " config core.bare false; git --git-dir=" + dir + " config core.worktree " + checkout +
		"; git --git-dir=" + dir + " config core.fsmonitor 'touch " + y.out + "/ran; false';"
}

// ranIn is ran in a folder of the workspace, by any git.
func (y *yard) ranIn(dir string, args ...string) bool {
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	cmd.Dir = filepath.Join(y.work, dir)
	_ = cmd.Run()
	return fileExists(y.out + "/ran")
}

func trapRoot(t *testing.T, y *yard) {
	y.git("init", "-q", "k")
	y.run(y.bare("t", "$PWD") + "cp -r t/* .; cp -r t/* k; rm -rf t; rm .git/HEAD k/.git/HEAD")
	if y.ran() || y.ranIn("k", "status") {
		t.Error("a program was run")
	}
}

func trapInto(t *testing.T, y *yard) {
	y.run(y.armed("n") + " mv n/.git .git/EVIL; echo 'gitdir: ../.git/EVIL' > n/.git; git add n")
	if y.ran() || fileExists(y.work+"/.git/EVIL") {
		t.Error("a program was run, or is left")
	}
}

func trapLinks(t *testing.T, y *yard) {
	y.run("git init -q n && cd n && " + gitAs + "commit -q --allow-empty -m x && mkdir -p " + far + "/6 && " + y.armed(far+"/6/7") + " cd ..; git add n 2>/dev/null")
	if y.ran() {
		t.Error("a program was run")
	}
	y.git("clone", "-q", y.work, y.home+"/upstream")
	y.git("submodule", "add", "-q", y.home+"/upstream", "sub")
	y.run("cd sub && mkdir -p " + far + " && " + y.armed(far+"/6"))
	if y.ran() {
		t.Error("a program was run in a submodule")
	}
}

func trapCrowd(t *testing.T, y *yard) {
	y.run(y.bare("big", "..") + "cd big; for i in $(seq 3000); do : > j$i; done")
	if y.ranIn("big", "status") {
		t.Error("a program was run")
	}
}

func trapSplit(t *testing.T, y *yard) {
	y.run("git init -q --bare store; mkdir sub; mv store/HEAD sub; echo ../store > sub/commondir; git config -f store/config alias.st '!touch " + y.out + "/ran'; git config -f sub/config alias.st '!touch " + y.out + "/ran'")
	if y.ranIn("sub", "st") {
		t.Error("a program was run")
	}
}

func trapNew(t *testing.T, y *yard) {
	y.run("git init -q p && cd p && echo 1 > zzzzzzzzzzzz && git add . && " + gitAs + "commit -qm one && echo 2 > b && git add b && " + gitAs + "commit -qm two && " +
		"h=$(git rev-parse HEAD) && new=$(" + gitAs + "commit-tree -m FORGED HEAD^{tree}) && printf '%s\\trefs/replace/%s\\n' $new $h > .git/packed-refs && ln -sf " + y.out + "/file .git/logs/HEAD && " +
		"mkdir -p .git/rebase-merge && echo 'exec touch " + y.out + "/ran' > .git/rebase-merge/git-rebase-todo && perl -pi -e 's,z{12},../../passwd,' .git/index; true")
	if got := y.git("-C", "p", "log", "-1", "--format=%s"); got != "two" {
		t.Errorf("history is %q", got)
	}
	_ = y.ranIn("p", "commit", "-q", "--allow-empty", "-m", "mine")
	_ = y.ranIn("p", "restore", ".")
	if y.ranIn("p", "rebase", "--continue") || fileExists(filepath.Dir(y.work)+"/passwd") {
		t.Error("a program was run, or a file written elsewhere")
	}
	y.untouched()
}

func trapRefs(t *testing.T, y *yard) {
	head := y.git("rev-parse", "HEAD")
	forged := "new=$(" + gitAs + "commit-tree -m FORGED HEAD^{tree}); "
	for _, script := range []string{
		"mv .git/refs .git/REFS; mkdir .git/refs; cp -r .git/REFS/* .git/refs/; mkdir -p .git/refs/replace; echo $new > .git/refs/replace/" + head,
		"printf '# pack-refs with: peeled fully-peeled sorted \\n%s\\trefs/replace/" + head + "\\n' $new > .git/packed-refs",
		"perl -e 'print \"#\", \"x\" x 100000, \"\\n\"' > .git/packed-refs; echo $new refs/replace/" + head + " >> .git/packed-refs",
	} {
		y.run(forged + script)
		if got := y.git("log", "-1", "--format=%s"); got != "two" {
			t.Errorf("%s: history is %q", script, got)
		}
	}
}

func trapMail(t *testing.T, y *yard) {
	y.put(y.out+"/victim", "precious")
	y.run("git format-patch -q -2 side -o ../p 2>/dev/null || git format-patch -q -2 side -o p; git checkout -q main~1; ! " + gitAs + "am -q p/* ; printf \" '--build-fake-ancestor=" + y.out + "/victim'\" > .git/rebase-apply/apply-opt")
	_ = y.ranIn(".", "am", "--skip")
	if raw, err := os.ReadFile(y.out + "/victim"); err != nil || string(raw) != "precious" {
		t.Errorf("a file was written: %q, %v", raw, err)
	}
}

func trapTheirs(t *testing.T, y *yard) {
	for i := range 221 {
		if err := os.Mkdir(fmt.Sprintf("%s/d%d", y.work, i), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	y.git("init", "-q", "zz")
	y.git("-C", "zz", "config", "alias.st", "status")
	y.put(y.work+"/zz/.git/hooks/pre-commit", "#!/bin/sh\n")
	for _, script := range []string{"echo hello", "echo again", "touch zz/.git/probe"} {
		y.run(script)
		if !fileExists(y.work+"/zz/.git/hooks/pre-commit") || y.git("-C", "zz", "config", "alias.st") != "status" {
			t.Fatalf("%s: the person's hook or setting is gone", script)
		}
	}
}

func trapKilledHistory(t *testing.T, y *yard) {
	head := y.git("rev-parse", "HEAD")
	y.kill("new=$(" + gitAs + "commit-tree -m FORGED HEAD^{tree}); git rev-parse HEAD > .git/shallow; printf '%s refs/replace/" + head + "\n' $new > .git/packed-refs")
	if got := y.git("log", "--format=%s", "main"); got != "two\none" {
		t.Errorf("history is %q", got)
	}
}

func trapTrees(t *testing.T, y *yard) {
	y.put(y.work+"/d/f", "good\n")
	y.git("add", "d")
	y.git("commit", "-qm", "good")
	evil := y.git("rev-parse", "HEAD:d")
	y.works("t=$(printf '100644 blob %s\tf\n' $(echo EVIL | git hash-object -w --stdin) | git mktree) && git reset -q && git write-tree > /dev/null && " +
		"perl -0777 -MDigest::SHA=sha1 -i -pe 'BEGIN { $o = pack(\"H*\", shift); $n = pack(\"H*\", shift) } s/\\Q$o\\E/$n/; s/.{20}$/sha1(substr($_,0,-20))/se' " + evil + " $t .git/index")
	y.put(y.work+"/f", "mine\n")
	y.git("add", "f")
	y.git("commit", "-qm", "mine")
	if got := y.git("show", "HEAD:d/f"); got != "good" {
		t.Errorf("the person committed %q", got)
	}
	if said := y.git("status", "--porcelain"); said != "" {
		t.Errorf("status: %s", said)
	}
}

func trapDecoys(t *testing.T, y *yard) {
	decoys := "h=$(git rev-parse HEAD); for i in $(seq 1010); do printf '160000 %s 0\ta%s\n' $h $i; done | git update-index --index-info;"
	y.run("mkdir -p q/" + far + "; " + y.armed("q/"+far+"/zz") + decoys)
	if y.ran() {
		t.Error("a program was run")
	}
	// Those that are there, one in the other, and more than are followed.
	y.git("reset", "-q")
	y.run("git init -q --template= one && git -C one config core.fsmonitor 'touch " + y.out + "/ran; false'; for i in $(seq 1010); do mkdir -p p/" + far + "; cp -r one p/" + far + "/$i; done; h=$(git rev-parse HEAD); for i in $(seq 1010); do printf '160000 %s 0\tp/" + far + "/%s\n' $h $i; done | git update-index --index-info; rm -rf one")
	if y.ran() {
		t.Error("a program was run, of many")
	}
}

func trapUnsealed(t *testing.T, y *yard) {
	y.crowd("", 200)
	y.run("git init -q d150/zz && " + gitAs + "-C d150/zz commit -q --allow-empty -m x && git add d150/zz 2>/dev/null")
	y.run("git -C d150/zz config core.fsmonitor 'touch " + y.out + "/ran; false'")
	if y.ran() {
		t.Error("a program was run")
	}
}

func trapWorktree(t *testing.T, y *yard) {
	y.works("git init -q n && " + gitAs + "-C n commit -q --allow-empty -m x && git -C n worktree add -q ../wt && git init -q --bare b.git && " + gitAs + "-C n push -q ../b.git HEAD:main && git --git-dir=b.git worktree add -q bw main")
	for _, dir := range []string{"wt", "bw"} {
		y.git("-C", dir, "commit", "-q", "--allow-empty", "-m", "mine")
		if got := y.git("-C", dir, "log", "--format=%s"); got != "mine\nx" {
			t.Errorf("history of %s is %q", dir, got)
		}
	}
	y.run("git init -q m && " + gitAs + "-C m commit -q --allow-empty -m x && mkdir -p " + far + " && git -C m worktree add -q ../wm && mv m " + far + "/m && echo gitdir: $PWD/" + far + "/m/.git/worktrees/wm > wm/.git && git -C wm config core.fsmonitor 'touch " + y.out + "/ran; false'")
	if y.ranIn("wm", "status") {
		t.Error("a program was run")
	}
}

// parked are two scripts: one makes links and a plan where git does not look, the other moves them, as old as they are, to where it does.
func (y *yard) parked() (first, second string) {
	return "h=$(git rev-parse HEAD); mkdir -p .git/lfs/l/refs/heads .git/lfs/r && ln -s " + y.out + "/file .git/lfs/l/HEAD && ln -s " + y.out + "/file .git/lfs/l/refs/heads/main && ln -s " + y.out + "/file .git/lfs/EDIT && cd .git/lfs/r && " +
			"echo $h | tee onto orig-head && echo refs/heads/main > head-name && : > interactive && printf 'exec touch " + y.out + "/ran\n' | tee git-rebase-todo; sleep 0.1",
		"rm -rf .git/logs; mv .git/lfs/l .git/logs; mv .git/lfs/r .git/rebase-merge; mv .git/lfs/EDIT .git/COMMIT_EDITMSG"
}

// goesOn has a person commit, and go on with a rebase.
func (y *yard) goesOn() bool {
	_ = y.ranIn(".", "commit", "-q", "--allow-empty", "-m", "mine")
	ran := y.ranIn(".", "rebase", "--continue")
	y.untouched()
	return ran
}

func trapMoved(t *testing.T, y *yard) {
	first, second := y.parked()
	y.run(first)
	y.run(second)
	if y.goesOn() {
		t.Error("a program was run")
	}
}

func trapKilledMoved(t *testing.T, y *yard) {
	first, second := y.parked()
	y.run(first)
	y.kill(second)
	if y.goesOn() {
		t.Error("a program was run")
	}
}

func trapRebase(t *testing.T, y *yard) {
	// A person's own links, and the programs of their own rebase, stay.
	if err := os.Symlink(y.out+"/file", y.work+"/.git/logs/mine"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{"4", "5"} {
		y.put(y.work+"/g", c)
		y.git("add", "g")
		y.git("commit", "-qm", c)
	}
	y.git("-c", "sequence.editor=sed -i 's/^pick/edit/'", "rebase", "-q", "-i", "-x", "true mine", "HEAD~2")
	y.run("echo 'exec sh evil' >> .git/rebase-merge/git-rebase-todo; " + gitAs + "commit -q --allow-empty -m more")
	raw, err := os.ReadFile(y.work + "/.git/rebase-merge/git-rebase-todo")
	if err != nil || strings.Count(string(raw), "exec true mine") != 2 || strings.Contains(string(raw), "evil") {
		t.Errorf("the plan is %q, %v", raw, err)
	}
	if to, err := os.Readlink(y.work + "/.git/logs/mine"); to != y.out+"/file" {
		t.Errorf("the person's link leads to %q, %v", to, err)
	}
	_ = os.Remove(y.work + "/.git/logs/mine")
	y.git("rebase", "--abort")
	// As long a one as a person has.
	y.run("h=$(git rev-parse HEAD); mkdir .git/rebase-merge && cd .git/rebase-merge && echo $h | tee onto orig-head && echo refs/heads/main > head-name && : > interactive && yes \"pick $h a commit of some length, as people write them\" | head -100000 > git-rebase-todo && echo exec false >> git-rebase-todo")
	raw, err = os.ReadFile(y.work + "/.git/rebase-merge/git-rebase-todo")
	if err != nil || strings.Count(string(raw), "\n") != 100_000 {
		t.Errorf("of a long plan %d bytes are left, %v", len(raw), err)
	}
}

func trapLocked(t *testing.T, y *yard) {
	y.crowd("", 200)
	y.theirs("zz")
	y.kill(y.armed("n") + "printf '#!/bin/sh\ntouch " + y.out + "/ran' > n/.git/hooks/post-index-change; chmod 755 n/.git/hooks/*; chmod 0311 n/.git/hooks n/.git n; " +
		"cp n/.git/hooks/post-index-change zz/.git/hooks; chmod 0311 zz/.git/hooks zz/.git zz; " +
		"mkdir -p .git/logs/refs/heads; ln -sf " + y.out + "/file .git/logs/refs/heads/main; chmod 0311 .git/logs/refs/heads .git/logs/refs .git/logs .git")
	if y.ran() || y.ranIn("n", "status") || y.ranIn("n", "add", ".") || y.ranIn("zz", "status") {
		t.Error("a program was run")
	}
	_ = y.ranIn(".", "commit", "-q", "--allow-empty", "-m", "mine")
	y.untouched()
}

// A folder that cannot be listed, or searched, or changed hides nothing that counts as old once it can be again. A shim that has a user namespace may do all of that, and so may root:
// whoever comes after a killed one may not.
func trapHidden(t *testing.T, y *yard) {
	y.kill("mkdir a b c; for d in a b c; do git init -q $d/sub; echo x > $d/sub/f; git -C $d/sub add f; git -C $d/sub config core.fsmonitor 'touch " + y.out + "/ran; false'; done; chmod 300 a; chmod 600 b; chmod 500 c/sub c/sub/.git c; touch done; chmod 300 .")
	for _, dir := range []string{".", "a", "b", "c"} {
		if err := os.Chmod(filepath.Join(y.work, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	y.run("true")
	for _, dir := range []string{"a", "b", "c"} {
		if y.ranIn(dir+"/sub", "status") {
			t.Errorf("a program was run in %s", dir)
		}
		_ = os.Remove(y.out + "/ran")
	}
	said := string(y.run("mkdir -p " + far[:9] + "; chmod 0 " + far[:9]).Head)
	if strings.Contains(said, "not looked at") {
		t.Errorf("what could be unlocked is told: %s", said)
	}
}

func trapPartial(t *testing.T, y *yard) {
	up := y.home + "/upstream"
	y.git("clone", "-q", y.work, up)
	y.git("-C", up, "config", "uploadpack.allowFilter", "true")
	clone := "git clone -q --no-checkout --filter=blob:none file://" + up
	y.works(clone + " part && " + clone + " evil && git -C evil config remote.origin.uploadpack 'touch " + y.out + "/ran; git-upload-pack'")
	y.git("-C", "part", "checkout", "-q", "main")
	if raw, err := os.ReadFile(y.work + "/part/f"); err != nil || string(raw) != "2\n" {
		t.Errorf("the file that was missing is %q, %v", raw, err)
	}
	if y.ranIn("evil", "checkout", "-q", "main") {
		t.Error("a program was run")
	}
}

func trapParked(t *testing.T, y *yard) {
	y.run("mkdir -p " + far + "; " + y.armed(far+"/a") + " git reset -q; git -C " + far + "/a config core.fsmonitor 'touch " + y.out + "/ran; false'; git update-index --add --cacheinfo 160000,$(git rev-parse HEAD)," + far + "/b; sleep 0.1")
	y.run("mv " + far + "/a " + far + "/b")
	if y.ran() {
		t.Error("a program was run")
	}
}

// trapBeside is for a person whose own settings have git look for hooks in a folder of every checkout.
func trapBeside(t *testing.T, y *yard) {
	y.p.HooksIn = []string{"tools/hooks"}
	y.run("mkdir old && echo x > old/f")
	y.run("git init -q a && mkdir -p a/tools/hooks && echo x > a/tools/hooks/post-checkout && echo x > a/tools/f; git init -q b && ln -s ../a/tools b/tools; git init -q c && mkdir -p c/tools/hooks; git init -q old; mkdir -p old/tools && ln -s /nowhere old/tools/hooks")
	for path, want := range map[string]bool{"a/tools/hooks": false, "a/tools/f": true, "b/tools": false, "c/tools/hooks": true, "old/tools/hooks": false, "old/f": true} {
		if _, err := os.Lstat(y.work + "/" + path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if kept, _ := filepath.Glob(y.work + "/*/tools*/hooks.kept-*"); len(kept) < 2 {
		t.Errorf("kept: %q", kept)
	}
}
