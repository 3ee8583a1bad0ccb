package sqlite

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"taskdaemon/internal/disk/disktest"
	"taskdaemon/internal/td"
)

// soak reports whether the long form of a test is wanted.
func soak() bool { return os.Getenv("TASKDAEMON_SOAK") != "" }

// TestKill kills a writing process again and again, each one beginning with what the last left.
func TestKill(t *testing.T) {
	dir, kills := t.TempDir(), 20
	if soak() {
		kills = 500
	}
	var acks []ack
	for i := range kills {
		acks = append(acks, child{Dir: dir, Seed: uint64(i)}.until(t, 1+rand.IntN(200), func(p *os.Process) { _ = p.Kill() })...)
		if i%5 == 4 {
			auditFolder(t, dir, acks)
		}
	}
	t.Logf("%d kills, %d acknowledged writes, none lost", kills, len(acks))
}

func auditFolder(t *testing.T, dir string, acks []ack) {
	t.Helper()
	s := openTest(t, Options{Dir: dir, Alive: func(td.Holder) bool { return false }})
	for _, w := range audit(t.Context(), s, acks) {
		t.Error(w)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func openTest(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !s.isClosed() {
			_ = s.Close()
		}
	})
	return s
}

// TestCopyMidFlight opens what the files looked like at some instant of heavy writing: the log first,
// as a crash can only lose its end.
func TestCopyMidFlight(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		copied := t.TempDir()
		child{Dir: dir, Seed: uint64(i)}.until(t, 300, func(p *os.Process) {
			stop(p) // so that the copy is of one instant
			copyFolder(t, dir, copied)
			_ = p.Kill()
		})
		auditFolder(t, copied, nil)
	}
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || rel == "run" || filepath.Dir(rel) == "run" || filepath.Base(rel) == "journal.db-shm" {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), raw, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// stop freezes a process and waits until it is still.
func stop(p *os.Process) {
	_ = p.Signal(sigstop)
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		if isStopped(p.Pid) {
			return
		}
	}
}

// TestDiskFull fills a real disk while the journal is written, makes room again and goes on.
func TestDiskFull(t *testing.T) {
	if !disktest.Inside(t) {
		return
	}
	d := disktest.New(t, 24)
	state := filepath.Join(d.Dir, "state")
	s := openTest(t, Options{Dir: state})
	ballast := filepath.Join(d.Dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var acks []ack
	collect := func(a ack) {
		mu.Lock()
		defer mu.Unlock()
		acks = append(acks, a)
	}
	err := scribble(t.Context(), s, 4, 1, collect)
	wantError(t, err, td.Storage, "full", "space")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	before := len(acks)
	err = scribble(t.Context(), s, 4, 2, collect)
	wantError(t, err, td.Storage, "full")
	if len(acks) < before+20 {
		t.Errorf("only %d writes after there was room again", len(acks)-before)
	}
	for _, a := range audit(t.Context(), s, nil) {
		if !strings.Contains(a, "full") {
			t.Error(a)
		}
	}
	_ = s.Close() // it may not find room for its last words
	d.Again(t)
	if err := os.Remove(filepath.Join(d.Dir, "lost+found")); err != nil {
		t.Fatal(err)
	}
	copied := t.TempDir()
	copyFolder(t, state, copied)
	auditFolder(t, copied, acks)
	t.Logf("full twice, no cuts, %d acknowledged writes", len(acks))
}
