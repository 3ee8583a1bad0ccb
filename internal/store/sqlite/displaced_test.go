package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"taskdaemon/internal/td"
)

// What happens after the folder was moved is not recorded, wherever the folder is by then.
func TestDisplaced(t *testing.T) {
	at := filepath.Join(t.TempDir(), "state")
	s := openTest(t, Options{Dir: at})
	defer s.Close()
	task, err := s.Create(t.Context(), td.Spec{ID: td.NewTaskID()}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Displaced(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(at, at+"2"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), task.ID, td.Holder{Pid: 1}); !td.IsKind(err, td.Unavailable) {
		t.Errorf("a write into a folder that was moved: %v", err)
	}
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, "journal.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Displaced(); !td.IsKind(err, td.Storage) {
		t.Errorf("another journal in its place: %v", err)
	}
	if err := os.RemoveAll(at); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(at+"2", at); err != nil {
		t.Fatal(err)
	}
	if err := s.Displaced(); err != nil {
		t.Errorf("in its place again: %v", err)
	}
	if _, err := s.Claim(t.Context(), task.ID, td.Holder{Pid: 1}); !td.IsKind(err, td.Unavailable) {
		t.Errorf("a write after it was elsewhere: %v", err)
	}
}
