package git

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

// stale makes branches of runs without worktrees, every second with a commit that nothing else leads to.
func stale(t *testing.T, repo string, n int) []string {
	t.Helper()
	tree := user(t, repo, "rev-parse", "HEAD^{tree}")
	var names []string
	for i := range n {
		at := user(t, repo, "rev-parse", "HEAD")
		if i%2 == 1 {
			at = user(t, repo, "commit-tree", "-p", "HEAD", "-m", fmt.Sprintf("work %d", i), tree)
		}
		names = append(names, fmt.Sprintf("taskdaemon/run/t-%08d-old", i))
		user(t, repo, "branch", names[i], at)
	}
	return names
}

func TestBranchesAreRetiredAtOnce(t *testing.T) {
	w, trunk := made(t)
	names := stale(t, trunk.Root, 200)
	alone := user(t, trunk.Root, "rev-parse", names[1])
	if all, err := RunBranches(t.Context(), trunk.Root); err != nil || len(all) != 201 || !all[0].Merged || all[1].Merged {
		t.Fatalf("%d branches, %v", len(all), err)
	}
	done, err := RetireBranches(t.Context(), trunk.Root, append(names, w.Branch, "taskdaemon/run/none"), nil)
	if err != nil || len(done) != 200 {
		t.Fatalf("%d are gone, %v", len(done), err)
	}
	if done[0].Kept != "" || done[1].Kept != KeptBranch(names[1]) {
		t.Errorf("kept %+v", done[:2])
	}
	if at := user(t, trunk.Root, "rev-parse", done[1].Kept); at != alone {
		t.Errorf("%s is kept, want %s", at, alone)
	}
	looks(t, w, Good)
	left, err := RunBranches(t.Context(), trunk.Root)
	if err != nil || len(left) != 1 || left[0].Name != w.Branch {
		t.Errorf("left %+v, %v", left, err)
	}
	kept, err := KeptOf(t.Context(), trunk.Root)
	if err != nil || len(kept) != 100 || kept[0].Commit != alone || kept[0].At.IsZero() {
		t.Errorf("%d kept, %v", len(kept), err)
	}
	// A branch of a name that was kept before takes nothing from that.
	user(t, trunk.Root, "branch", names[1], user(t, trunk.Root, "commit-tree", "-p", "HEAD", "-m", "other work", trunk.Commit+"^{tree}"))
	done, err = RetireBranches(t.Context(), trunk.Root, names, nil)
	if err != nil || len(done) != 1 || !strings.HasPrefix(done[0].Kept, KeptBranch(names[1])+"-") {
		t.Errorf("%+v, %v", done, err)
	}
	if at := user(t, trunk.Root, "rev-parse", KeptBranch(names[1])); at != alone {
		t.Errorf("%s is kept, want %s", at, alone)
	}
}

