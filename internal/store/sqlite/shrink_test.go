package sqlite

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// ballast makes a journal whose tasks have ended long ago and said much.
func ballast(t *testing.T, s *Store, tasks int) {
	t.Helper()
	long := ""
	for len(long) < 30_000 {
		long += rand.Text() // hardly to be packed
	}
	for range tasks {
		at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
		task, err := s.Create(t.Context(), td.Spec{ID: td.NewTaskID(), CreatedAt: at}, "")
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Claim(t.Context(), task.ID, td.Holder{Host: "here", Pid: 1})
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if task, err = s.Append(t.Context(), c, task.Head, td.Event{At: at, Body: td.StepEnded{Outcome: td.Outcome{Key: "t1.x", Via: td.Ran, Tool: &td.ToolResult{Content: long}}}}); err != nil {
				t.Fatal(err)
			}
		}
		m, err := td.Cancel(task, "enough", at)
		if err != nil {
			t.Fatal(err)
		}
		if task, err = s.Append(t.Context(), c, task.Head, m.Events...); err != nil {
			t.Fatal(err)
		}
		if err := s.Release(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

func trimAll(t *testing.T, s *Store) {
	t.Helper()
	last, err := s.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	day := 24 * time.Hour
	if _, err := s.Trim(t.Context(), store.Retention{Now: time.Now(), Completed: day, Failed: day, Audit: 1000 * 365 * day, Mirrored: last}); err != nil {
		t.Fatal(err)
	}
}

func closeSize(t *testing.T, s *Store, dir string) int64 {
	t.Helper()
	if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("check found %+v, %v", found, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestTrimGivesPagesBack sees the file become smaller by what retention removed.
func TestTrimGivesPagesBack(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, Options{Dir: dir})
	ballast(t, s, 60)
	full := closeSize(t, s, dir)
	s = openTest(t, Options{Dir: dir})
	trimAll(t, s)
	if is := closeSize(t, s, dir); is > full/2 {
		t.Errorf("of %d KiB %d are left after retention has removed nearly all", full>>10, is>>10)
	}
}

// TestOldJournalShrinks opens a journal that was made before pages could be given back.
func TestOldJournalShrinks(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, Options{Dir: dir})
	ballast(t, s, 60)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := dial(filepath.Join(dir, "journal.db"), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Exec("PRAGMA journal_mode=delete; PRAGMA auto_vacuum=none; VACUUM"), c.close()); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, Options{Dir: dir})
	trimAll(t, s)
	full := closeSize(t, s, dir)
	s = openTest(t, Options{Dir: dir})
	if is := closeSize(t, s, dir); is > full/2 {
		t.Errorf("of %d KiB %d are left, nearly all of them free", full>>10, is>>10)
	}
}
