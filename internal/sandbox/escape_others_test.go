package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hostileToOthers reaches for what other processes of the same user have that is no file: limits, memory, terminals.
func hostileToOthers(t *testing.T) {
	y := newYard(t)
	for _, files := range []Files{WorkspaceWrite, ReadOnly} {
		y.p.Files = files
		limited := exec.Command("sleep", "60")
		if err := limited.Start(); err != nil {
			t.Fatal(err)
		}
		y.works("prlimit --nofile > /dev/null && ulimit -n 64") // its own
		y.fails(fmt.Sprintf("prlimit --pid %d --nofile=7", limited.Process.Pid))
		y.fails(fmt.Sprintf("prlimit --pid %d --nofile", limited.Process.Pid))
		_ = limited.Process.Kill()
		_ = limited.Wait()

		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
		if err != nil {
			t.Fatal(err)
		}
		if out := y.run("ipcs -m").Head; strings.Contains(string(out), strconv.Itoa(id)) {
			t.Errorf("memory of another process is seen: %s", out)
		}
		y.fails(fmt.Sprintf("ipcrm -m %d", id))
		if _, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil); err != nil {
			t.Errorf("the memory is gone: %v", err)
		}

		master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
		if err == nil {
			err = unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		y.fails(fmt.Sprintf("echo x > /dev/pts/%d", n))
		y.fails(fmt.Sprintf("stty -F /dev/pts/%d -echo", n))
		_ = unix.Close(master)
	}
	// It has terminals of its own.
	y.works("python3 -c 'import pty, os; m, s = pty.openpty(); os.write(s, b\"x\"); assert os.read(m, 1) == b\"x\"' || ! command -v python3")
}

