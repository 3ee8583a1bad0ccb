package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"taskdaemon/internal/td"
)

// TestUntouched tells what commands of a task have left from what is there for every command.
func TestUntouched(t *testing.T) {
	s := &Spool{Dir: filepath.Join(t.TempDir(), "spool")}
	write := func(path string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	is := func(task td.TaskID, want bool) {
		t.Helper()
		if got, err := s.Untouched(task); err != nil || got != want {
			t.Errorf("%s: %v, %v", task, got, err)
		}
	}
	is("none-yet", true)
	layer := filepath.Join(s.layerDirs(), "a", "boot", "0", "cache")
	for _, dir := range []string{filepath.Join(s.temps(), "a"), filepath.Join(layer, "upper"), filepath.Join(layer, "own")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(s.layerDirs(), "a", "boot", "0", lockFile))
	write(filepath.Join(layer, "work", "work", "incompat", "volatile", "dirty"))
	is("a", true)
	for _, left := range []string{filepath.Join(s.temps(), "a", "x"), filepath.Join(layer, "upper", "x"), filepath.Join(layer, "own", "x")} {
		write(left)
		is("a", false)
		if err := os.Remove(left); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(left, 0o700); err != nil {
			t.Fatal(err)
		}
		is("a", false)
		if err := os.Remove(left); err != nil {
			t.Fatal(err)
		}
	}
	is("a", true)
}

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
