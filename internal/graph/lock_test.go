package graph

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/td"
)

// Somebody else has the log locked: it is tried again for a while, and then said; nobody hangs. What was asked for in
// vain was not done.
func TestLogIsLocked(t *testing.T) {
	s, root := fresh(t)
	held, err := os.Open(s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := s.Add(t.Context(), Task{Title: "in vain"})
		if !td.IsKind(err, td.Locked) || td.HintOf(err) == "" {
			t.Errorf("a log that stays locked: %v", err)
		}
		if waited := time.Since(began); waited < lockLimit || waited > 2*lockLimit {
			t.Errorf("it was waited for %s", waited)
		}
		if _, err := s.Health(t.Context()); err != nil {
			t.Errorf("what is known can be asked for: %v", err)
		}
		time.AfterFunc(lockLimit/2, func() { _ = unix.Flock(int(held.Fd()), unix.LOCK_UN) })
		if _, err := s.Add(t.Context(), Task{Title: "at last"}); err != nil {
			t.Errorf("a log that is unlocked in time: %v", err)
		}
	})
	if got := ready(t, open(t, root, root+"/index.db")); len(got) != 1 || got[0] != "at last" {
		t.Errorf("there is %v", got)
	}
}
