package git

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Folders that git would take for repositories are found by what the later commit has there, whichever half of it is new.
func TestDiffering(t *testing.T) {
	dir := t.TempDir()
	user(t, dir, "init", "-q", "-b", "main")
	user(t, dir, "config", "user.name", "Ada")
	user(t, dir, "config", "user.email", "ada@example.org")
	commit := func(files ...string) string {
		t.Helper()
		for _, f := range files {
			cmd := exec.Command("git", "hash-object", "-w", "--stdin")
			cmd.Dir, cmd.Stdin = dir, strings.NewReader(strings.Join(files, ""))
			id, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			user(t, dir, "update-index", "--add", "--cacheinfo", "100644,"+strings.TrimSpace(string(id))+","+f)
		}
		user(t, dir, "commit", "-qm", "x", "--allow-empty")
		return user(t, dir, "rev-parse", "HEAD")
	}
	from := commit("a", "half/HEAD", "half/objects/k", "old/HEAD", "old/commondir", "x/rules")
	for _, tc := range []struct {
		files []string
		want  []Difference
	}{
		{[]string{"a", "b/HEAD", "b/refs/k", "b/object/k"}, nil},
		{[]string{"half/refs/k"}, []Difference{{Path: "half"}}},
		{[]string{"old/config"}, []Difference{{Path: "old"}}},
		{[]string{"old/hooks/a/b"}, []Difference{{Path: "old"}}},
		{[]string{":(glob)n/HEAD", ":(glob)n/objects/k", ":(glob)n/refs/k"}, []Difference{{Path: ":(glob)n", Added: true}}},
		{[]string{"c/n\n*/HEAD", "c/n\n*/commondir"}, []Difference{{Path: "c/n\n*", Added: true}}},
		{[]string{"HEAD", "objects/k", "refs/k"}, []Difference{{Path: "."}}},
	} {
		user(t, dir, "read-tree", from)
		user(t, dir, "update-ref", "HEAD", from)
		to := commit(tc.files...)
		if found, err := Differing(t.Context(), filepath.Join(dir), from, to, "rules"); err != nil || !reflect.DeepEqual(found.Repositories, tc.want) {
			t.Errorf("%q: %+v, %v", tc.files, found, err)
		}
	}
	user(t, dir, "read-tree", from)
	user(t, dir, "update-ref", "HEAD", from)
	to := commit("x/rules", "y/rules", "z/rules/deep/er")
	n, err := Differing(t.Context(), dir, from, to, "rules")
	if want := []Difference{{Path: "x/rules"}, {Path: "y/rules", Added: true}, {Path: "z/rules/deep/er", Added: true}}; err != nil || !reflect.DeepEqual(n.Files, want) {
		t.Errorf("%+v, %v", n.Files, err)
	}
}

// What the checkout cannot take is known before the work is merged: it would keep everybody's work from it.
func TestUntakableFiles(t *testing.T) {
	t.Parallel()
	dir := checkout(t)
	from := user(t, dir, "rev-parse", "HEAD")
	for _, name := range []string{".env", "notes.txt", "lnk/y", "lnk/z", "new/deep/file", "main.o", "free.txt", "cache/mine", "file/below"} {
		write(t, filepath.Join(dir, name), "theirs")
		user(t, dir, "add", "-f", name)
	}
	write(t, filepath.Join(dir, "main.go"), "package other\n")
	user(t, dir, "commit", "-qam", "work")
	to := user(t, dir, "rev-parse", "HEAD")
	user(t, dir, "reset", "-q", "--hard", from)
	for _, name := range []string{".env", "notes.txt", "main.o", "cache/other", "file"} {
		write(t, filepath.Join(dir, name), "mine")
	}
	if err := os.Symlink("/nonexistent", filepath.Join(dir, "lnk")); err != nil {
		t.Fatal(err)
	}
	n, err := Differing(t.Context(), dir, from, to, "none")
	if err != nil {
		t.Fatal(err)
	}
	u, err := UntakableOf(t.Context(), dir, "main", from, n)
	if err != nil || u.Top != dir || !slices.Equal(u.Folders, []string{"cache"}) || !slices.Equal(u.Files, []string{".env", "file", "lnk", "main.o", "notes.txt"}) {
		t.Errorf("%+v, %v", u, err)
	}
	if u, err := UntakableOf(t.Context(), dir, "other", from, n); err != nil || len(u.Files)+len(u.Folders) > 0 {
		t.Errorf("of a branch that nobody has checked out: %+v, %v", u, err)
	}
}
