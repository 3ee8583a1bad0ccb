package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/beneath"
)

// A pipe or socket where git opens a file goes, if it is not older than the command; files, folders and links stay.
func TestPipesWhereGitReadsGo(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{".gitignore", ".mailmap", "pipe"} {
		if err := unix.Mkfifo(at(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at(".gitattributes"), []byte("* text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("pipe", at(".gitmodules")); err != nil {
		t.Fatal(err)
	}
	folder, err := beneath.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	if taken := unpipe(folder, time.Now().Add(time.Hour).UnixNano()); len(taken) != 0 {
		t.Errorf("older ones were taken: %v", taken)
	}
	taken := unpipe(folder, time.Now().Add(-time.Hour).UnixNano())
	if len(taken) != 2 || !strings.Contains(taken[0], at(".gitignore")+" (no regular file; kept as .gitignore.kept-") {
		t.Errorf("taken: %v", taken)
	}
	for name, want := range map[string]bool{".gitignore": false, ".mailmap": false, "pipe": true, ".gitattributes": true, ".gitmodules": true} {
		if _, err := os.Lstat(at(name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
