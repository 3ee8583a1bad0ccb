package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/gitfile"
)

// looking searches a workspace with what is known of it, and says how many folders it read.
func looking(dir string, known *familiar) (repos, links []string, whole bool, read int) {
	s := search{workspace: dir, most: lookedFolders, known: known, link: func(at string, _ gitfile.Way) { links = append(links, at) }}
	s.open = func(dir string) (*os.File, error) {
		read++
		return os.Open(dir)
	}
	found := s.run()
	return found.repos, links, found.whole, read
}

// A folder that nothing has changed in is not read again, and one that something has is: what is found is what a search finds that knows nothing.
func TestFamiliarFolders(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		if err := os.MkdirAll(fmt.Sprintf("%s/a%d/b/c", dir, i), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var known familiar
	settle := func() {
		t.Helper()
		eventually(t, "all folders are known", func() bool {
			_, _, _, read := looking(dir, &known)
			return read == 0
		})
	}
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		what  string
		do    func()
		undo  func()
		reads int
	}{
		{"a file came", func() { must(os.WriteFile(at("a1/b/new"), nil, 0o600)) }, func() { must(os.Remove(at("a1/b/new"))) }, 1},
		{"a file came at the top", func() { must(os.WriteFile(at("file"), nil, 0o600)) }, func() {}, 1},
		{"a repository came", func() { must(os.Mkdir(at("a2/b/.git"), 0o755)) }, func() { must(os.Remove(at("a2/b/.git"))) }, 1},
		{"one without a checkout came", func() {
			must(os.WriteFile(at("a3/b/c/HEAD"), nil, 0o600), os.Mkdir(at("a3/b/c/objects"), 0o755), os.Mkdir(at("a3/b/c/refs"), 0o755))
		}, func() { must(os.RemoveAll(at("a3/b/c"))) }, 3},
		{"a folder came for another", func() {
			must(os.MkdirAll(at("other/c/.git"), 0o755), os.Rename(at("a4/b"), at("a4/was")), os.Rename(at("other"), at("a4/b")))
		}, func() { must(os.RemoveAll(at("a4"))) }, 6},
		{"a link came", func() { must(os.Symlink("../a6", at("a5/link"))) }, func() { must(os.Remove(at("a5/link"))) }, 1},
		{"a pipe came", func() { must(unix.Mkfifo(at("a7/.gitignore"), 0o600)) }, func() { must(os.Remove(at("a7/.gitignore"))) }, 1},
		{"it was closed", func() { must(os.Chmod(at("a8"), 0o700)) }, func() {}, 1},
	} {
		settle()
		c.do()
		for range 2 { // what is not plain is not remembered
			repos, links, whole, read := looking(dir, &known)
			wantRepos, wantLinks, wantWhole, _ := looking(dir, nil)
			if !slices.Equal(repos, wantRepos) || !slices.Equal(links, wantLinks) || whole != wantWhole {
				t.Errorf("%s: repositories %q, links %q, whole %v; want %q, %q, %v", c.what, repos, links, whole, wantRepos, wantLinks, wantWhole)
			}
			if read == 0 {
				t.Errorf("%s: nothing was read", c.what)
			}
			if read > c.reads {
				t.Errorf("%s: %d folders were read; want %d", c.what, read, c.reads)
			}
		}
		c.undo()
	}
}

// What is read of a folder that was changed just now is not remembered: the next change may have the same time.
func TestFamiliarIsOld(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var known familiar
	var before, after unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &before); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/new", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, ok := known.begin(f)
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &after); err != nil {
		t.Fatal(err)
	}
	if ok && after.Nano()-before.Nano() < int64(settledFor) {
		t.Error("it is remembered, though it has just changed")
	}
	eventually(t, "it is old enough", func() bool {
		_, ok := known.begin(f)
		return ok
	})
}
