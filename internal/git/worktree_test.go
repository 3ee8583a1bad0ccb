package git

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// sketch is a worktree of a new repository that has not been made yet.
func sketch(t *testing.T) (Worktree, Trunk) {
	t.Helper()
	trunk, err := TrunkOf(t.Context(), checkout(t))
	if err != nil {
		t.Fatal(err)
	}
	return Worktree{Repo: trunk.Root, Path: trunk.Root + "/.worktrees/t-4k7q2m9x", Branch: BranchName("t-4k7q2m9x", "Mend the roof")}, trunk
}

// made is a worktree of a new repository.
func made(t *testing.T) (Worktree, Trunk) {
	t.Helper()
	w, trunk := sketch(t)
	if err := w.Make(t.Context(), trunk.Commit); err != nil {
		t.Fatal(err)
	}
	return w, trunk
}

// refuses checks that an error is of a kind and says words.
func refuses(t *testing.T, err error, kind td.Kind, words ...string) {
	t.Helper()
	if !td.IsKind(err, kind) {
		t.Errorf("%v is %s, want %s", err, td.KindOf(err), kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error()+" "+td.HintOf(err), w) {
			t.Errorf("%v (%s) does not say %q", err, td.HintOf(err), w)
		}
	}
}

func looks(t *testing.T, w Worktree, want Condition) {
	t.Helper()
	if got, err := w.Look(t.Context()); err != nil || got != want {
		t.Errorf("it is %q, %v, want %q", got, err, want)
	}
}

