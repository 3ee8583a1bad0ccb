package git

import (
	"os"
	"path/filepath"
	"testing"
)

// A worktree that somebody deleted is made again with what its newest snapshot has, unless the branch has gone on since, or has files that snapshots leave out.
func TestMadeAgainFromASnapshot(t *testing.T) {
	for name, tc := range map[string]struct {
		after func(t *testing.T, w Worktree)
		back  bool
	}{
		"as it was": {func(*testing.T, Worktree) {}, true},
		"the branch went on": {func(t *testing.T, w Worktree) {
			user(t, w.Path, "commit", "-q", "--allow-empty", "-m", "on")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := made(t)
			write(t, w.Path+"/new.txt", "new")
			snap(t, w)
			tc.after(t, w)
			remake(t, w)
			if _, err := os.Stat(w.Path + "/new.txt"); (err == nil) != tc.back {
				t.Errorf("what was not committed: %v", err)
			}
			looks(t, w, Good)
			noLeftovers(t, w.Repo)
		})
	}
	t.Run("a large file", func(t *testing.T) {
		w, _ := made(t)
		write(t, w.Path+"/first.txt", "first")
		album := snap(t, w)
		large := filepath.Join(w.Path, "large.bin")
		if err := os.WriteFile(large, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(large, maxStepFile+1); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Commit(t.Context(), "large\n"); err != nil {
			t.Fatal(err)
		}
		write(t, w.Path+"/new.txt", "new")
		take(t, album)
		remake(t, w)
		if info, err := os.Stat(large); err != nil || info.Size() != maxStepFile+1 {
			t.Errorf("the large file: %v", err)
		}
	})
}

// snap takes what the worktree holds.
func snap(t *testing.T, w Worktree) *Steps {
	t.Helper()
	s, err := OpenSteps(t.Context(), w.Path, filepath.Base(w.Path), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	take(t, s)
	return s
}

// remake deletes the worktree and has it made once more.
func remake(t *testing.T, w Worktree) {
	t.Helper()
	if err := os.RemoveAll(w.Path); err != nil {
		t.Fatal(err)
	}
	if err := w.Make(t.Context(), "main"); err != nil {
		t.Fatal(err)
	}
}
