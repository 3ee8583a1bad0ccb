package daemon

import (
	"os"
	"path/filepath"
	"testing"

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
		if err := notePlace(state); err != nil {
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
