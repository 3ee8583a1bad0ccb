package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPut checks that something is put back whatever has its name, and that of what is kept.
func TestPut(t *testing.T) {
	git := gitFolder(t)
	was := original{Text: []byte("theirs"), Mode: 0o640}
	long := strings.Repeat("x", 250)
	for _, name := range []string{"config", long} {
		put(t, git, name, "evil")
		put(t, git, "config"+keptAs(7)+"/x", "taken")
		told := was.put(git, name, 7)
		raw, err := os.ReadFile(filepath.Join(git.Name(), name))
		if err != nil || string(raw) != "theirs" || len(told) != 1 || !strings.Contains(told[0], "kept as") {
			t.Errorf("%.10s is %q, %v, told as %q", name, raw, err, told)
		}
		as := strings.TrimSuffix(told[0][strings.Index(told[0], "kept as ")+len("kept as "):], ")")
		if raw, err := os.ReadFile(filepath.Join(git.Name(), as)); err != nil || string(raw) != "evil" {
			t.Errorf("what was kept as %s is %q, %v", as, raw, err)
		}
	}
}

// TestPutFails checks that what cannot be put back, or removed, is told, and that git does not find what it was to replace.
func TestPutFails(t *testing.T) {
	git := gitFolder(t)
	put(t, git, "config", "evil")
	told := original{Link: strings.Repeat("x", 5000)}.put(git, "config", 7)
	removed, failed := failures(told)
	if len(removed) != 1 || len(failed) != 1 || !strings.Contains(failed[0], "restore "+git.Name()+"/config") || fileExists(git.Name()+"/config") {
		t.Errorf("removed %q, failed %q", removed, failed)
	}
	put(t, git, "evil", "evil")
	_ = git.Close()
	if told := slices.Concat(remove(git, "evil"), was(git.Name()).put(git, "evil", 7)); len(told) != 2 || !strings.HasPrefix(told[0], failedPrefix) || !strings.HasPrefix(told[1], failedPrefix) {
		t.Errorf("told %q", told)
	}
}

func was(text string) original { return original{Text: []byte(text)} }