// hostileToGitFolders has commands exchange folders of git while other commands begin and end.
func hostileToGitFolders(t *testing.T) {
	t.Run("a link in the place of what was looked at", func(t *testing.T) {
		y := gitYard(t)
		y.put(y.out+"/docs/thesis", "years of work")
		y.put(y.out+"/config", "another's")
		y.git("init", "-q", "sub")
		y.put(y.work+"/sub/.git/odd", "noted before")
		repos := y.p.repositories(searchRepos(y.p.Workspace, y.p.Seal, nil))
		defer closeRepositories(repos)
		spool := t.TempDir()
		if err := create(spool, startedFile); err != nil {
			t.Fatal(err)
		}
		y.put(y.work+"/sub/.git/new", "made by the command")
		if err := os.Rename(y.work+"/sub/.git", y.work+"/sub/old"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(y.out, y.work+"/sub/.git"); err != nil {
			t.Fatal(err)
		}
		since, _ := startOf(spool)
		(&cell{repos: repos}).tidy(y.p, since, newEffort(disarmFor))
		for _, name := range []string{"file", "docs/thesis", "config"} {
			if _, err := os.Stat(y.out + "/" + name); err != nil {
				t.Errorf("it was removed: %v", err)
			}
		}
		if _, err := os.Stat(y.work + "/sub/old/new"); err == nil {
			t.Error("the folder that was looked at is not tidied")
		}
		entries, _ := os.ReadDir(y.out)
		if len(entries) != 3 {
			t.Errorf("something was put there: %v", entries)
		}
	})
	t.Run("mounts that fail", func(t *testing.T) {
		y := gitYard(t)
		y.p.Required = false
		over, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				name := fmt.Sprintf("%s/.git/zz%d", y.work, i%40)
				_ = os.WriteFile(name, nil, 0o600)
				_ = os.Remove(name)
			}
		}()
		refused := 0
		for range 12 {
			p, err := y.s.Start(t.Context(), y.next(), y.command("chmod 777 "+y.out+"/file; echo x >> .git/config"))
			if err != nil {
				refused++
				continue
			}
			if res := wait(t, p); res.Exit == 0 {
				t.Errorf("settings of git were written: %s", res.Head)
			}
		}
		close(over)
		<-done
		if info, err := os.Stat(y.out + "/file"); err != nil || info.Mode().Perm() == 0o777 {
			t.Errorf("a file outside was changed: %v, %v", info.Mode(), err)
		}
		t.Logf("%d of 12 were refused", refused)
	})
	t.Run("another folder for git", func(t *testing.T) {
		y := gitYard(t)
		for name, script := range map[string]string{
			".git/commondir":       "echo ../evil > .git/commondir; sleep 60",
			".git/config.worktree": "printf '[core]\\nfsmonitor = ./x\\n' > .git/config.worktree; sleep 60",
		} {
			begun := time.Now()
			res := y.run(script)
			if res.Limit == "" || !strings.Contains(res.Limit, name) || time.Since(begun) > 45*time.Second {
				t.Errorf("%s: it was let run: %+v", script, res)
			}
			if _, err := os.Lstat(filepath.Join(y.work, name)); err == nil {
				t.Errorf("%s is there", name)
			}
		}
		y.run("mkdir .git/rebase-merge; cd .git/rebase-merge; git rev-parse HEAD | tee onto orig-head; echo refs/heads/main > head-name; : > interactive; printf 'exec sh evil\\nx\\tsh evil\\npick HEAD\\n' | tee git-rebase-todo")
		if raw, err := os.ReadFile(y.work + "/.git/rebase-merge/git-rebase-todo"); err != nil || string(raw) != "pick HEAD\n" {
			t.Errorf("the plan of a rebase: %q, %v", raw, err)
		}
		_ = os.RemoveAll(y.work + "/.git/rebase-merge")
		y.works("echo y > g && git add g && git -c user.name=a -c user.email=a@b commit -qm g && git gc -q")
	})
	t.Run("a worktree of another's repository", func(t *testing.T) {
		y := newHome(t)
		other := y.home + "/other"
		for _, args := range [][]string{{"init", "-q", other}, {"-C", other, "config", "http.extraheader", "token-of-another"}} {
			if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v", out, err)
			}
		}
		// It came like that, or a job is making it: what a command leaves is disarmed.
		for name, text := range map[string]string{".git": "gitdir: " + y.work + "/w", "w/gitdir": y.work + "/.git", "w/commondir": other + "/.git", "w/HEAD": "ref: refs/heads/main"} {
			y.put(y.work+"/"+name, text+"\n")
		}
		if out := y.fails("cat " + other + "/.git/config"); strings.Contains(out, "token-of-another") {
			t.Errorf("it was read: %s", out)
		}
		y.fails("echo x > " + other + "/.git/refs/heads/main")
		// One that lies wholly in the workspace, with a link where git writes.
		y = newHome(t)
		y.run("mkdir -p fake/worktrees/x fake/objects fake/refs && echo gitdir: $PWD/fake/worktrees/x > .git && echo $PWD/.git > fake/worktrees/x/gitdir && echo ../.. > fake/worktrees/x/commondir && echo 'ref: refs/heads/main' > fake/worktrees/x/HEAD && ln -s " + y.home + " fake/logs")
		y.put(y.home+"/private/diary", "dear diary")
		if out := y.fails("cat " + y.home + "/private/diary"); strings.Contains(out, "dear") {
			t.Errorf("it was read: %s", out)
		}
		y.fails("echo x > " + y.home + "/planted")
		// Objects that are lent by whatever the workspace says.
		y = newHome(t)
		y.put(y.home+"/private/diary", "dear diary")
		y.run("git init -q .; mkdir -p .git/objects/info; echo " + y.home + "/private > .git/objects/info/alternates")
		y.put(y.work+"/.git/objects/info/alternates", y.home+"/private\n")
		if out := y.fails("cat " + y.home + "/private/diary"); strings.Contains(out, "dear") {
			t.Errorf("it was read: %s", out)
		}
	})
	t.Run("what a person does meanwhile", func(t *testing.T) {
		y := gitYard(t)
		y.put(y.work+"/d1/f", "1")
		y.git("add", ".")
		y.git("commit", "-qm", "d1")
		p := start(t, y.s, y.next(), y.command("echo begun > begun; for i in $(seq 100); do test -e .git/config.worktree && break; sleep 0.05; done; sleep 0.3"))
		eventually(t, "it runs", func() bool { return fileExists(y.work + "/begun") })
		y.git("sparse-checkout", "set", "d1")
		if res := wait(t, p); res.Exit != 0 || res.Limit != "" {
			t.Errorf("a command that did nothing was ended: %+v", res)
		}
		if out := y.git("sparse-checkout", "list"); !strings.Contains(out, "d1") {
			t.Errorf("the person's settings are gone: %s", out)
		}
	})
	t.Run("folders that cannot be watched", func(t *testing.T) {
		y := gitYard(t)
		repos := y.p.repositories(searchRepos(y.p.Workspace, y.p.Seal, nil))
		defer closeRepositories(repos)
		w := newWatch(repos[:1])
		w.wg.Go(w.poll)
		defer w.close()
		for i := range 2000 { // to remove it takes its time
			y.put(fmt.Sprintf("%s/.git/refs/big/%d", y.work, i), "")
		}
		if err := os.Rename(y.work+"/.git/refs/big", y.work+"/.git/commondir"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-w.caughtBy():
		case <-time.After(time.Minute):
			t.Error("it was not seen")
		}
		eventually(t, "it is gone", func() bool { return !fileExists(y.work + "/.git/commondir") })
	})
	t.Run("a name that was taken", func(t *testing.T) {
		y := gitYard(t)
		y.run("for i in 0 1 2 3; do touch .git/" + asidePrefix + "$i; done; mkdir .git/commondir; sleep 5")
		if fileExists(y.work + "/.git/commondir") {
			t.Error("commondir stays")
		}
		repos := y.p.repositories(searchRepos(y.p.Workspace, y.p.Seal, nil))
		defer closeRepositories(repos)
		w := newWatch(repos[:1])
		for i := range 4 {
			y.put(fmt.Sprintf("%s/.git/%s%d", y.work, asidePrefix, i), "")
		}
		y.put(y.work+"/.git/commondir", "/elsewhere\n")
		w.look()
		if fileExists(y.work + "/.git/commondir") {
			t.Error("it does not go at once")
		}
	})
	t.Run("a pipe for a list", func(t *testing.T) {
		y := newYard(t)
		y.run("mkdir -p .git/objects/info && mkfifo .git/objects/info/alternates")
		if got := y.p.lenders(); len(got) > 0 {
			t.Errorf("it borrows from %v", got)
		}
		y.works("echo still works")
	})
	t.Run("modules without end", func(t *testing.T) {
		y := gitYard(t)
		for i := range nestedFolders + 500 {
			if err := os.MkdirAll(fmt.Sprintf("%s/.git/modules/%d", y.work, i), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		plan := planGit(y.work, false, false)
		defer closeRepositories([]repository{{plan: plan}})
		if plan.looked > nestedFolders+1 {
			t.Errorf("%d folders were looked at", plan.looked)
		}
	})
	t.Run("a repository of the command's own", func(t *testing.T) {
		y := gitYard(t)
		ran := y.out + "/ran"
		trap := y.work + "/trap"
		y.put(trap, "#!/bin/sh\necho x > "+ran+"\n")
		if err := os.Chmod(trap, 0o755); err != nil {
			t.Fatal(err)
		}
		const make = "mkdir -p $1 && cd $1 && git init -q . && echo s > s && git add s && git -c user.name=a -c user.email=a@b commit -qm s; "
		for name, script := range map[string]string{
			"settings":  make + "git config core.fsmonitor " + trap,
			"include":   make + "printf '[core]\\nfsmonitor = " + trap + "\\n' > more && git config include.path ../more",
			"odd":       make + "printf '[core]fsmonitor=" + trap + "\\n[user]name=\\\\q\\n' >> .git/config",
			"worktree":  make + "git config extensions.worktreeConfig true && git config --worktree core.fsmonitor " + trap,
			"hooks":     make + "cp " + trap + " .git/hooks/post-index-change; cp " + trap + " .git/hooks/fsmonitor-watchman; git config core.hooksPath " + y.work,
			"elsewhere": make + "git config core.fsmonitor " + trap + "; mv .git ../moved; echo gitdir: ../moved > .git",
			"spaced":    make + "git config core.fsmonitor " + trap + "; mv .git '../moved '; printf 'gitdir: ../moved \\n' > .git",
			"led":       make + "git config core.fsmonitor " + trap + "; mv .git '../ moved'; printf 'gitdir:  moved\\n' > .git; mv '../ moved' .",
			"temporary": make + "git config core.fsmonitor " + trap + "; t=$(awk -v d=$TMPDIR '$5==d {r=$4} END {print r}' /proc/self/mountinfo); mv .git $TMPDIR/moved; echo gitdir: $t/moved > .git",
			"common":    make + "cp -r .git ../common; git -C .. config -f common/config core.fsmonitor " + trap + "; echo ../../common > .git/commondir",
		} {
			y.run("set -- nested-" + name + "; " + script + "; cd " + y.work + "; git add nested-" + name + " 2>/dev/null; true")
			cmd := exec.Command("sh", "-c", "git status; cd nested-"+name+" && git status && git add -A && git diff")
			cmd.Dir = y.work
			out, _ := cmd.CombinedOutput()
			if fileExists(ran) {
				t.Errorf("%s: the person's git ran it: %s", name, out)
				_ = os.Remove(ran)
			}
			_ = os.RemoveAll(y.work + "/moved")
			_ = os.RemoveAll(y.work + "/moved ")
			_ = os.RemoveAll(y.work + "/common")
		}
		y.run("git init -q super && cd super && git init -q --bare .git/modules/deep/er && git -C .git/modules/deep/er config core.sshCommand " + trap + " && mkdir .git/modules/deep/er/hooks; cp " + trap + " .git/modules/deep/er/hooks/post-checkout")
		if raw, err := os.ReadFile(y.work + "/super/.git/modules/deep/er/config"); err != nil || strings.Contains(string(raw), "trap") || fileExists(y.work+"/super/.git/modules/deep/er/hooks/post-checkout") {
			t.Errorf("a submodule that is checked out nowhere: %s, %v", raw, err)
		}
		bare := newYard(t) // a workspace that is no repository, yet
		bare.run("git init -q . && git config core.fsmonitor 'echo x > " + ran + "; false'")
		status := exec.Command("git", "status")
		status.Dir = bare.work
		if out, err := status.CombinedOutput(); err != nil || fileExists(ran) {
			t.Errorf("the workspace itself: %v, %s", err, out)
		}
		// What is no such file leads nowhere, and the folder around it is nobody's but the command's.
		for i, text := range []string{"", "gitdir:there", "notes", "gitdir: "} {
			odd := fmt.Sprintf("odd%d", i)
			y.works("mkdir -p " + odd + "/hooks " + odd + "/modules/x && cd " + odd + " && echo mine | tee config hooks/run modules/x/HEAD && printf '" + text + "' > .git")
			for _, name := range []string{"config", "hooks/run", "modules/x/HEAD"} {
				if raw, err := os.ReadFile(filepath.Join(y.work, odd, name)); err != nil || string(raw) != "mine\n" {
					t.Errorf("with %q for a .git, %s holds %q, %v", text, name, raw, err)
				}
			}
		}
		y.works("git init -q plain && cd plain && git config user.name a && git config user.email a@b && echo x > x && git add x && git commit -qm x && git remote add up ../upstream && git log -1 --format=%an | grep a")
		if out, err := exec.Command("git", "-C", y.work+"/plain", "config", "--get", "remote.up.url").CombinedOutput(); err != nil || !strings.Contains(string(out), "../upstream") {
			t.Errorf("plain settings are gone: %s, %v", out, err)
		}
	})
	t.Run("another folder for the workspace", func(t *testing.T) {
		y := newYard(t)
		sub, zone := y.work+"/sub", y.out+"/zone"
		for _, dir := range []string{sub, zone} {
			if err := os.Mkdir(dir, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(zone, y.work+"/link"); err != nil {
			t.Fatal(err)
		}
		over, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-over:
					return
				default:
				}
				_ = unix.Renameat2(unix.AT_FDCWD, sub, unix.AT_FDCWD, y.work+"/link", unix.RENAME_EXCHANGE)
				time.Sleep(200 * time.Microsecond)
			}
		}()
		y.p.Workspace = sub
		for range 25 {
			cmd := y.command("echo x > planted")
			cmd.Dir = sub
			if p, err := y.s.Start(t.Context(), y.next(), cmd); err == nil {
				wait(t, p)
			}
		}
		close(over)
		<-done
		if entries, _ := os.ReadDir(zone); len(entries) > 0 {
			t.Errorf("outside of the workspace was written: %v", entries)
		}
	})
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
