package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"taskdaemon/internal/td"
)

// TestRoom removes a room when it is left, and not while somebody is in it.
func TestRoom(t *testing.T) {
	s := &Spool{Dir: filepath.Join(t.TempDir(), "spool")}
	leave := s.Room("check")
	dir, err := s.tempDir("check")
	if err != nil {
		t.Fatal(err)
	}
	nobody := func(td.TaskID) bool { return false }
	if err := s.Forget(nobody); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("a room in use: %v", err)
	}
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("a room that was left: %v", err)
	}
	if _, err := s.tempDir("check"); err != nil { // of a daemon that is dead
		t.Fatal(err)
	}
	if err := s.Forget(nobody); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("a room of nobody's: %v", err)
	}
}