// noLeftovers fails unless making and removing has left nothing behind.
func noLeftovers(t *testing.T, repo string) {
	t.Helper()
	for _, pattern := range []string{"/.worktrees/.making", "/.worktrees/.removing"} {
		if left, _ := filepath.Glob(repo + pattern); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	if out := user(t, repo, "for-each-ref", "refs/taskdaemon/moving-from", "refs/taskdaemon/moving-to"); out != "" {
		t.Errorf("left behind: %s", out)
	}
	if out := user(t, repo, "status", "--porcelain"); out != "" {
		t.Errorf("the user's status is %q", out)
	}
}

func TestWorktreeIsMadeOnItsBranch(t *testing.T) {
	w, trunk := sketch(t)
	looks(t, w, Missing)
	for range 2 { // the second finds it there
		if err := w.Make(t.Context(), trunk.Commit); err != nil {
			t.Fatal(err)
		}
		looks(t, w, Good)
		if got := user(t, w.Path, "symbolic-ref", "--short", "HEAD"); got != w.Branch {
			t.Errorf("on %s", got)
		}
		if got := user(t, w.Path, "status", "--porcelain"); got != "" {
			t.Errorf("status %q", got)
		}
		if head, err := w.Head(t.Context()); err != nil || head != trunk.Commit {
			t.Errorf("head %s, %v", head, err)
		}
		noLeftovers(t, trunk.Root)
		write(t, w.Path+"/main.go", "package main // work\n")
		write(t, w.Path+"/main.go", "package main\n")
	}
	if out := user(t, w.Repo, "worktree", "list", "--porcelain"); strings.Contains(out, "prunable") || !strings.Contains(out, w.Path+"\n") {
		t.Error(out)
	}
	user(t, w.Repo, "worktree", "prune")
	looks(t, w, Good)
	user(t, w.Repo, "fsck", "--strict")
}

// A loss of power soon after takes content of files, but not their times. What somebody has changed since stays.
func TestWorktreeAfterALossOfPower(t *testing.T) {
	w, trunk := made(t)
	admin := linked(w.Path, trunk.Root+"/.git")
	damage := func(name, content string) {
		t.Helper()
		info, err := os.Lstat(w.Path + name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, w.Path+name, content)
		if err := os.Chtimes(w.Path+name, time.Time{}, info.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	damage("/main.go", "")
	damage("/pkg/a.go", strings.Repeat("\x00", len("package pkg\n")))
	write(t, w.Path+"/.gitignore", "")
	write(t, w.Path+"/new", "")
	looks(t, w, Good) // in the same boot nothing of the kind has happened
	const whole = " M .gitignore\n M main.go\n M pkg/a.go\n?? new"
	if got := user(t, w.Path, "status", "--porcelain"); got != whole {
		t.Errorf("status %q", got)
	}
	write(t, admin+"/"+bootFile, "another\n")
	looks(t, w, Good)
	if got := user(t, w.Path, "status", "--porcelain"); got != " M .gitignore\n?? new" {
		t.Errorf("status %q", got)
	}
	damage("/main.go", "") // later than that it is no loss of power
	looks(t, w, Good)
	if got := user(t, w.Path, "status", "--porcelain"); got != " M .gitignore\n M main.go\n?? new" {
		t.Errorf("status %q", got)
	}
}

func TestRemovedByHandIsMadeAgain(t *testing.T) {
	w, trunk := made(t)
	write(t, w.Path+"/new", "work\n")
	commit, err := w.Commit(t.Context(), "work")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(w.Path); err != nil {
		t.Fatal(err)
	}
	looks(t, w, Missing)
	if err := w.Make(t.Context(), trunk.Commit); err != nil {
		t.Fatal(err)
	}
	looks(t, w, Good)
	if head, _ := w.Head(t.Context()); head != commit {
		t.Errorf("head %s, want %s", head, commit)
	}
	if raw, _ := os.ReadFile(w.Path + "/new"); string(raw) != "work\n" {
		t.Errorf("new holds %q", raw)
	}
}

func TestWorktreeIsNotMadeOverOthers(t *testing.T) {
	t.Run("a folder", func(t *testing.T) {
		w, trunk := sketch(t)
		write(t, w.Path+"/mine", "1")
		refuses(t, w.Make(t.Context(), trunk.Commit), td.Conflict, w.Path)
		looks(t, w, Foreign)
	})
	t.Run("a worktree of another branch", func(t *testing.T) {
		w, trunk := sketch(t)
		user(t, trunk.Root, "worktree", "add", "-q", "-b", "mine", w.Path)
		refuses(t, w.Make(t.Context(), trunk.Commit), td.Conflict, "mine", "task show")
		looks(t, w, Foreign)
	})
	t.Run("checked out elsewhere", func(t *testing.T) {
		w, trunk := sketch(t)
		at := t.TempDir() + "/elsewhere"
		user(t, trunk.Root, "worktree", "add", "-q", "-b", w.Branch, at)
		refuses(t, w.Make(t.Context(), trunk.Commit), td.Conflict, at)
		looks(t, w, Missing)
	})
	t.Run("checked out in the main checkout", func(t *testing.T) {
		w, trunk := sketch(t)
		user(t, trunk.Root, "switch", "-q", "-c", w.Branch)
		refuses(t, w.Make(t.Context(), trunk.Commit), td.Conflict, "switch -")
	})
	t.Run("locked while its disk is away", func(t *testing.T) {
		w, trunk := made(t)
		user(t, trunk.Root, "worktree", "lock", w.Path)
		if err := os.Rename(w.Path, t.TempDir()+"/away"); err != nil {
			t.Fatal(err)
		}
		refuses(t, w.Make(t.Context(), trunk.Commit), td.Conflict, "worktree unlock")
	})
	t.Run("a branch where the folder of ours would be", func(t *testing.T) {
		w, trunk := sketch(t)
		user(t, trunk.Root, "branch", "taskdaemon")
		refuses(t, w.Make(t.Context(), trunk.Commit), td.Conflict, "branch -m taskdaemon")
	})
	t.Run("a branch that differs in case", func(t *testing.T) {
		w, trunk := sketch(t)
		user(t, trunk.Root, "branch", strings.ToUpper(w.Branch))
		user(t, trunk.Root, "config", "core.ignoreCase", "true")
		refuses(t, w.Make(t.Context(), trunk.Commit), td.Conflict, strings.ToUpper(w.Branch))
		user(t, trunk.Root, "config", "core.ignoreCase", "false")
		if err := w.Make(t.Context(), trunk.Commit); err != nil {
			t.Error(err)
		}
	})
}

func TestCommitTakesAllButWhatIsIgnored(t *testing.T) {
	w, trunk := made(t)
	write(t, w.Path+"/main.go", "package main // changed\n")
	write(t, w.Path+"/a b/ü\nx.txt", "new\n")
	write(t, w.Path+"/x.o", "ignored")
	if err := os.Remove(w.Path + "/pkg/a.go"); err != nil {
		t.Fatal(err)
	}
	commit, err := w.Commit(t.Context(), "work of an agent\n\nbody\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := user(t, w.Repo, "-c", "core.quotePath=false", "diff", "--name-status", "-z", trunk.Commit, commit); got != "A\x00a b/ü\nx.txt\x00M\x00main.go\x00D\x00pkg/a.go\x00" {
		t.Errorf("%q", got)
	}
	if got := user(t, w.Repo, "log", "-1", "--format=%B%P", commit); got != "work of an agent\n\nbody\n"+trunk.Commit {
		t.Errorf("%q", got)
	}
	if got := user(t, w.Path, "status", "--porcelain"); got != "" {
		t.Errorf("status %q", got)
	}
	if again, err := w.Commit(t.Context(), "nothing"); err != nil || again != commit {
		t.Errorf("%s, %v", again, err)
	}
}

func TestRebasePutsCommitsOnTop(t *testing.T) {
	w, trunk := made(t)
	user(t, trunk.Root, "config", "user.name", "Eve")
	user(t, trunk.Root, "config", "user.email", "eve@example.org")
	write(t, w.Path+"/one", "1\n")
	user(t, w.Path, "add", "-A")
	user(t, w.Path, "commit", "-q", "-m", "one", "--author", "Bob <bob@example.org>")
	write(t, w.Path+"/two", "2\n")
	if _, err := w.Commit(t.Context(), "two"); err != nil {
		t.Fatal(err)
	}
	write(t, trunk.Root+"/main.go", "package main // onward\n")
	user(t, trunk.Root, "commit", "-qam", "onward")
	onto := user(t, trunk.Root, "rev-parse", "HEAD")
	got, err := w.Rebase(t.Context(), "main", "")
	if err != nil || len(got.Conflicts) > 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	if log := user(t, w.Path, "log", "--format=%an %s", "-3"); log != "Eve two\nBob one\nAnn onward" {
		t.Error(log)
	}
	if base := user(t, w.Path, "rev-parse", "HEAD~2"); base != onto || user(t, w.Path, "rev-parse", "HEAD") != got.Head {
		t.Errorf("base %s, want %s", base, onto)
	}
	if got := user(t, w.Path, "status", "--porcelain"); got != "" {
		t.Errorf("status %q", got)
	}
	if again, err := w.Rebase(t.Context(), onto, ""); err != nil || again.Head != got.Head {
		t.Errorf("%+v, %v", again, err)
	}
	noLeftovers(t, trunk.Root)
	user(t, w.Repo, "fsck", "--strict")
}

func TestRebaseInConflictChangesNothing(t *testing.T) {
	w, trunk := made(t)
	write(t, w.Path+"/main.go", "package main // mine\n")
	head, err := w.Commit(t.Context(), "mine")
	if err != nil {
		t.Fatal(err)
	}
	write(t, trunk.Root+"/main.go", "package main // theirs\n")
	user(t, trunk.Root, "commit", "-qam", "theirs")
	got, err := w.Rebase(t.Context(), "main", "")
	if err != nil || got.Head != head || len(got.Conflicts) != 1 || got.Conflicts[0] != "main.go" {
		t.Errorf("%+v, %v", got, err)
	}
	if is := user(t, w.Path, "rev-parse", "HEAD"); is != head || user(t, w.Path, "status", "--porcelain") != "" {
		t.Errorf("at %s", is)
	}
	noLeftovers(t, trunk.Root)
}

func TestFastForwardTakesTheCheckoutAlong(t *testing.T) {
	w, trunk := made(t)
	write(t, w.Path+"/main.go", "package main // work\n")
	write(t, w.Path+"/new", "1\n")
	to, err := w.Commit(t.Context(), "work")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := FastForward(t.Context(), trunk.Root, "main", to, nil); err != nil {
			t.Fatal(err)
		}
		if got := user(t, trunk.Root, "rev-parse", "HEAD"); got != to {
			t.Errorf("at %s", got)
		}
		if raw, _ := os.ReadFile(trunk.Root + "/new"); string(raw) != "1\n" {
			t.Errorf("new holds %q", raw)
		}
		noLeftovers(t, trunk.Root)
	}
	if raw, _ := os.ReadFile(trunk.Root + "/main.o"); string(raw) != "binary" {
		t.Errorf("an ignored file holds %q", raw)
	}
}

func TestKeepRemoveRestore(t *testing.T) {
	w, trunk := made(t)
	write(t, w.Path+"/main.go", "package main // staged\n")
	user(t, w.Path, "add", "-A")
	write(t, w.Path+"/main.go", "package main // and changed\n")
	write(t, w.Path+"/new", "1\n")
	status := user(t, w.Path, "status", "--porcelain")
	refuses(t, w.Remove(t.Context(), trunk.Commit, nil), td.Refused, "main.go", "new")
	kept, err := w.Keep(t.Context(), "refs/taskdaemon/kept/t-4k7q2m9x")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := w.Keep(t.Context(), "refs/taskdaemon/kept/t-4k7q2m9x"); err != nil || again != kept {
		t.Errorf("%s, %v, want %s", again, err, kept)
	}
	write(t, w.Path+"/main.go", "package main // only staged\n")
	user(t, w.Path, "add", "main.go")
	write(t, w.Path+"/main.go", "package main // and changed\n")
	refuses(t, w.Remove(t.Context(), kept, nil), td.Refused, "main.go")
	write(t, w.Path+"/main.go", "package main // staged\n")
	user(t, w.Path, "add", "main.go")
	write(t, w.Path+"/main.go", "package main // and changed\n")
	if err := w.Remove(t.Context(), kept, nil); err != nil {
		t.Fatal(err)
	}
	looks(t, w, Missing)
	if out := user(t, w.Repo, "branch", "--list", "taskdaemon/*"); out != "" {
		t.Errorf("branches %q", out)
	}
	noLeftovers(t, trunk.Root)
	if err := w.Restore(t.Context(), "refs/taskdaemon/kept/t-4k7q2m9x"); err != nil {
		t.Fatal(err)
	}
	looks(t, w, Good)
	if got := user(t, w.Path, "status", "--porcelain"); got != status {
		t.Errorf("status %q, want %q", got, status)
	}
	if got := user(t, w.Path, "show", ":main.go"); got != "package main // staged" {
		t.Errorf("staged %q", got)
	}
}

func TestMergedOneIsRemoved(t *testing.T) {
	w, trunk := made(t)
	write(t, w.Path+"/new", "1\n")
	head, err := w.Commit(t.Context(), "work")
	if err != nil {
		t.Fatal(err)
	}
	refuses(t, w.Remove(t.Context(), head, nil), td.Refused, "retained")
	refuses(t, w.Remove(t.Context(), "main", nil), td.Refused, w.Branch)
	m, err := MergeTree(t.Context(), w.Repo, trunk.Commit, head)
	if err != nil || len(m.Conflicts) > 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	commit, err := CommitTree(t.Context(), w.Repo, m.Tree, "merge\n", trunk.Commit, head)
	if err != nil {
		t.Fatal(err)
	}
	if err := MoveRef(t.Context(), w.Repo, "refs/heads/taskdaemon/into/main", commit, ""); err != nil {
		t.Fatal(err)
	}
	refuses(t, MoveRef(t.Context(), w.Repo, "refs/heads/taskdaemon/into/main", commit, trunk.Commit), td.Conflict)
	write(t, w.Path+"/x.o", "ignored")
	if err := w.Remove(t.Context(), commit, nil); err != nil {
		t.Fatal(err)
	}
	looks(t, w, Missing)
	if err := w.Remove(t.Context(), commit, nil); err != nil { // again
		t.Error(err)
	}
}

func TestMergingIsSeen(t *testing.T) {
	w, trunk := made(t)
	is := func(want bool, when string) {
		t.Helper()
		if got, err := w.Merging(t.Context()); err != nil || got != want {
			t.Errorf("%s: %v, %v", when, got, err)
		}
	}
	is(false, "at first")
	write(t, w.Path+"/main.go", "package main // theirs\n")
	user(t, w.Path, "commit", "-qam", "theirs")
	write(t, trunk.Root+"/main.go", "package main // mine\n")
	user(t, trunk.Root, "commit", "-qam", "mine")
	if err := exec.Command("git", "-C", w.Path, "merge", "-q", trunk.Branch).Run(); err == nil {
		t.Fatal("it does not conflict")
	}
	is(true, "in a merge")
	user(t, w.Path, "merge", "--abort")
	is(false, "after it")
}

// What remembers where a run began goes before its branch, so that one who was killed in between comes back for both; left alone it goes, too.
func TestRemoveForgetsWhereItBegan(t *testing.T) {
	w, trunk := made(t)
	begun := BegunRefs + "t-4k7q2m9x"
	for range 2 { // with a branch, and with nothing but the ref
		user(t, w.Repo, "update-ref", begun, trunk.Commit)
		if err := w.Remove(t.Context(), trunk.Commit, nil); err != nil {
			t.Fatal(err)
		}
		if at, err := RefAt(t.Context(), w.Repo, begun); err != nil || at != "" {
			t.Errorf("%s is left at %q, %v", begun, at, err)
		}
	}
}
