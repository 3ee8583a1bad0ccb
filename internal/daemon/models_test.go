package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"taskdaemon/internal/config"
)

// A tape that nobody closed is held open until the process ends, and an error of its last write is lost.
func TestTapeIsClosed(t *testing.T) {
	tape := filepath.Join(t.TempDir(), "tape.jsonl")
	d := start(t, t.TempDir(), func(c *config.Config) {
		c.Cassette.Mode, c.Cassette.Path = config.CassetteRecord, tape
	})
	if !open(t, tape) {
		t.Fatal("the tape is not open while the daemon runs: the test is blind")
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	if open(t, tape) {
		t.Error("the tape is still open after the daemon has ended")
	}
}

// open reports whether this process has the file open.
func open(t *testing.T, path string) bool {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && to == path {
			return true
		}
	}
	return false
}
