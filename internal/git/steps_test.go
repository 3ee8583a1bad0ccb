package git

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

func openSteps(t testing.TB, dir, indexes string) *Steps {
	t.Helper()
	s, err := OpenSteps(t.Context(), dir, "t-1", indexes)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func take(t testing.TB, s *Steps) Tree {
	t.Helper()
	got, err := s.Take(t.Context(), "a step", false)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Each tree is what TreeHash, which reads everything anew, sees.
func TestStepsAreExact(t *testing.T) {
	dir, indexes := checkout(t), filepath.Join(t.TempDir(), "t-1")
	s := openSteps(t, dir+"/pkg", indexes)
	last := take(t, s)
	if want := user(t, dir, "rev-parse", "HEAD^{tree}"); last.Hash != want {
		t.Errorf("a clean checkout is %s, HEAD is %s", last.Hash, want)
	}
	for _, c := range []struct {
		what    string
		do      func()
		changes bool
	}{
		{"nothing", func() {}, false},
		{"untracked", func() { write(t, dir+"/new", "1") }, true},
		{"same size and second", func() { write(t, dir+"/new", "2") }, true},
		{"ignored", func() { write(t, dir+"/x.o", "3") }, false},
		{"staged by the user", func() { user(t, dir, "add", "new") }, false},
		{"tracked", func() { write(t, dir+"/main.go", "package mine\n") }, true},
		{"only touched", func() { write(t, dir+"/main.go", "package mine\n") }, false},
		{"removed", func() { _ = os.Remove(dir + "/pkg/a.go") }, true},
		{"a folder in the place of a file", func() { _ = os.Remove(dir + "/new"); write(t, dir+"/new/in", "x") }, true},
		{"a file in the place of a folder", func() { _ = os.RemoveAll(dir + "/new"); write(t, dir+"/new", "x") }, true},
		{"odd name", func() { write(t, dir+"/ö \"'\t:x\n", "4") }, true},
		{"a link out", func() { _ = os.Symlink("/etc/hostname", dir+"/out") }, true},
		{"repository without a commit", func() { user(t, dir, "init", "-q", "inner"); write(t, dir+"/inner/f", "5") }, false},
		{"repository with one", func() { user(t, dir+"/inner", "add", "-A"); user(t, dir+"/inner", "commit", "-qm", "x") }, true},
		{"another run", func() { s = openSteps(t, dir, indexes) }, false},
		{"an index that was lost", func() { _ = os.RemoveAll(indexes); s = openSteps(t, dir, indexes) }, false},
	} {
		c.do()
		now := take(t, s)
		if (now.Hash != last.Hash) != c.changes || (now.Commit != last.Commit) != c.changes {
			t.Errorf("%s: %+v after %+v", c.what, now, last)
		}
		if want, err := TreeHash(t.Context(), dir); err != nil || now.Hash != want {
			t.Errorf("%s: the tree is %s, not %s (%v)", c.what, now.Hash, want, err)
		}
		if got := user(t, dir, "rev-parse", StepsPrefix+"t-1^{tree}"); got != now.Hash {
			t.Errorf("%s: the ref holds %s", c.what, got)
		}
		last = now
	}
	// A commit of the user's is kept with the tree, though no file changed.
	user(t, dir, "commit", "-qam", "mine")
	now := take(t, s)
	if head := user(t, dir, "rev-parse", "HEAD"); now.Hash != last.Hash || now.Base != head || now.Commit == last.Commit {
		t.Errorf("after a commit: %+v", now)
	}
	if again := take(t, s); again.Hash != now.Hash || again.Commit != now.Commit || again.Base != now.Base {
		t.Errorf("nothing changed: %+v, then %+v", now, again)
	}
}

// Repositories without a commit are left out together, however many there are and whatever they look like; those with one are in.
func TestStepsLeaveRepositoriesWithoutACommitOut(t *testing.T) {
	for name, odd := range map[string]func(t *testing.T, dir string){
		"plain": func(*testing.T, string) {},
		"odd names": func(t *testing.T, dir string) {
			user(t, dir, "init", "-q", dir+"/a\"b\n")
			user(t, dir, "init", "-q", dir+"/ä")
		},
		"a branch that is none": func(t *testing.T, dir string) {
			write(t, dir+"/inner0/.git/refs/heads/main", "nonsense\n")
			user(t, dir+"/inner1", "symbolic-ref", "HEAD", "refs/heads/loop")
			user(t, dir+"/inner1", "symbolic-ref", "refs/heads/loop", "refs/heads/loop")
		},
		"a list that is too long": func(t *testing.T, dir string) {
			write(t, dir+"/inner2/.git/packed-refs", "# pack-refs with: peeled fully-peeled sorted \n"+strings.Repeat(user(t, dir+"/born", "rev-parse", "HEAD")+" refs/tags/x\n", mostPacked/50))
		},
		"elsewhere": func(t *testing.T, dir string) {
			user(t, dir, "init", "-q", "--separate-git-dir", t.TempDir()+"/git", dir+"/apart")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := checkout(t)
			s := openSteps(t, dir, filepath.Join(t.TempDir(), "t-1"))
			take(t, s)
			for i := range 5 {
				user(t, dir, "init", "-q", fmt.Sprintf("inner%d", i))
			}
			for _, born := range []string{"born", "packed", "detached"} {
				user(t, dir, "init", "-q", "-b", "deep/er", born)
				user(t, dir+"/"+born, "commit", "-q", "--allow-empty", "-m", "x")
			}
			user(t, dir+"/packed", "pack-refs", "--all")
			user(t, dir+"/detached", "checkout", "-q", "--detach")
			write(t, dir+"/new", "1")
			odd(t, dir)
			untold := name == "a list that is too long"
			path, count := fakeGit(t)(t, 0, "never")
			standIn = strings.TrimPrefix(path, testGit+"=")
			defer func() { standIn = "" }()
			got := take(t, s)
			raw, err := os.ReadFile(count)
			if err != nil {
				t.Fatal(err)
			}
			if runs := strings.Count(string(raw), "\n"); runs > 9 {
				t.Errorf("git was run %d times", runs)
			}
			if whole, err := TreeHash(t.Context(), dir); err != nil || whole != got.Hash {
				t.Errorf("the whole is %s, %v; the snapshot %s", whole, err, got.Hash)
			}
			if again, err := os.ReadFile(count); err != nil || len(again)-len(raw) > 12 {
				t.Errorf("git was run %d times for the whole, %v", len(again)-len(raw), err)
			}
			in := strings.Fields(user(t, dir, "ls-tree", "--name-only", got.Hash))
			for _, name := range in {
				if strings.HasPrefix(name, "inner") || name == "apart" {
					t.Errorf("%s is in the snapshot", name)
				}
			}
			if !slices.Contains(in, "new") {
				t.Errorf("new is not in the snapshot: %v", in)
			}
			for _, name := range []string{"born", "packed", "detached"} {
				if slices.Contains(in, name) == untold {
					t.Errorf("of the repositories with a commit are in the snapshot: %v", in)
				}
			}
		})
	}
}

func TestStepsRestore(t *testing.T) {
	dir := checkout(t)
	s := openSteps(t, dir, t.TempDir())
	write(t, dir+"/kept", "1")
	write(t, dir+"/x.o", "ignored")
	first := take(t, s)
	write(t, dir+"/kept", "2")
	write(t, dir+"/later/file", "new")
	_ = os.Remove(dir + "/main.go")
	head, staged := user(t, dir, "rev-parse", "HEAD"), user(t, dir, "ls-files", "-s")
	from, err := s.Restore(t.Context(), first.Hash, "back")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := TreeHash(t.Context(), dir); err != nil || got != first.Hash {
		t.Errorf("the checkout holds %s, not %s (%v)", got, first.Hash, err)
	}
	if _, err := os.Stat(dir + "/later"); !os.IsNotExist(err) {
		t.Errorf("the folder that was made later is still there: %v", err)
	}
	if raw, _ := os.ReadFile(dir + "/x.o"); string(raw) != "ignored" {
		t.Errorf("the ignored file holds %q", raw)
	}
	if user(t, dir, "rev-parse", "HEAD") != head || user(t, dir, "ls-files", "-s") != staged {
		t.Error("the branch or the user's index changed")
	}
	if got := user(t, dir, "show", from.Commit+":kept"); got != "2" {
		t.Errorf("what was there is kept as %q", got)
	}
	// And forward again.
	if _, err := s.Restore(t.Context(), from.Hash, "forth"); err != nil {
		t.Fatal(err)
	}
	if raw, _ := os.ReadFile(dir + "/kept"); string(raw) != "2" {
		t.Errorf("kept holds %q", raw)
	}
}

func TestStepsRestoreKeepsWhatNoSnapshotHas(t *testing.T) {
	dir := checkout(t)
	s := openSteps(t, dir, t.TempDir())
	write(t, dir+"/log.txt", "1")
	first := take(t, s)
	_ = os.Remove(dir + "/log.txt")
	write(t, dir+"/.gitignore", "*.o\nlog.txt\n")
	take(t, s)
	write(t, dir+"/log.txt", "precious, and ignored by now")
	if _, err := s.Restore(t.Context(), first.Hash, "back"); !td.IsKind(err, td.Conflict) {
		t.Errorf("error %v", err)
	}
	if raw, _ := os.ReadFile(dir + "/log.txt"); string(raw) != "precious, and ignored by now" {
		t.Errorf("the file in the way holds %q", raw)
	}
	if _, err := s.Restore(t.Context(), strings.Repeat("a", len(first.Hash)), "nowhere"); !td.IsKind(err, td.NotFound) {
		t.Errorf("a tree that is not there: %v", err)
	}
}

// A folder that became a link, and a link that became a folder, are brought back; what a link leads to is left alone.
func TestStepsRestoreFolderBehindALink(t *testing.T) {
	dir, outside := checkout(t), t.TempDir()
	write(t, outside+"/f", "theirs\n")
	write(t, dir+"/docs/f", "one\n")
	write(t, dir+"/docs/deep/g", "one\n")
	write(t, dir+"/twin/f", "twin\n")
	if err := os.Symlink("docs", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	s := openSteps(t, dir, t.TempDir())
	one, err := s.Take(t.Context(), "one", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{outside, "twin", "nowhere"} {
		for _, path := range []string{"/docs", "/link"} {
			if err := os.RemoveAll(dir + path); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(to, dir+"/docs"); err != nil {
			t.Fatal(err)
		}
		write(t, dir+"/link/f", "a folder now\n")
		if _, err := s.Restore(t.Context(), one.Hash, "back"); err != nil {
			t.Errorf("%s: %v", to, err)
			continue
		}
		link, _ := os.Readlink(dir + "/link")
		if raw, _ := os.ReadFile(dir + "/docs/deep/g"); string(raw) != "one\n" || link != "docs" {
			t.Errorf("%s: the folder holds %q, the link leads to %q", to, raw, link)
		}
		theirs, _ := os.ReadFile(outside + "/f")
		if twin, _ := os.ReadFile(dir + "/twin/f"); string(theirs) != "theirs\n" || string(twin) != "twin\n" {
			t.Errorf("%s: beyond the link it holds %q, %q", to, theirs, twin)
		}
	}
}

func TestStepsLeaveLargeFilesOut(t *testing.T) {
	dir := checkout(t)
	s := openSteps(t, dir, t.TempDir())
	before := take(t, s)
	if err := os.Truncate(mustCreate(t, dir+"/data"), maxStepFile+1); err != nil {
		t.Fatal(err)
	}
	if got := take(t, s); got.Hash != before.Hash || got.Commit != before.Commit || len(got.LeftOut) != 1 || got.LeftOut[0] != "data" {
		t.Errorf("a file of %d bytes is in %+v", maxStepFile+1, got)
	}
	for i := range maxStepBytes/maxStepFile + 1 {
		if err := os.Truncate(mustCreate(t, fmt.Sprint(dir, "/part", i)), maxStepFile); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Take(t.Context(), "too much", false); !td.IsKind(err, td.Refused) {
		t.Errorf("error %v", err)
	}
}

func mustCreate(t *testing.T, path string) string {
	t.Helper()
	write(t, path, "")
	return path
}

func TestDifferences(t *testing.T) {
	dir := checkout(t)
	s := openSteps(t, dir, t.TempDir())
	from := take(t, s)
	write(t, dir+"/a new", "1")
	write(t, dir+"/main.go", "package mine\n")
	_ = os.Remove(dir + "/pkg/a.go")
	got, err := Differences(t.Context(), dir, from.Hash, take(t, s).Hash)
	want := []Change{{"A", "a new"}, {"M", "main.go"}, {"D", "pkg/a.go"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("changed: %v (%v)", got, err)
	}
	if all, err := Differences(t.Context(), dir, "", from.Hash); err != nil || len(all) == 0 || all[0].Kind != "A" {
		t.Errorf("against nothing: %v (%v)", all, err)
	}
}

func TestStepRefs(t *testing.T) {
	dir := checkout(t)
	take(t, openSteps(t, dir, t.TempDir()))
	if refs, err := StepRefs(t.Context(), dir); err != nil || len(refs) != 1 || time.Since(refs["t-1"].At) > time.Hour || refs["t-1"].Tree == "" || refs["t-1"].Subject == "" {
		t.Errorf("refs %v (%v)", refs, err)
	}
	for range 2 {
		if err := DropSteps(t.Context(), dir, "t-1"); err != nil {
			t.Fatal(err)
		}
	}
	if refs, err := StepRefs(t.Context(), dir); err != nil || len(refs) > 0 {
		t.Errorf("refs %v (%v)", refs, err)
	}
	if _, err := OpenSteps(t.Context(), t.TempDir(), "t-1", t.TempDir()); !td.IsKind(err, td.NotFound) {
		t.Errorf("no repository: %v", err)
	}
}

// A git that a killed daemon left may hold the lock of the old index for as long as it likes.
func TestStepsGoOnPastALock(t *testing.T) {
	dir, indexes := checkout(t), t.TempDir()
	s := openSteps(t, dir, indexes)
	take(t, s)
	write(t, s.index+".lock", "")
	write(t, dir+"/new", "1")
	if _, err := s.Take(t.Context(), "x", false); !td.IsKind(err, td.Locked) {
		t.Errorf("error %v", err)
	}
	take(t, openSteps(t, dir, indexes))
	if left, err := filepath.Glob(indexes + "/*"); err != nil || len(left) != 1 {
		t.Errorf("indexes: %v (%v)", left, err)
	}
}

func FuzzParseChanges(f *testing.F) {
	f.Add([]byte("A\x00a new\x00M\x00main.go\x00"))
	f.Add([]byte("A\x00"))
	f.Add([]byte("\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, c := range parseChanges(raw) {
			if len(c.Kind) != 1 || c.Path == "" || strings.Contains(c.Path, "\x00") {
				t.Errorf("%q gives %+v", raw, c)
			}
		}
	})
}

// BenchmarkSteps is what a snapshot costs in a checkout of 5,000 files.
func BenchmarkSteps(b *testing.B) {
	dir := b.TempDir()
	user(b, dir, "init", "-q")
	for i := range 5000 {
		write(b, fmt.Sprintf("%s/d%d/f%d", dir, i%50, i), fmt.Sprint(i))
	}
	user(b, dir, "add", "-A")
	user(b, dir, "commit", "-qm", "all")
	s := openSteps(b, dir, b.TempDir())
	take(b, s)
	for _, c := range []struct {
		name  string
		files int
	}{{"unchanged", 0}, {"one file", 1}, {"100 files", 100}} {
		b.Run(c.name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				b.StopTimer()
				n++
				for i := range c.files {
					write(b, fmt.Sprintf("%s/d%d/f%d", dir, i%50, i), fmt.Sprint(c.name, n, i))
				}
				b.StartTimer()
				take(b, s)
			}
		})
	}
	b.Run("hash from scratch", func(b *testing.B) {
		for b.Loop() {
			if _, err := TreeHash(b.Context(), dir); err != nil {
				b.Fatal(err)
			}
		}
	})
}
