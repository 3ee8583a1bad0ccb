package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/store/sqlite"
	"taskdaemon/internal/td"
)

// A state folder that had tasks is not begun anew, and one that a link leads to is the same one.
func TestCheckPlace(t *testing.T) {
	top := t.TempDir()
	state := filepath.Join(top, "a b", "state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(top, "a b"), filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	if err := CheckPlace(state); err != nil {
		t.Fatalf("nothing was there yet: %v", err)
	}
	for range 2 {
		f, err := notePlace(state)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{state, filepath.Join(top, "link", "state"), state + "/"} {
		if err := CheckPlace(dir); !td.IsKind(err, td.Storage) {
			t.Errorf("an empty folder where tasks were (%s): %v", dir, err)
		}
	}
	if err := os.WriteFile(filepath.Join(state, "journal.mark"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckPlace(state); err != nil {
		t.Errorf("the journal itself says what it lacks: %v", err)
	}
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	if err := CheckPlace(state); !td.IsKind(err, td.Storage) {
		t.Errorf("a folder that is gone: %v", err)
	}
	if err := os.Remove(placeFile(state)); err != nil {
		t.Fatal(err)
	}
	if err := CheckPlace(state); err != nil {
		t.Errorf("a person has settled it: %v", err)
	}
	// What is not one's own file says nothing.
	if err := os.Symlink("/etc/passwd", placeFile(state)); err != nil {
		t.Fatal(err)
	}
	if err := CheckPlace(state); err != nil {
		t.Errorf("a link: %v", err)
	}
}

// Nothing is written to a file that is not one's own alone, and one of an older version, which counts nothing, gets its mark.
func TestNotePlace(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(placeFile(state), []byte("taskdaemon keeps the records of its tasks in the folder that this file is named after.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := Marked(state); n != 0 || !noted(state) {
		t.Errorf("an older file says %d", n)
	}
	f, err := notePlace(state)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if raw, err := os.ReadFile(placeFile(state)); err != nil || !strings.HasSuffix(string(raw), placeText) || len(raw) != sqlite.MarkSize+len(placeText) {
		t.Errorf("it has become %q, %v", raw, err)
	}
	other := filepath.Join(t.TempDir(), "mine")
	if err := os.WriteFile(other, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, link := range map[string]func(string, string) error{"symbolic": os.Symlink, "hard": os.Link} {
		if err := os.Remove(placeFile(state)); err != nil {
			t.Fatal(err)
		}
		if err := link(other, placeFile(state)); err != nil {
			t.Fatal(err)
		}
		if f, err := notePlace(state); err == nil {
			f.Close()
			t.Errorf("a %s link was written to", name)
		}
	}
	if raw, err := os.ReadFile(other); err != nil || string(raw) != "precious" {
		t.Errorf("the file has become %q, %v", raw, err)
	}
}

// unmarked is for daemons whose journal is in memory: no copy of it can be put back.
func unmarked(f *os.File) error { return f.Close() }
