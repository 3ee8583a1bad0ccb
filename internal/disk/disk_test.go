package disk

import (
	"os"
	"path/filepath"
	"testing"

	"taskdaemon/internal/td"
)

func TestFolders(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for range 2 { // the second time it is there
		if err := MakeFolder(root, "a/b/c"); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "a/b/c")); err != nil || !info.IsDir() {
		t.Errorf("it is %v, %v", info, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file/x", "link/x", "../x"} {
		if err := MakeFolder(root, name); !td.IsKind(err, td.Storage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside is %v, %v", left, err)
	}
	if err := SyncFolder(root, "nowhere"); !td.IsKind(err, td.Storage) {
		t.Errorf("sync of nothing: %v", err)
	}
	for range 2 {
		if err := Remove(root, "file"); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it is still there")
	}
	if err := Remove(root, "a"); err == nil {
		t.Error("a folder that holds something was removed")
	}
}
