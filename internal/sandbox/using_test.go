package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestUsing finds a process by its working folder and by an open file, and none that only uses a folder beside.
func TestUsing(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	used, beside := filepath.Join(dir, "tree"), filepath.Join(dir, "tree-2")
	for _, d := range []string{filepath.Join(used, "sub"), beside} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	pids := func() (all []int) {
		t.Helper()
		users, err := Using(used)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range users {
			all = append(all, u.Pid)
		}
		return all
	}
	other := exec.Command("sleep", "60")
	other.Dir = beside
	there := exec.Command("sleep", "60")
	there.Dir = filepath.Join(used, "sub")
	for _, c := range []*exec.Cmd{other, there} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	}
	if got := pids(); !slices.Equal(got, []int{there.Process.Pid}) {
		t.Errorf("found %v, want %d", got, there.Process.Pid)
	}
	f, err := os.Create(filepath.Join(used, "open"))
	if err != nil {
		t.Fatal(err)
	}
	if got := pids(); !slices.Contains(got, os.Getpid()) {
		t.Errorf("found %v, want this process, which has a file open", got)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := pids(); slices.Contains(got, os.Getpid()) {
		t.Errorf("found %v: the file was closed", got)
	}
}
