package scheduler

import (
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

// near reports whether two folders are the same, or one lies in the other.
func near(a, b string) bool {
	within := func(a, b string) bool { return a == "/" || strings.HasPrefix(b, a+"/") }
	return a == b || within(a, b) || within(b, a)
}

// TestFolders: a folder is shared by those in it, above it and below it that may touch its files.
func TestFolders(t *testing.T) {
	dirs := []string{"/", "/w", "/w/a", "/w/ab", "/w/a/b", "/w/a/b/c", "/v"}
	at := func(id td.TaskID, dir string, s td.Status) td.Task {
		return td.Task{Spec: td.Spec{ID: id, Dir: dir}, Live: td.Live{Status: s}}
	}
	for _, mine := range dirs {
		for _, theirs := range dirs {
			f := newFolders()
			want := func(when string, want bool) {
				t.Helper()
				if got := f.shared("me", mine); got != want {
					t.Errorf("%s, %s in %s and me in %s: shared is %v", when, "other", theirs, mine, got)
				}
			}
			f.put(at("me", mine, td.Status{State: td.Running}))
			want("alone", false)
			for range 2 { // it is put whenever something became of it
				f.put(at("other", theirs, td.Status{State: td.Paused}))
				want("together", near(mine, theirs))
			}
			f.put(at("other", theirs, td.Status{State: td.Blocked, Blocked: &td.BlockedData{Child: "me"}}))
			want("while it waits for a subtask", false)
			f.put(at("other", theirs, td.Status{State: td.Queued}))
			want("after that", near(mine, theirs))
			f.put(at("other", theirs, td.Status{State: td.Completed}))
			want("when it has ended", false)
			f.put(at("me", mine, td.Status{State: td.Completed}))
			if len(f.of)+len(f.at)+len(f.in) > 0 {
				t.Errorf("something is left: %+v", f)
			}
		}
	}
}
