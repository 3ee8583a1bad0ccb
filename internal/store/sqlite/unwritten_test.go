package sqlite

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// TestBatchesOfEverySize appends any number of events at once: they are written in batches of a few sizes.
func TestBatchesOfEverySize(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir()})
	c, head := running(t, s)
	for n := 1; n <= 2*batches[0]+batches[1]+2; n++ {
		evs := make([]td.Event, n)
		for i := range evs {
			evs[i] = saying(fmt.Sprint(n, "/", i))
			if i == n/2 {
				evs[i] = saying(strings.Repeat("x", blobOver+n))
			}
		}
		task, err := s.Append(t.Context(), c, head, evs...)
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for ev, err := range s.Read(t.Context(), c.Task, head) {
			if err != nil {
				t.Fatal(err)
			}
			if i >= n || ev.Body != evs[i].Body || ev.Seq != head+uint64(i)+1 {
				t.Fatalf("%d of %d is %d, %.40v", i, n, ev.Seq, ev.Body)
			}
			i++
		}
		if i != n || task.Head != head+uint64(n) {
			t.Fatalf("%d of %d, head %d", i, n, task.Head)
		}
		head = task.Head
	}
	sound(t, s)
}

// TestGroupSeesItsOwnRows puts calls about one task into one group: what a call before them made is not in the
// transaction yet.
func TestGroupSeesItsOwnRows(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir()})
	c, head := running(t, s)
	first, second := saying("first"), saying("second")
	appends := func(after uint64, ev td.Event) func() error {
		return func() error {
			_, err := s.Append(t.Context(), c, after, ev)
			return err
		}
	}
	for i, err := range oneGroup(t, s,
		appends(head, first), appends(head+1, second), appends(head, first), appends(head+1, second), appends(head, second),
	) {
		if conflict := i == 4; td.IsKind(err, td.Conflict) != conflict || !conflict && err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	task, err := s.Task(t.Context(), c.Task)
	if err != nil || task.Head != head+2 {
		t.Fatalf("head %d after %d, %v", task.Head, head, err)
	}
	sound(t, s)
}

// TestGroupIsolatesRows puts a row that the database refuses into one group with others. It comes to light when
// the rows of all are written.
func TestGroupIsolatesRows(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir()})
	good := func() error {
		c, head := running(t, s)
		_, err := s.Append(t.Context(), c, head, saying("good"))
		return err
	}
	if err := good(); err != nil {
		t.Fatal(err)
	}
	taken := &td.Record{Event: td.Event{Cursor: 1, Body: td.Said{}}, Raw: []byte("{}")}
	bad := func() error {
		return s.w.do(t.Context(), func(t *tx) error {
			t.wrote = true
			t.w.unwritten.events = append(t.w.unwritten.events, eventRow{ev: taken})
			return nil
		})
	}
	c, head := running(t, s)
	errs := oneGroup(t, s, bad, func() error {
		_, err := s.Append(t.Context(), c, head, saying("beside it"))
		return err
	})
	if errs[0] == nil || errs[1] != nil {
		t.Errorf("the bad one: %v, the good one: %v", errs[0], errs[1])
	}
	if err := good(); err != nil {
		t.Error(err)
	}
	sound(t, s)
}

func saying(text string) td.Event {
	return td.Event{At: time.Unix(1e9, 0).UTC(), Body: td.Said{Text: text, By: "test"}}
}

// running is a new task that runs.
func running(t *testing.T, s *Store) (td.Claim, uint64) {
	t.Helper()
	id := td.NewTaskID()
	task, err := s.Create(t.Context(), td.Spec{ID: id, Title: "a task", Prompt: "do it", Dir: "/src/proj", CreatedAt: time.Now()}, string(id))
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Claim(t.Context(), id, td.Holder{Host: "here", Pid: 1})
	if err != nil {
		t.Fatal(err)
	}
	m, err := td.Start(task, td.NewRunID(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if task, err = s.Append(t.Context(), c, task.Head, m.Events...); err != nil {
		t.Fatal(err)
	}
	return c, task.Head
}

// oneGroup makes calls that the writer finds together, in this order.
func oneGroup(t *testing.T, s *Store, calls ...func() error) []error {
	t.Helper()
	hold, held := make(chan struct{}), make(chan struct{})
	holding := make(chan error)
	go func() { holding <- s.w.do(t.Context(), func(*tx) error { close(held); <-hold; return nil }) }()
	<-held
	results := make([]chan error, len(calls))
	for i, call := range calls {
		results[i] = make(chan error, 1)
		go func() { results[i] <- call() }()
		for queued := 0; queued <= i; {
			s.w.mu.Lock()
			queued = len(s.w.queue)
			s.w.mu.Unlock()
		}
	}
	close(hold)
	if err := <-holding; err != nil {
		t.Fatal(err)
	}
	errs := make([]error, len(calls))
	for i := range calls {
		errs[i] = <-results[i]
	}
	return errs
}

// sound checks that the journal proves itself.
func sound(t *testing.T, s *Store) {
	t.Helper()
	if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
		t.Fatalf("found %+v, %v", found, err)
	}
}
