package git

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPristine finds what a validator would see in a checkout and not in a fresh one.
func TestPristine(t *testing.T) {
	dir := t.TempDir()
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
	user(t, dir, "init", "-q")
	write(".gitignore", "*.pyc\nsecret/\n")
	write("a/b", "one\n")
	user(t, dir, "add", ".")
	user(t, dir, "commit", "-qm", "first")
	is := func(want bool, when string) {
		t.Helper()
		tree, err := TreeHash(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Pristine(t.Context(), filepath.Join(dir, "a"), tree); err != nil || got != want {
			t.Errorf("%s: %v, %v", when, got, err)
		}
	}
	is(true, "a fresh checkout")
	write("new", "not committed yet")
	if err := os.Symlink("new", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	is(true, "new files")
	for _, c := range []struct{ name, text string }{
		{"a/x.pyc", "forged"}, {"secret/x", "ignored"}, {".gitattributes", "* text eol=crlf\n"}, {".git/info/attributes", "a/b ident\n"},
	} {
		write(c.name, c.text)
		is(false, c.name)
		if err := os.Remove(filepath.Join(dir, c.name)); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Remove(filepath.Join(dir, "secret"))
	is(true, "all is gone")
	write(".gitattributes", "*.png binary\n*.lock -diff linguist-generated\n")
	is(true, "attributes that change no file")
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	is(false, "an empty folder")
	if err := os.Remove(filepath.Join(dir, "empty")); err != nil {
		t.Fatal(err)
	}
	if got, err := Pristine(t.Context(), dir, "0123456789012345678901234567890123456789"); err != nil || got {
		t.Errorf("another tree: %v, %v", got, err)
	}
	user(t, dir, "config", "core.autocrlf", "input")
	is(false, "line endings")
}
