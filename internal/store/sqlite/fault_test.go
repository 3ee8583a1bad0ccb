package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3/vfs"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// faulty is the operating system's VFS, except that it counts the operations of the sort it can fail,
// and fails those it is told to.
type faulty struct {
	vfs.VFSFilename
	ops   atomic.Int64
	from  atomic.Int64 // the first operation that fails; zero: none
	until atomic.Int64 // the first that works again
	kind  fault
	hit   atomic.Value // the first operation that failed
	sync  atomic.Bool  // a sync was among them
}

// fault is a way to fail.
type fault string

const (
	eio      fault = "EIO"
	full     fault = "ENOSPC"
	short    fault = "short write"
	readonly fault = "EROFS"
	nosync   fault = "EIO of fsync"
	noread   fault = "EIO of reads"
)

// fails counts an operation and returns the error it should have.
func (f *faulty) fails(what string) error {
	if !f.kind.concerns(what) {
		return nil
	}
	n, from := f.ops.Add(1), f.from.Load()
	if from == 0 || n < from || n >= f.until.Load() {
		return nil
	}
	f.hit.CompareAndSwap(nil, what)
	if what == "sync" {
		f.sync.Store(true)
	}
	switch f.kind {
	case full, short:
		return syscall.ENOSPC
	case readonly:
		return syscall.EROFS
	}
	return syscall.EIO
}

func (k fault) concerns(what string) bool {
	switch k {
	case eio:
		return what != "read"
	case nosync:
		return what == "sync"
	case noread:
		return what == "read"
	}
	return what == "write" || what == "truncate"
}

func (f *faulty) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	file, flags, err := f.VFSFilename.OpenFilename(name, flags)
	if err != nil {
		return nil, flags, err
	}
	return &faultyFile{File: file, shm: file.(vfs.FileSharedMemory), f: f}, flags, nil
}

type faultyFile struct {
	vfs.File
	shm vfs.FileSharedMemory
	f   *faulty
}

func (f *faultyFile) SharedMemory() vfs.SharedMemory { return f.shm.SharedMemory() }

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.f.fails("read"); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.f.fails("write"); err != nil {
		n := 0
		if f.f.kind == short {
			n, _ = f.File.WriteAt(p[:len(p)/2], off)
		}
		return n, sqliteError(err)
	}
	return f.File.WriteAt(p, off)
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.f.fails("truncate"); err != nil {
		return sqliteError(err)
	}
	return f.File.Truncate(size)
}

func (f *faultyFile) Sync(flags vfs.SyncFlag) error {
	if err := f.f.fails("sync"); err != nil {
		return err
	}
	return f.File.Sync(flags)
}

// sqliteError is what the operating system's VFS makes of the error.
func sqliteError(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		const sqliteFull = uint8(13)
		return vfs.SystemError(err, sqliteFull)
	}
	return err
}

var faultyCount atomic.Int64

// newFaulty registers a VFS of its own for one test.
func newFaulty(t *testing.T, kind fault) (*faulty, string) {
	f := &faulty{VFSFilename: vfs.Find("os").(vfs.VFSFilename), kind: kind}
	name := fmt.Sprintf("faulty%d", faultyCount.Add(1))
	vfs.Register(name, f)
	t.Cleanup(func() { vfs.Unregister(name) })
	return f, name
}

// TestFaults fails every operation in turn, for a while or for good, and demands that what was
// acknowledged is there, that the rest is whole or absent, and that the errors are of the right kind. Three operations
// fail at a time, so that with -short every second beginning passes over none.
func TestFaults(t *testing.T) {
	operations := int64(70)
	if soak() {
		operations = 500
	}
	step := int64(1)
	if testing.Short() {
		step = 2
	}
	for _, kind := range []fault{eio, full, short, readonly, nosync, noread} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			hits := 0
			for n := int64(1); n <= operations; n += step {
				hits += faultAt(t, kind, n)
			}
			if hits < int(operations/step)/3 && kind != noread {
				t.Errorf("only %d of %d operations failed: the test does not reach them", hits, operations/step)
			}
			t.Logf("%d operations failed", hits)
		})
	}
}

// unjournaled are those of some events that a journal does not have as they are.
func unjournaled(t *testing.T, s *Store, events []td.Event) (missing []uint64) {
	t.Helper()
	has := map[uint64]td.Event{}
	read := map[td.TaskID]bool{}
	for _, ev := range events {
		if !read[ev.Task] {
			read[ev.Task] = true
			for got, err := range s.Read(t.Context(), ev.Task, 0) {
				if err != nil {
					t.Fatal(err)
				}
				has[got.Cursor] = got
			}
		}
		if got := has[ev.Cursor]; got.Task != ev.Task || !reflect.DeepEqual(got.Body, ev.Body) {
			missing = append(missing, ev.Cursor)
		}
	}
	return missing
}

