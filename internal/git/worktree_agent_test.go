package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

// rival is a branch called side of the repository that changes main.go and adds a file.
func rival(t *testing.T, repo string) string {
	t.Helper()
	user(t, repo, "switch", "-q", "-c", "side")
	write(t, repo+"/main.go", "package main // of the side\n")
	write(t, repo+"/side", "1\n")
	user(t, repo, "add", "-A")
	user(t, repo, "commit", "-qm", "side")
	user(t, repo, "switch", "-q", "main")
	return user(t, repo, "rev-parse", "side")
}

// fails runs git as an agent whose command is expected to fail.
func fails(t *testing.T, dir string, args ...string) {
	t.Helper()
	a := &agent{T: t, dir: dir}
	a.git(args...)
}

func TestCommitConcludesAMerge(t *testing.T) {
	w, trunk := made(t)
	side := rival(t, trunk.Root)
	write(t, w.Path+"/main.go", "package main // mine\n")
	mine, err := w.Commit(t.Context(), "mine")
	if err != nil {
		t.Fatal(err)
	}
	fails(t, w.Path, "merge", "-q", "side")
	_, err = w.Commit(t.Context(), "merge")
	refuses(t, err, td.Conflict, "not merged", `"main.go"`)
	_, err = w.Rebase(t.Context(), side, "")
	refuses(t, err, td.Conflict, "a merge")
	user(t, w.Path, "add", "-A") // as it is, marks and all
	_, err = w.Commit(t.Context(), "merge")
	refuses(t, err, td.Conflict, "marks", `"main.go"`)
	write(t, w.Path+"/main.go", "package main // both\n")
	commit, err := w.Commit(t.Context(), "merge")
	if err != nil {
		t.Fatal(err)
	}
	if got := user(t, w.Path, "log", "-1", "--format=%s %P"); got != "merge "+mine+" "+side {
		t.Errorf("%s", got)
	}
	if got := user(t, w.Path, "status"); strings.Contains(got, "merg") || !strings.Contains(got, "clean") {
		t.Error(got)
	}
	if again, err := w.Commit(t.Context(), "again"); err != nil || again != commit {
		t.Errorf("%s, %v", again, err)
	}
}

// Lines that only look like marks are text like any other.
func TestTextThatLooksLikeAConflict(t *testing.T) {
	w, _ := made(t)
	write(t, w.Path+"/doc.md", "Heading\n=======\n\n<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n")
	if _, err := w.Commit(t.Context(), "doc"); err != nil {
		t.Error(err)
	}
}

func TestWorktreeThatLeftItsBranch(t *testing.T) {
	w, trunk := made(t)
	write(t, w.Path+"/new", "1\n")
	user(t, w.Path, "switch", "-q", "-c", "another")
	looks(t, w, Foreign)
	_, err := w.Commit(t.Context(), "m")
	refuses(t, err, td.Conflict, "another", "taskdaemon task send t-4k7q2m9x")
	refuses(t, w.Remove(t.Context(), trunk.Commit, nil), td.Refused, "another")
	user(t, w.Path, "switch", "-q", "--detach")
	looks(t, w, Good)
	_, err = w.Commit(t.Context(), "m")
	refuses(t, err, td.Conflict, "detached", "taskdaemon task send t-4k7q2m9x")
	refuses(t, w.Remove(t.Context(), trunk.Commit, nil), td.Refused, "detached")
	user(t, w.Path, "switch", "-q", w.Branch)
	if _, err := w.Commit(t.Context(), "m"); err != nil {
		t.Error(err)
	}
}

// An agent that is in the midst of a rebase of its own is told so, and nothing of it is thrown away.
func TestAgentsOwnRebase(t *testing.T) {
	w, trunk := made(t)
	side := rival(t, trunk.Root)
	write(t, w.Path+"/main.go", "package main // mine\n")
	if _, err := w.Commit(t.Context(), "mine"); err != nil {
		t.Fatal(err)
	}
	fails(t, w.Path, "rebase", "-q", "side")
	looks(t, w, Good)
	before := picture(t, w.Path)
	_, err := w.Commit(t.Context(), "m")
	refuses(t, err, td.Conflict, "a rebase", "taskdaemon task send t-4k7q2m9x")
	_, err = w.Rebase(t.Context(), side, "")
	refuses(t, err, td.Conflict, "a rebase")
	_, err = w.Keep(t.Context(), runKept)
	refuses(t, err, td.Conflict, "a rebase")
	refuses(t, w.Remove(t.Context(), side, nil), td.Refused)
	sameLines(t, picture(t, w.Path), before)
}

