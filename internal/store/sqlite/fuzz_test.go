package sqlite

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

var allTasks = store.TaskFilter{}

// torn is a journal to be damaged: its database after an orderly stop and after a crash, and the log of
// one that was not closed.
type torn struct{ clean, dirty, log []byte }

func newTorn(t testing.TB) torn {
	t.Helper()
	dir := filled(t, 6)
	path := filepath.Join(dir, "journal.db")
	clean, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	log := unfinished(t, dir)
	tamper(t, dir, "UPDATE meta SET value = 'no' WHERE key = 'clean'")
	dirty, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return torn{clean, dirty, log}
}

// try opens the journal with its database, or its log, overwritten and cut at some place. That must not
// panic, and a journal that Open refuses must stay as it is.
func (x torn) try(t *testing.T, at, cut uint32, patch []byte, inLog, unclean bool) (opened bool) {
	dir := t.TempDir()
	name := "journal.db"
	files := map[string][]byte{name: bytes.Clone(x.clean)}
	if unclean {
		files[name] = bytes.Clone(x.dirty)
	}
	if inLog {
		name = "journal.db-wal"
		files[name] = bytes.Clone(x.log)
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
	if err == nil {
		exercise(t, s)
		_ = s.Close() // it may well find something now
		return true
	}
	if k := td.KindOf(err); k != td.Corrupt && k != td.Newer {
		t.Errorf("%v of kind %s", err, k)
	}
	for name, raw := range files {
		now, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(now, raw) {
			t.Errorf("%s was changed (%v)", name, err)
		}
	}
	return false
}

// FuzzOpen damages a journal in any way.
func FuzzOpen(f *testing.F) {
	x := newTorn(f)
	f.Add(uint32(0), uint32(0), []byte("SQLite format 3"), false, false)
	f.Add(uint32(60), uint32(0), []byte{0, 0, 0, 9}, false, true)
	f.Add(uint32(4096*3), uint32(0), bytes.Repeat([]byte{0xff}, 100), false, true)
	f.Add(uint32(100), uint32(0), []byte{5, 0, 0, 0, 255}, false, true)
	f.Add(uint32(0), uint32(5000), []byte{}, false, true)
	f.Add(uint32(40), uint32(0), []byte{1, 2, 3}, true, false)
	f.Add(uint32(0), uint32(len(x.log)-10), []byte{}, true, false)
	f.Fuzz(func(t *testing.T, at, cut uint32, patch []byte, inLog, unclean bool) {
		x.try(t, at, cut, patch, inLog, unclean)
	})
}

// TestOpenTorn does what FuzzOpen does, at random and much faster, for SQLite is slow when every branch
// of it is watched.
func TestOpenTorn(t *testing.T) {
	x, n := newTorn(t), 150
	if soak() {
		n = 20000
	}
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 0))
	opened := 0
	for range n {
		patch := make([]byte, 1+rnd.IntN(64))
		for i := range patch {
			patch[i] = byte(rnd.Uint32())
		}
		cut := uint32(0)
		if rnd.IntN(4) == 0 {
			cut = rnd.Uint32()
		}
		if x.try(t, rnd.Uint32(), cut, patch, rnd.IntN(3) == 0, rnd.IntN(2) == 0) {
			opened++
		}
	}
	t.Logf("seed %d: %d of %d could be opened", seed, opened, n)
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
func unfinished(t testing.TB, dir string) []byte {
	t.Helper()
	s := openTest(t, Options{Dir: dir})
	tasks, err := s.Tasks(t.Context(), allTasks)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		c, err := s.Claim(t.Context(), task.ID, td.Holder{Pid: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append(t.Context(), c, task.Head, said("in the log")); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.ReadFile(filepath.Join(dir, "journal.db-wal"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return log
}