// faultAt runs a journal whose n-th operation after opening fails, together with the two after it.
func faultAt(t *testing.T, kind fault, n int64) (hit int) {
	dir := filepath.Join(t.TempDir(), "state")
	f, name := newFaulty(t, kind)
	dead := func(td.Holder) bool { return false }
	s, err := Open(t.Context(), Options{Dir: dir, vfs: name, Alive: dead})
	if err != nil {
		t.Fatal(err)
	}
	start := f.ops.Load()
	f.until.Store(start + n + 3)
	f.from.Store(start + n)

	var mu sync.Mutex
	var acks []ack
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan []td.Event)
	following, unfollow := context.WithCancel(t.Context())
	go func() {
		var evs []td.Event
		for ev, err := range s.Follow(following, store.EventFilter{}, 0) {
			if err != nil {
				break
			}
			evs = append(evs, ev.Event)
		}
		told <- evs
	}()
	err = scribble(ctx, s, 2, uint64(n), func(a ack) {
		mu.Lock()
		defer mu.Unlock()
		if acks = append(acks, a); len(acks) > 40 {
			cancel()
		}
	})
	cancel()
	if f.hit.Load() != nil {
		hit = 1
	}
	unknown := td.IsKind(err, td.Unknown) || td.IsKind(err, td.Unavailable)
	switch {
	case td.IsKind(err, td.Interrupted):
	case kind == nosync && !unknown: // a checkpoint may fail unseen, a commit may not
		t.Fatalf("operation %d: a failed sync gave %v of kind %s", n, err, td.KindOf(err))
	case td.IsKind(err, td.Storage), td.IsKind(err, td.Unknown), td.IsKind(err, td.Unavailable):
		if hit == 0 {
			t.Fatalf("operation %d: %v without a fault", n, err)
		}
		if td.HintOf(err) == "" {
			t.Errorf("operation %d: %v has no hint", n, err)
		}
	default:
		t.Fatalf("operation %d: %v of kind %s", n, err, td.KindOf(err))
	}
	// A failed sync ends all writing, perhaps of the group before the one whose write failed; after any other
	// failure it goes on when the disk does.
	f.from.Store(0)
	_, err = s.Create(t.Context(), td.Spec{ID: td.NewTaskID()}, "after")
	switch {
	case unknown && !td.IsKind(err, td.Unavailable):
		t.Errorf("operation %d: goes on after an unknown outcome: %v", n, err)
	case !unknown && err != nil && !(f.sync.Load() && td.IsKind(err, td.Unavailable)):
		t.Errorf("operation %d: does not go on after %v failed: %v", n, f.hit.Load(), err)
	}
	// What a crash at this moment would leave, and what an orderly stop leaves.
	crashed := filepath.Join(t.TempDir(), "crashed")
	copyFolder(t, dir, crashed)
	_ = s.Close() // it fails where the journal is in doubt
	unfollow()
	seen := <-told
	for _, d := range []string{crashed, dir} {
		s, err := Open(t.Context(), Options{Dir: d, Alive: dead})
		if err != nil {
			t.Fatalf("operation %d: open again: %v", n, err)
		}
		for _, w := range audit(t.Context(), s, acks) {
			t.Errorf("operation %d of %s: %s", n, d, w)
		}
		for _, cursor := range unjournaled(t, s, seen) { // nobody is told what is not journaled
			t.Errorf("operation %d: followers were told of %d, and it is not there", n, cursor)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return hit
}

// TestFaultAtOpen fails every operation of opening and making a journal.
func TestFaultAtOpen(t *testing.T) {
	for _, kind := range []fault{eio, full, readonly, nosync, noread} {
		for n := int64(1); n < 40; n++ {
			dir := filepath.Join(t.TempDir(), "state")
			f, name := newFaulty(t, kind)
			f.until.Store(n + 2)
			f.from.Store(n)
			s, err := Open(t.Context(), Options{Dir: dir, vfs: name})
			if err == nil {
				if err := s.Close(); err != nil && !td.IsKind(err, td.Storage) {
					t.Errorf("%s at %d: close: %v", kind, n, err)
				}
			} else if !td.IsKind(err, td.Storage) {
				t.Errorf("%s at %d: %v of kind %s", kind, n, err, td.KindOf(err))
			}
			s, err = Open(t.Context(), Options{Dir: dir})
			if err != nil {
				t.Fatalf("%s at %d: cannot be opened afterwards: %v", kind, n, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestBlobFaults makes the folder of blobs unusable.
func TestBlobFaults(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, Options{Dir: dir})
	w := scribbler{s: s}
	task, c := w.begin(t)
	blobs := filepath.Join(dir, "blobs")
	if err := os.RemoveAll(blobs); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(blobs, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := s.Append(t.Context(), c, task.Head, said("small"), said(strings.Repeat("x", blobOver+1)))
	if !td.IsKind(err, td.Storage) {
		t.Fatalf("got %v of kind %s", err, td.KindOf(err))
	}
	if err := os.Remove(blobs); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(blobs, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), c, task.Head, said(strings.Repeat("x", blobOver+1))); err != nil {
		t.Fatal(err)
	}
}

func (w *scribbler) begin(t testing.TB) (td.Task, td.Claim) {
	t.Helper()
	id := td.NewTaskID()
	task, err := w.s.Create(t.Context(), td.Spec{ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength)}, string(id))
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.s.Claim(t.Context(), id, td.Holder{Host: "h", Pid: 1})
	if err != nil {
		t.Fatal(err)
	}
	return task, c
}
