package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// attentive is a checkout that is watched: nothing has changed for a while.
func attentive(t *testing.T, dir, name string) *Steps {
	t.Helper()
	s, err := OpenSteps(t.Context(), dir, name, filepath.Join(t.TempDir(), name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for range 3 {
		take(t, s)
	}
	if s.watch == nil {
		t.Fatal("the checkout is not watched")
	}
	return s
}

// Where nothing changed no git is asked, and what changed is seen, whatever its size and time say.
func TestStepsHearWhatChanges(t *testing.T) {
	at := func(name string) func(dir string) string {
		return func(dir string) string { return filepath.Join(dir, name) }
	}
	main := at("main.go")
	for _, c := range []struct {
		what string
		do   func(t *testing.T, dir string)
		// quiet: no git was needed to know that nothing changed
		quiet bool
	}{
		{"nothing", func(*testing.T, string) {}, true},
		{"a file was read", func(t *testing.T, dir string) {
			if _, err := os.ReadFile(main(dir)); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"in a folder that is ignored", func(t *testing.T, dir string) { write(t, dir+"/out/deep/x", "new") }, true},
		{"the same size and time", func(t *testing.T, dir string) {
			was, err := os.Stat(main(dir))
			if err != nil {
				t.Fatal(err)
			}
			write(t, main(dir), "package mine\n")
			if err := os.Chtimes(main(dir), was.ModTime(), was.ModTime()); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"through memory", func(t *testing.T, dir string) {
			f, err := os.OpenFile(main(dir), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			mem, err := unix.Mmap(int(f.Fd()), 0, 7, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			mem[0] = 'P'
			if err := unix.Munmap(mem); err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
		}, false},
		{"a new file", func(t *testing.T, dir string) { write(t, dir+"/pkg/new.go", "x") }, false},
		{"a new ignored file", func(t *testing.T, dir string) { write(t, dir+"/pkg/new.o", "x") }, false},
		{"a program", func(t *testing.T, dir string) {
			if err := os.Chmod(main(dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"removed", func(t *testing.T, dir string) { _ = os.Remove(dir + "/pkg/a.go") }, false},
		{"renamed", func(t *testing.T, dir string) { _ = os.Rename(dir+"/pkg/a.go", dir+"/b.go") }, false},
		{"a folder was renamed", func(t *testing.T, dir string) { _ = os.Rename(dir+"/pkg", dir+"/lib") }, false},
		{"a folder came", func(t *testing.T, dir string) { write(t, dir+"/a/b/c", "x") }, false},
		{"a link came for a file", func(t *testing.T, dir string) {
			_ = os.Remove(main(dir))
			if err := os.Symlink("pkg/a.go", main(dir)); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"a link came for a folder", func(t *testing.T, dir string) {
			_ = os.RemoveAll(dir + "/pkg")
			if err := os.Symlink("/etc", dir+"/pkg"); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"by another name", func(t *testing.T, dir string) {
			if err := os.Link(main(dir), dir+"/pkg/same.go"); err != nil {
				t.Fatal(err)
			}
			write(t, dir+"/pkg/same.go", "package other\n")
		}, false},
		{"other files are ignored", func(t *testing.T, dir string) { write(t, dir+"/.gitignore", "pkg/b.*\n") }, false},
		{"… by a list of the repository's", func(t *testing.T, dir string) { write(t, dir+"/.git/info/exclude", "*.txt\n") }, false},
		{"… by a setting", func(t *testing.T, dir string) {
			write(t, dir+"/.git/mine", "*.txt\n")
			user(t, dir, "config", "core.excludesFile", dir+"/.git/mine")
		}, false},
		{"a repository came", func(t *testing.T, dir string) {
			user(t, dir, "init", "-q", "pkg")
			user(t, dir+"/pkg", "commit", "-q", "--allow-empty", "-m", "x")
		}, false},
		{"more than the kernel has to tell", func(t *testing.T, dir string) {
			for i := range 20_000 {
				if err := os.Chmod(main(dir), []os.FileMode{0o600, 0o640}[i%2]); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(dir+"/pkg/a.go", []os.FileMode{0o600, 0o640}[i%2]); err != nil {
					t.Fatal(err)
				}
			}
			write(t, dir+"/left.txt", "changed")
		}, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir := checkout(t)
			write(t, dir+"/.gitignore", "*.o\n/out/\n")
			write(t, dir+"/out/x", "made")
			write(t, dir+"/left.txt", "untracked")
			s := attentive(t, dir, "t-1")
			c.do(t, dir)
			path, count := fakeGit(t)(t, 0, "never")
			standIn = strings.TrimPrefix(path, testGit+"=")
			defer func() { standIn = "" }()
			now := take(t, s)
			if _, err := os.Stat(count); (err != nil) != c.quiet {
				t.Errorf("no git was asked: %v; want %v", err != nil, c.quiet)
			}
			// What counted before and is ignored now stays in the tree: only what is new is asked about.
			whole := openSteps(t, dir, filepath.Dir(s.index))
			if want := take(t, whole); now.Hash != want.Hash {
				t.Errorf("the tree is %s, everything compared %s", now.Hash, want.Hash)
			}
		})
	}
}

// A folder that came is watched like the others.
func TestStepsHearOfNewFolders(t *testing.T) {
	dir := checkout(t)
	s := attentive(t, dir, "t-1")
	write(t, dir+"/a/b/c", "one")
	before := take(t, s)
	for range 3 { // until it is watched again, and then
		write(t, dir+"/a/b/c", "two"+before.Hash)
		now := take(t, s)
		if now.Hash == before.Hash {
			t.Fatal("a change in a new folder is not seen")
		}
		before = now
		take(t, s)
		take(t, s)
	}
}

// Time and again everything is compared, and when somebody says that not everything could be heard.
func TestStepsCompareEverythingAgain(t *testing.T) {
	dir, aside := checkout(t), t.TempDir()
	s := attentive(t, dir, "t-1")
	elsewhere := func(text string) {
		_ = os.Remove(aside + "/main.go")
		if err := os.Link(dir+"/main.go", aside+"/main.go"); err != nil {
			t.Fatal(err)
		}
		write(t, aside+"/main.go", text)
	}
	before := take(t, s)
	elsewhere("package one\n")
	if got, err := s.Take(t.Context(), "a step", true); err != nil || got.Hash == before.Hash {
		t.Errorf("what was written elsewhere is not seen: %v", err)
	}
	before = take(t, s)
	elsewhere("package two\n")
	s.watch.whole = time.Now().Add(-2 * wholeEvery)
	if got := take(t, s); got.Hash == before.Hash {
		t.Error("it was not looked at again")
	}
}

// Two who watch one folder hear the same, and the one that stays goes on when the other leaves.
func TestStepsWatchTogether(t *testing.T) {
	dir := checkout(t)
	one, two := attentive(t, dir, "t-1"), attentive(t, dir, "t-2")
	write(t, dir+"/new", "1")
	if a, b := take(t, one), take(t, two); a.Hash != b.Hash {
		t.Errorf("one sees %s, the other %s", a.Hash, b.Hash)
	}
	before := take(t, two)
	one.Close()
	write(t, dir+"/pkg/a.go", "package changed\n")
	if got := take(t, two); got.Hash == before.Hash {
		t.Error("the one that stays heard nothing")
	}
	watched := len(ears.by)
	two.Close()
	if len(ears.by) >= watched {
		t.Errorf("%d folders are watched, %d before", len(ears.by), watched)
	}
}