func TestWorktreeStands(t *testing.T) {
	w, trunk := made(t)
	write(t, w.Path+"/new", "work\n")
	if _, err := w.Commit(t.Context(), "work"); err != nil {
		t.Fatal(err)
	}
	user(t, trunk.Root, "commit", "-q", "--allow-empty", "-m", "by hand")
	user(t, trunk.Root, "commit", "-q", "--allow-empty", "-m", "by hand, too")
	write(t, w.Path+"/other", "more\n")
	got, err := w.Stands(t.Context(), trunk.Branch)
	if want := (Standing{Ahead: 1, Behind: 2, Changed: 1}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if err := os.RemoveAll(w.Path); err != nil {
		t.Fatal(err)
	}
	got, err = w.Stands(t.Context(), "none")
	if err != nil || got != (Standing{}) {
		t.Errorf("%+v, %v, want nothing", got, err)
	}
}

func TestLockedWorktreeStays(t *testing.T) {
	w, trunk := made(t)
	if err := w.Lock(t.Context(), "I look at it"); err != nil {
		t.Fatal(err)
	}
	if why, is, err := w.Locked(t.Context()); err != nil || !is || why != "I look at it" {
		t.Errorf("%q, %v, %v", why, is, err)
	}
	refuses(t, w.Remove(t.Context(), trunk.Commit, nil), td.Refused, "locked")
	if out := user(t, trunk.Root, "worktree", "list", "--porcelain"); !strings.Contains(out, "locked I look at it") {
		t.Error(out)
	}
	if err := w.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Remove(t.Context(), trunk.Commit, nil); err != nil {
		t.Fatal(err)
	}
	if _, is, err := w.Locked(t.Context()); err != nil || is {
		t.Errorf("%v, %v", is, err)
	}
	refuses(t, w.Lock(t.Context(), "too late"), td.NotFound)
}

func TestTidyRemovesWhatWasBeingRemoved(t *testing.T) {
	w, trunk := made(t)
	write(t, w.leaving()+"/file", "proven to be elsewhere\n")
	if err := Tidy(t.Context(), trunk.Root); err != nil {
		t.Fatal(err)
	}
	noLeftovers(t, trunk.Root)
	looks(t, w, Good)
}

// A worktree is made beside its place and moved there, and then its repository is told. Whoever looks in between, while another task's worktree is made or after a kill, finds it
// where it is: it is not forgotten, and its branch not removed.
func TestMovedAndNotTold(t *testing.T) {
	w, trunk := made(t)
	admin := linked(w.Path, trunk.Root+"/.git")
	untell := func() { write(t, admin+"/gitdir", w.draft()+"/.git\n") }
	untell()
	all, err := Worktrees(t.Context(), trunk.Root)
	if err != nil || len(all) != 1 || all[0].Path != w.Path || all[0].Branch != w.Branch || all[0].Head != trunk.Commit || all[0].Condition != Good {
		t.Errorf("%+v, %v", all, err)
	}
	if done, err := RetireBranches(t.Context(), trunk.Root, []string{w.Branch}, nil); err != nil || len(done) > 0 {
		t.Errorf("removed %+v, %v", done, err)
	}
	if err := Tidy(t.Context(), trunk.Root); err != nil {
		t.Fatal(err)
	}
	looks(t, w, Good)
	untell()
	if err := os.RemoveAll(w.Path); err != nil {
		t.Fatal(err)
	}
	if err := Tidy(t.Context(), trunk.Root); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(admin); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that is nowhere is not forgotten: %v", err)
	}
}

// An agent can make a branch of its own a symbolic one. What is removed is that, and not the person's branch that it names; what is moved, too.
func TestSymbolicBranches(t *testing.T) {
	_, trunk := made(t)
	root, name := trunk.Root, "taskdaemon/run/t-00000009-old"
	user(t, root, "branch", "precious", user(t, root, "commit-tree", "-p", "HEAD", "-m", "precious", trunk.Commit+"^{tree}"))
	precious := user(t, root, "rev-parse", "precious")
	for _, target := range []string{"main", "precious"} {
		at := user(t, root, "rev-parse", target)
		user(t, root, "symbolic-ref", "refs/heads/"+name, "refs/heads/"+target)
		if done, err := RetireBranches(t.Context(), root, []string{name}, nil); err != nil || len(done) != 1 {
			t.Fatalf("%+v, %v", done, err)
		}
		if now := user(t, root, "rev-parse", "refs/heads/"+target); now != at {
			t.Errorf("%s is at %s, and was at %s", target, now, at)
		}
		userFails(t, root, "symbolic-ref", "--quiet", "refs/heads/"+name)
	}
	user(t, root, "symbolic-ref", "refs/heads/"+name, "refs/heads/main")
	if err := MoveRef(t.Context(), root, "refs/heads/"+name, precious, trunk.Commit); err != nil {
		t.Fatal(err)
	}
	if now := user(t, root, "rev-parse", "main"); now != trunk.Commit {
		t.Errorf("main was moved to %s", now)
	}
}
