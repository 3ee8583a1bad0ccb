package sqlite

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3/vfs"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// holding is a VFS that can hold a sync.
type holding struct {
	*faulty
	next atomic.Bool   // hold the next sync
	held chan struct{} // closed when it is held
	free chan struct{} // close to let it go
}

func (h *holding) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	file, flags, err := h.faulty.OpenFilename(name, flags)
	if err != nil {
		return nil, flags, err
	}
	return &holdingFile{file.(*faultyFile), h}, flags, nil
}

type holdingFile struct {
	*faultyFile
	h *holding
}

func (f *holdingFile) Sync(flags vfs.SyncFlag) error {
	if f.h.next.CompareAndSwap(true, false) {
		close(f.h.held)
		<-f.h.free
	}
	return f.faultyFile.Sync(flags)
}

// TestNobodyIsToldBeforeTheCommit looks around while a commit waits for the disk: of events that a loss of
// power could still take back nobody must know, be it a follower, a reader or their writer.
func TestNobodyIsToldBeforeTheCommit(t *testing.T) {
	f, name := newFaulty(t, nosync)
	h := &holding{faulty: f, held: make(chan struct{}), free: make(chan struct{})}
	vfs.Register(name, h)
	s := openTest(t, Options{Dir: t.TempDir(), vfs: name})
	letGo := sync.OnceFunc(func() { close(h.free) })
	t.Cleanup(letGo)
	task, c := (&scribbler{s: s}).begin(t)
	before, err := s.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	told := func() (n int) {
		for _, err := range s.Follow(t.Context(), store.EventFilter{NoFuture: true}, before) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}

	h.next.Store(true)
	appended := make(chan error, 1)
	go func() {
		_, err := s.Append(t.Context(), c, task.Head, said("a"), said("b"))
		appended <- err
	}()
	select {
	case <-h.held:
	case err := <-appended:
		t.Fatalf("appended without a sync: %v", err)
	}
	if last, err := s.Last(t.Context()); err != nil || last != before {
		t.Errorf("the newest event is said to be %d, not %d (%v)", last, before, err)
	}
	if n := told(); n != 0 {
		t.Errorf("followers were told of %d events", n)
	}
	brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if now, err := s.Task(brief, task.ID); err == nil {
		t.Errorf("a reader was told of the head %d", now.Head)
	}
	select {
	case err := <-appended:
		t.Errorf("the writer was told: %v", err)
	default:
	}
	letGo()
	if err := <-appended; err != nil {
		t.Fatal(err)
	}
	if now, err := s.Task(t.Context(), task.ID); err != nil || now.Head != task.Head+2 {
		t.Errorf("readers see the head %d, not %d (%v)", now.Head, task.Head+2, err)
	}
	if n := told(); n != 2 {
		t.Errorf("followers were told of %d events, not 2", n)
	}
}

// TestFollowGathers: who does not want to be woken for each event is told of the first at once, and of more not before its time.
func TestFollowGathers(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir()})
	task, c := (&scribbler{s: s}).begin(t)
	before, err := s.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	follow := func(every func() time.Duration) chan td.Event {
		told := make(chan td.Event, 10)
		wg.Go(func() {
			defer close(told)
			for ev, err := range s.Follow(ctx, store.EventFilter{Every: every}, before) {
				if err != nil {
					t.Error(err)
					return
				}
				told <- ev.Event
			}
		})
		return told
	}
	patient, eager := follow(func() time.Duration { return time.Hour }), follow(nil)
	for _, text := range []string{"a", "b"} {
		if task, err = s.Append(t.Context(), c, task.Head, said(text)); err != nil {
			t.Fatal(err)
		}
		<-eager
		if text == "a" {
			<-patient
		}
	}
	cancel()
	wg.Wait()
	if ev, more := <-patient; more {
		t.Errorf("it was told of %+v within the hour", ev)
	}
}
