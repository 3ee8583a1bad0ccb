package git

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

// everything lists the files of a repository with their times, so that a change of any is seen. Of
// objects only the names count: git may touch one it needed, to keep it from being pruned.
func everything(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.Walk(dir, func(path string, st os.FileInfo, err error) error {
		if err == nil && strings.Contains(path, "/.git/objects/") {
			all = append(all, path)
		} else if err == nil && !st.IsDir() {
			all = append(all, path+" "+st.ModTime().String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTreeHashSeesContentAndLeavesNothing(t *testing.T) {
	dir := checkout(t)
	clean, err := TreeHash(t.Context(), dir+"/pkg")
	if err != nil {
		t.Fatal(err)
	}
	if want := user(t, dir, "rev-parse", "HEAD^{tree}"); clean != want {
		t.Errorf("a clean checkout is %s, HEAD is %s", clean, want)
	}
	steps := []struct {
		what    string
		do      func()
		changes bool
	}{
		{"untracked", func() { write(t, dir+"/new", "1") }, true},
		{"same size and second", func() { write(t, dir+"/new", "2") }, true},
		{"ignored", func() { write(t, dir+"/x.o", "3") }, false},
		{"staged", func() { user(t, dir, "add", "new") }, false},
		{"tracked", func() { write(t, dir+"/main.go", "package mine\n") }, true},
		{"removed", func() { _ = os.Remove(dir + "/pkg/a.go") }, true},
		{"odd name", func() { write(t, dir+"/ö \"'\t:x", "4") }, true},
		{"repository without a commit", func() { user(t, dir, "init", "-q", "inner"); write(t, dir+"/inner/f", "5") }, false},
	}
	last := clean
	for _, s := range steps {
		s.do()
		before := everything(t, dir)
		now, err := TreeHash(t.Context(), dir)
		if err != nil {
			t.Fatalf("%s: %v", s.what, err)
		}
		if (now != last) != s.changes {
			t.Errorf("%s: %s after %s", s.what, now, last)
		}
		for _, f := range everything(t, dir) {
			if !slices.Contains(before, f) {
				t.Errorf("%s: the repository was touched: %s", s.what, f)
			}
		}
		last = now
	}
	if _, err := TreeHash(t.Context(), t.TempDir()); !td.IsKind(err, td.NotFound) {
		t.Errorf("not under git: %v", err)
	}
}

// A file changed within the same tick of the clock as the index was written must still be seen.
func TestTreeHashIsNotFooledByTimes(t *testing.T) {
	dir := checkout(t)
	for i := range 20 {
		write(t, dir+"/racy", strings.Repeat("a", 8))
		user(t, dir, "add", "racy")
		a, err := TreeHash(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(dir + "/racy")
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir+"/racy", strings.Repeat("b", 8))
		if err := os.Chtimes(dir+"/racy", st.ModTime(), st.ModTime()); err != nil {
			t.Fatal(err)
		}
		b, err := TreeHash(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if a == b {
			t.Fatalf("round %d: the change was not seen", i)
		}
	}
}

func TestSnapshot(t *testing.T) {
	dir := checkout(t)
	head := user(t, dir, "rev-parse", "HEAD")
	write(t, dir+"/new", "1")
	user(t, dir, "add", "new")
	write(t, dir+"/other", "2")
	status := user(t, dir, "status", "--porcelain")

	tree, first, err := Snapshot(t.Context(), dir, "t-1", "before the storm")
	if err != nil {
		t.Fatal(err)
	}
	if want, _ := TreeHash(t.Context(), dir); tree != want {
		t.Errorf("tree %s, hash %s", tree, want)
	}
	if got := user(t, dir, "rev-parse", snapshotPrefix+"t-1"); got != first {
		t.Errorf("ref is %s, want %s", got, first)
	}
	if got := user(t, dir, "show", first+":other"); got != "2" {
		t.Errorf("content: %q", got)
	}
	if got := user(t, dir, "log", "-1", "--format=%an %s %P", first); got != "taskdaemon before the storm "+head {
		t.Errorf("commit: %q", got)
	}
	if _, again, err := Snapshot(t.Context(), dir, "t-1", "again"); err != nil || again != first {
		t.Errorf("nothing changed: %s, %v; want %s", again, err, first)
	}
	write(t, dir+"/other", "3")
	_, second, err := Snapshot(t.Context(), dir, "t-1", "after")
	if err != nil || second == first {
		t.Fatalf("second: %s, %v", second, err)
	}
	if got := user(t, dir, "log", "-1", "--format=%P", second); got != head+" "+first {
		t.Errorf("parents of the second: %q", got)
	}
	if got := user(t, dir, "status", "--porcelain"); got != status || user(t, dir, "rev-parse", "HEAD") != head {
		t.Errorf("the checkout was touched: %q, was %q", got, status)
	}
	user(t, dir, "fsck", "--strict")
}

func TestSnapshotBeforeFirstCommitAndInLinkedCheckout(t *testing.T) {
	dir := t.TempDir()
	user(t, dir, "init", "-q", "-b", "main")
	write(t, dir+"/f", "1")
	if _, _, err := Snapshot(t.Context(), dir, "t-1", "m"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Snapshot(t.Context(), dir, "t-1", "m"); err != nil {
		t.Fatal(err)
	}
	main := checkout(t)
	linked := filepath.Join(t.TempDir(), "linked")
	user(t, main, "worktree", "add", "-q", linked)
	write(t, linked+"/only-here", "1")
	_, commit, err := Snapshot(t.Context(), linked, "t-2", "m")
	if err != nil {
		t.Fatal(err)
	}
	if got := user(t, main, "show", commit+":only-here"); got != "1" {
		t.Errorf("content: %q", got)
	}
}

// Into a repository that the index names no git of ours looks: a filter there that must run fails nothing, and its new commit is noted.
func TestTreeDoesNotLookIntoRepositories(t *testing.T) {
	dir := checkout(t)
	sub := dir + "/sub"
	write(t, sub+"/file", "1\n")
	user(t, sub, "init", "-qb", "main")
	user(t, sub, "add", "-A")
	user(t, sub, "commit", "-qm", "inside")
	user(t, dir, "add", "sub")
	user(t, dir, "commit", "-qm", "sub")
	first, err := TreeHash(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	write(t, sub+"/.gitattributes", "* filter=x\n")
	write(t, sub+"/file", "2\n")
	user(t, sub, "config", "filter.x.clean", "./evil")
	user(t, sub, "config", "filter.x.required", "true")
	again, err := TreeHash(t.Context(), dir)
	if err != nil || again != first {
		t.Errorf("%s and %s, %v", first, again, err)
	}
	user(t, sub, "-c", "filter.x.required=false", "-c", "filter.x.clean=cat", "commit", "-qam", "more")
	after, err := TreeHash(t.Context(), dir)
	if err != nil || after == first {
		t.Errorf("a new commit is not seen: %v", err)
	}
}

// TestTreeOfHoles: files that take no room on the disk are not written out in full.
func TestTreeOfHoles(t *testing.T) {
	dir := t.TempDir()
	user(t, dir, "init", "-q")
	for i := range 3 {
		if err := os.Truncate(mustCreate(t, fmt.Sprint(dir, "/hole", i)), maxTreeBytes/2); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := TreeHash(t.Context(), dir); !td.IsKind(err, td.Refused) || !strings.Contains(err.Error(), "6144 MiB of files are new or changed") {
		t.Error(err)
	}
	write(t, filepath.Join(dir, ".gitignore"), "hole*\n")
	if _, err := TreeHash(t.Context(), dir); err != nil {
		t.Error(err)
	}
}
