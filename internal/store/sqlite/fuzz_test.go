package sqlite

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

var allTasks = store.TaskFilter{}

// FuzzOpen opens a journal whose database or log was overwritten or cut at any place. It must not panic,
// and a journal that Open refuses must stay as it is.
func FuzzOpen(f *testing.F) {
	dir := filled(f, 6)
	db, err := os.ReadFile(filepath.Join(dir, "journal.db"))
	if err != nil {
		f.Fatal(err)
	}
	log := unfinished(f, dir)
	tamper(f, dir, "UPDATE meta SET value = 'no' WHERE key = 'clean'")
	dirty, err := os.ReadFile(filepath.Join(dir, "journal.db"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(0), uint32(0), []byte("SQLite format 3"), false, false)
	f.Add(uint32(60), uint32(0), []byte{0, 0, 0, 9}, false, true)
	f.Add(uint32(4096*3), uint32(0), bytes.Repeat([]byte{0xff}, 100), false, true)
	f.Add(uint32(100), uint32(0), []byte{5, 0, 0, 0, 255}, false, true)
	f.Add(uint32(0), uint32(5000), []byte{}, false, true)
	f.Add(uint32(40), uint32(0), []byte{1, 2, 3}, true, false)
	f.Add(uint32(0), uint32(len(log)-10), []byte{}, true, false)
	f.Fuzz(func(t *testing.T, at, cut uint32, patch []byte, inLog, unclean bool) {
		dir := t.TempDir()
		files := map[string][]byte{"journal.db": bytes.Clone(db)}
		name := "journal.db"
		if unclean {
			files[name] = bytes.Clone(dirty)
		}
		if inLog {
			name, files["journal.db-wal"] = "journal.db-wal", bytes.Clone(log)
		}
		raw := files[name]
		copy(raw[int(at)%len(raw):], patch)
		if cut > 0 {
			raw = raw[:int(cut)%len(raw)]
		}
		files[name] = raw
		for name, raw := range files {
			if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Open(t.Context(), Options{Dir: dir})
		if err != nil {
			if k := td.KindOf(err); k != td.Corrupt && k != td.Newer && k != td.Storage {
				t.Errorf("%v of kind %s", err, k)
			}
			for name, raw := range files {
				now, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil || !bytes.Equal(now, raw) {
					t.Errorf("%s was changed (%v)", name, err)
				}
			}
			return
		}
		exercise(t, s)
		_ = s.Close()
	})
}

// exercise calls everything; errors are welcome, panics are not.
func exercise(t *testing.T, s *Store) {
	ctx := t.Context()
	for range s.Follow(ctx, store.EventFilter{NoFuture: true}, 0) {
	}
	tasks, _ := s.Tasks(ctx, allTasks)
	for _, task := range tasks {
		for range s.Read(ctx, task.ID, 0) {
		}
		if c, err := s.Claim(ctx, task.ID, td.Holder{Pid: 1}); err == nil {
			_, _ = s.Append(ctx, c, task.Head, said("more"))
			_, _ = s.Take(ctx, c)
		}
		_ = s.Post(ctx, task.ID, td.Command{Key: "k"})
	}
	_, _ = s.Counts(ctx)
	_, _ = s.Resolve(ctx, "t-")
	_, _ = s.Pending(ctx)
	_, _ = s.Check(ctx)
	_, _ = s.Create(ctx, td.Spec{ID: td.NewTaskID()}, "fuzz")
}

// unfinished is the log of a journal that was not closed, on top of the database in dir.
func unfinished(f *testing.F, dir string) []byte {
	f.Helper()
	s := openTest(f, Options{Dir: dir})
	tasks, err := s.Tasks(f.Context(), allTasks)
	if err != nil {
		f.Fatal(err)
	}
	for _, task := range tasks {
		c, err := s.Claim(f.Context(), task.ID, td.Holder{Pid: 1})
		if err != nil {
			f.Fatal(err)
		}
		if _, err := s.Append(f.Context(), c, task.Head, said("in the log")); err != nil {
			f.Fatal(err)
		}
	}
	log, err := os.ReadFile(filepath.Join(dir, "journal.db-wal"))
	if err != nil {
		f.Fatal(err)
	}
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	return log
}
