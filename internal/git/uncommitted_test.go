package git

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestUncommitted(t *testing.T) {
	dir := t.TempDir()
	if files, tracked, err := Uncommitted(t.Context(), dir); err != nil || tracked || files != nil {
		t.Fatalf("a plain folder: %v, %v, %v", files, tracked, err)
	}
	git := func(args ...string) {
		t.Helper()
		user(t, dir, args...)
	}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	write("a", "one\n")
	write("moved", strings.Repeat("long enough to be known again\n", 10))
	git("add", ".")
	git("commit", "-qm", "first")
	if files, tracked, err := Uncommitted(t.Context(), dir); err != nil || !tracked || files != nil {
		t.Fatalf("a clean checkout: %v, %v, %v", files, tracked, err)
	}
	write("a", "two\n")
	write("sub/new ⟨one⟩", "x")
	git("mv", "moved", "to")
	files, tracked, err := Uncommitted(t.Context(), filepath.Join(dir, "sub"))
	slices.Sort(files)
	if want := []string{"a", "sub/new ⟨one⟩", "to"}; err != nil || !tracked || !slices.Equal(files, want) {
		t.Fatalf("Uncommitted = %q, %v, %v, want %q", files, tracked, err, want)
	}
}

func TestAhead(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		user(t, dir, args...)
	}
	commit := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		git("add", ".")
		git("commit", "-qm", name)
	}
	git("init", "-qb", "trunk")
	commit("first")
	git("checkout", "-qb", "mine")
	commit("own")
	git("checkout", "-q", "trunk")
	commit("theirs")
	git("checkout", "-q", "mine")
	files, err := Ahead(t.Context(), dir, "trunk")
	if err != nil || !slices.Equal(files, []string{"own"}) {
		t.Fatalf("Ahead = %q, %v", files, err)
	}
}

func FuzzUncommitted(f *testing.F) {
	for _, s := range []string{"", " M a\x00", "R  to\x00from\x00?? b\x00", "R  to\x00", "x", "??\x00", " M \x00\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, out string) {
		files, err := parseUncommitted(out)
		if err != nil {
			return
		}
		for _, file := range files {
			if file == "" || strings.Contains(file, "\x00") {
				t.Fatalf("%q gives the file %q", out, file)
			}
		}
	})
}