func TestRepositoryInAWorktree(t *testing.T) {
	w, trunk := made(t)
	user(t, w.Path, "init", "-q", "inner")
	write(t, w.Path+"/inner/file", "1")
	for range 2 {
		_, err := w.Commit(t.Context(), "m")
		refuses(t, err, td.Conflict, "inner", "repository of its own")
		_, err = w.Keep(t.Context(), runKept)
		refuses(t, err, td.Conflict, "inner")
		refuses(t, w.Remove(t.Context(), trunk.Commit, nil), td.Refused, "inner")
		user(t, w.Path+"/inner", "add", "-A")
		user(t, w.Path+"/inner", "commit", "-q", "--allow-empty", "-m", "inner")
	}
	if err := os.RemoveAll(w.Path + "/inner/.git"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(t.Context(), "m"); err != nil {
		t.Error(err)
	}
}

func TestRebaseOfOddHistories(t *testing.T) {
	onward := func(t *testing.T, repo string) string {
		write(t, repo+"/onward", "1\n")
		user(t, repo, "add", "-A")
		user(t, repo, "commit", "-qm", "onward")
		return user(t, repo, "rev-parse", "HEAD")
	}
	rebase := func(t *testing.T, w Worktree, onto string) Rebased {
		t.Helper()
		got, err := w.Rebase(t.Context(), onto, "")
		if err != nil || len(got.Conflicts) > 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		if out := user(t, w.Path, "status", "--porcelain"); out != "" {
			t.Errorf("status %q", out)
		}
		return got
	}
	t.Run("no commit of its own", func(t *testing.T) {
		w, trunk := made(t)
		onto := onward(t, trunk.Root)
		if got := rebase(t, w, onto); got.Head != onto {
			t.Errorf("%+v", got)
		}
	})
	t.Run("changes that are not committed", func(t *testing.T) {
		w, trunk := made(t)
		onward(t, trunk.Root)
		write(t, w.Path+"/new file", "1\n")
		_, err := w.Rebase(t.Context(), "main", "")
		refuses(t, err, td.Refused, "new file")
	})
	t.Run("a commit that is there already", func(t *testing.T) {
		w, trunk := made(t)
		write(t, w.Path+"/fix", "1\n")
		fix, err := w.Commit(t.Context(), "fix")
		if err != nil {
			t.Fatal(err)
		}
		user(t, w.Path, "-c", "user.name=A", "commit", "-q", "--allow-empty", "-m", "meant to be empty")
		onward(t, trunk.Root)
		user(t, trunk.Root, "cherry-pick", fix)
		rebase(t, w, "main")
		if got := user(t, w.Path, "log", "--format=%s"); got != "meant to be empty\nfix\nonward\nfirst" {
			t.Error(got)
		}
	})
	t.Run("merges of its own", func(t *testing.T) {
		w, trunk := made(t)
		side := rival(t, trunk.Root)
		write(t, w.Path+"/main.go", "package main // mine\n")
		if _, err := w.Commit(t.Context(), "mine"); err != nil {
			t.Fatal(err)
		}
		fails(t, w.Path, "merge", "-q", "side")
		write(t, w.Path+"/main.go", "package main // both\n")
		user(t, w.Path, "add", "-A")
		head, err := w.Commit(t.Context(), "merge")
		if err != nil {
			t.Fatal(err)
		}
		onto := onward(t, trunk.Root)
		got := rebase(t, w, onto)
		if parents := user(t, w.Path, "log", "-1", "--format=%P", got.Head); parents != head+" "+onto {
			t.Errorf("parents %s", parents)
		}
		if raw, _ := os.ReadFile(w.Path + "/main.go"); string(raw) != "package main // both\n" {
			t.Errorf("main.go holds %q", raw)
		}
		if in, err := IsAncestor(t.Context(), w.Repo, side, got.Head); err != nil || !in {
			t.Errorf("%v, %v", in, err)
		}
	})
	t.Run("no history in common", func(t *testing.T) {
		w, trunk := made(t)
		user(t, trunk.Root, "switch", "-q", "--orphan", "orphan")
		user(t, trunk.Root, "commit", "-q", "--allow-empty", "-m", "orphan")
		_, err := w.Rebase(t.Context(), "orphan", "")
		refuses(t, err, td.Conflict, "no history in common")
		_, err = MergeTree(t.Context(), w.Repo, "main", "orphan")
		refuses(t, err, td.Conflict)
	})
	t.Run("an ignored file where a new one comes", func(t *testing.T) {
		w, trunk := made(t)
		write(t, w.Path+"/lib.o", "built here")
		write(t, trunk.Root+"/lib.o", "tracked")
		user(t, trunk.Root, "add", "-f", "lib.o")
		user(t, trunk.Root, "commit", "-qm", "lib")
		_, err := w.Rebase(t.Context(), "main", "")
		refuses(t, err, td.Refused, "lib.o")
		if raw, _ := os.ReadFile(w.Path + "/lib.o"); string(raw) != "built here" {
			t.Errorf("lib.o holds %q", raw)
		}
		noLeftovers(t, trunk.Root)
	})
	t.Run("a binary file on both sides", func(t *testing.T) {
		w, trunk := made(t)
		write(t, w.Path+"/blob", "\x00mine")
		if _, err := w.Commit(t.Context(), "blob"); err != nil {
			t.Fatal(err)
		}
		write(t, trunk.Root+"/blob", "\x00theirs")
		onward(t, trunk.Root)
		if got, err := w.Rebase(t.Context(), "main", ""); err != nil || len(got.Conflicts) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("settings that rebase otherwise", func(t *testing.T) {
		w, trunk := made(t)
		for _, s := range [][2]string{
			{"rebase.autoStash", "true"}, {"rebase.updateRefs", "true"}, {"commit.gpgSign", "true"}, {"merge.conflictStyle", "diff3"},
			{"core.autocrlf", "input"}, {"core.sparseCheckout", "true"}, {"status.showUntrackedFiles", "no"}, {"core.splitIndex", "true"},
			{"core.untrackedCache", "true"}, {"i18n.commitEncoding", "latin1"}, {"commit.template", "/none"}, {"worktree.useRelativePaths", "true"},
		} {
			user(t, trunk.Root, "config", s[0], s[1])
		}
		write(t, w.Path+"/new", "1\n")
		if _, err := w.Commit(t.Context(), "ünï\n"); err != nil {
			t.Fatal(err)
		}
		write(t, trunk.Root+"/onward", "1\n")
		user(t, trunk.Root, "add", "-A")
		user(t, trunk.Root, "-c", "commit.gpgSign=false", "-c", "commit.template=", "commit", "-qm", "onward")
		rebase(t, w, "main")
		if got := user(t, w.Path, "log", "-1", "--format=%s", "--encoding=UTF-8"); got != "ünï" {
			t.Error(got)
		}
	})
}

// Whatever the settings of a repository name to merge files with, none of it runs: they are merged as text.
func TestMergeDriversDoNotRun(t *testing.T) {
	w, trunk := made(t)
	mark := filepath.Join(t.TempDir(), "ran")
	user(t, trunk.Root, "config", "merge.trap.driver", "touch "+mark)
	user(t, trunk.Root, "config", "filter.trap.clean", "touch "+mark+"; cat")
	user(t, trunk.Root, "config", "filter.trap.smudge", "touch "+mark+"; cat")
	user(t, trunk.Root, "config", "diff.trap.textconv", "touch "+mark+"; cat")
	write(t, trunk.Root+"/.git/info/attributes", "* merge=trap filter=trap diff=trap\n")
	write(t, w.Path+"/main.go", "package main\n\n// a\n// b\n// c\n// d\n// mine\n")
	_, err := w.Commit(t.Context(), "mine")
	refuses(t, err, td.Refused, "goes through a filter")
	write(t, trunk.Root+"/.git/info/attributes", "* merge=trap diff=trap\n")
	if _, err := w.Commit(t.Context(), "mine"); err != nil {
		t.Fatal(err)
	}
	to, err := w.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := FastForward(t.Context(), trunk.Root, "main", to, nil); err != nil {
		t.Fatal(err)
	}
	one, other := w, w
	one.Path, one.Branch = trunk.Root+"/.worktrees/t-1", BranchName("t-1", "")
	other.Path, other.Branch = trunk.Root+"/.worktrees/t-2", BranchName("t-2", "")
	for w, text := range map[Worktree]string{
		one:   "package main // one\n\n// a\n// b\n// c\n// d\n// mine\n",
		other: "package main\n\n// a\n// b\n// c\n// d\n// other\n",
	} {
		if err := w.Make(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		write(t, w.Path+"/main.go", text)
		if _, err := w.Commit(t.Context(), "text"); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := one.Rebase(t.Context(), other.Branch, ""); err != nil || len(got.Conflicts) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if raw, _ := os.ReadFile(one.Path + "/main.go"); string(raw) != "package main // one\n\n// a\n// b\n// c\n// d\n// other\n" {
		t.Errorf("main.go holds %q", raw)
	}
	if _, err := os.Lstat(mark); err == nil {
		t.Error("a command of the settings ran")
	}
}

// A .git file that leads elsewhere is not believed.
func TestWorktreeThatLeadsElsewhere(t *testing.T) {
	w, trunk := made(t)
	evil := checkout(t)
	write(t, w.Path+"/.git", "gitdir: "+evil+"/.git\n")
	looks(t, w, Foreign)
	_, err := w.Commit(t.Context(), "m")
	refuses(t, err, td.Conflict, w.Path)
	refuses(t, w.Remove(t.Context(), trunk.Commit, nil), td.Conflict, w.Path)
	if got := user(t, evil, "log", "--format=%s"); got != "first" {
		t.Error(got)
	}
}

// A task can write the logs of its branch, and put a link there. git of ours writes nothing through it.
func TestLogsThatAreLinks(t *testing.T) {
	w, trunk := made(t)
	dot := trunk.Root + "/.git"
	targets := []string{dot + "/commondir", dot + "/config.worktree", dot + "/hooks/post-commit"}
	for i, log := range []string{dot + "/logs/refs/heads/" + w.Branch, dot + "/worktrees/" + filepath.Base(w.Path) + "/logs/HEAD"} {
		if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(log)
		if err := os.Symlink(targets[i], log); err != nil {
			t.Fatal(err)
		}
	}
	write(t, w.Path+"/new", "1\n")
	commit, err := w.Commit(t.Context(), "mine")
	if err != nil {
		t.Fatal(err)
	}
	if at := user(t, trunk.Root, "rev-parse", w.Branch); at != commit {
		t.Errorf("the branch is at %s", at)
	}
	for _, path := range targets {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s was written", path)
		}
	}
}

// What commands of a task put into what git keeps of its checkout leads no git of ours elsewhere: nothing is read, written or removed there.
func TestLinksInWhatGitKeeps(t *testing.T) {
	dir := checkout(t)
	w := Worktree{Repo: dir, Path: dir + "/.worktrees/t-1", Branch: BranchName("t-1", "")}
	if err := w.Make(t.Context(), "main"); err != nil {
		t.Fatal(err)
	}
	admin := user(t, w.Path, "rev-parse", "--absolute-git-dir")
	outside := t.TempDir()
	write(t, outside+"/secret", "DIRC secret")
	write(t, outside+"/todo", "theirs")
	theirs, err := os.ReadFile(dir + "/.git/index")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(admin + "/index")
	if err != nil {
		t.Fatal(err)
	}
	link := func(to, name string) {
		t.Helper()
		_ = os.RemoveAll(admin + "/" + name)
		if err := os.Symlink(to, admin+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	write(t, w.Path+"/new.txt", "new\n")
	for _, to := range []string{outside + "/secret", dir + "/.git/index", dir + "/.git/commondir"} {
		link(to, "index")
		if _, err := w.Commit(t.Context(), "m"); err == nil {
			t.Errorf("a commit with an index that leads to %s", to)
		}
		// A git that comes past the look, as one that was started before the link was there.
		p := &place{repo: dir, top: w.Path, git: admin, common: dir + "/.git", ref: "refs/heads/" + w.Branch}
		at := siteOf(p.call(true, "update-index"))
		at.refuse = nil
		if _, err := runIn(t.Context(), p.call(true, "update-index", "--add", "new.txt"), at); err == nil {
			t.Errorf("an index was written through a link to %s", to)
		}
	}
	_ = os.Remove(admin + "/index")
	write(t, admin+"/index", string(own))
	link(outside, "sequencer")
	_, err = w.Commit(t.Context(), "m")
	_ = os.Remove(admin + "/sequencer")
	if err != nil {
		if _, err = w.Commit(t.Context(), "m"); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"secret", "todo"} {
		if _, err := os.Stat(outside + "/" + name); err != nil {
			t.Error(err)
		}
	}
	if now, err := os.ReadFile(dir + "/.git/index"); err != nil || string(now) != string(theirs) {
		t.Errorf("the person's index was changed, %v", err)
	}
	if _, err := os.Lstat(dir + "/.git/commondir"); err == nil {
		t.Error("a commondir was made")
	}
	found := user(t, dir, "ls-tree", "--name-only", w.Branch)
	if !strings.Contains(found, "new.txt") {
		t.Errorf("the branch has %s", found)
	}
}
