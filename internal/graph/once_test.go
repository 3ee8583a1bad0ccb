package graph

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

// related are the names of the tasks that have to do with one.
func related(t *testing.T, s *Store, id td.TaskID) (titles []string) {
	t.Helper()
	err := s.View(t.Context(), func(*workgraph.Graph) {
		for _, r := range s.Related(id) {
			titles = append(titles, s.Name(r).Title)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(titles)
	return titles
}

// What is related is so from both sides, whoever said it, and either side can take it back.
func TestRelatedFromBothSides(t *testing.T) {
	s, root := fresh(t)
	a := add(t, s, Task{Title: "a"})[0]
	b := add(t, s, Task{Title: "b", Related: []td.TaskID{a.ID}})[0]
	c := add(t, s, Task{Title: "c", Related: []td.TaskID{a.ID, b.ID}})[0]
	want := func(s *Store, id td.TaskID, titles ...string) {
		t.Helper()
		if got := related(t, s, id); !slices.Equal(got, titles) {
			t.Errorf("related to %s are %v, want %v", s.Name(id).Title, got, titles)
		}
	}
	want(s, a.ID, "b", "c")
	want(s, b.ID, "a", "c")
	other := open(t, root, filepath.Join(t.TempDir(), "other.db"))
	want(other, a.ID, "b", "c")
	if _, err := s.Edit(t.Context(), a.ID, Edit{RemoveRelated: []td.TaskID{b.ID}}); err != nil {
		t.Fatal(err)
	}
	want(s, a.ID, "c")
	want(s, b.ID, "c")
	want(other, b.ID, "c")
	if err := s.Delete(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	want(s, a.ID)
	want(other, b.ID)
}

// What was changed under a key is not changed again, be it by another process or after the index was lost.
func TestOnce(t *testing.T) {
	s, root := fresh(t)
	a := add(t, s, Task{Title: "a"})[0]
	one, two := "one", "two"
	edit := func(s *Store, key string, title *string) {
		t.Helper()
		if _, err := s.Once(key).Edit(t.Context(), a.ID, Edit{Title: title}); err != nil {
			t.Fatal(err)
		}
	}
	edit(s, "k1", &one)
	edit(s, "k2", &two)
	other := open(t, root, filepath.Join(t.TempDir(), "other.db"))
	before := content(t, root)
	edit(other, "k1", &one)
	edit(s, "k1", &one)
	if content(t, root) != before {
		t.Error("a change was made twice")
	}
	done := Verdict{State: td.Completed, At: time.Unix(1, 0)}
	for range 2 {
		if err := s.Once("k3").End(t.Context(), a.ID, done); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Once("k4").Reopen(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Once("k3").End(t.Context(), a.ID, done); err != nil {
		t.Fatal(err)
	}
	if task, err := s.Task(t.Context(), a.ID); err != nil || task.Verdict != nil {
		t.Errorf("closed by a call that had been made before it was opened again: %+v, %v", task.Verdict, err)
	}
	for range 2 {
		if err := s.Once("k5").Delete(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Once("k6").Delete(t.Context(), a.ID); !td.IsKind(err, td.NotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	for key, want := range map[string]bool{"k5": true, "k1": false, "k6": false, "": false} {
		if was, ok, err := other.Once(key).Deleted(t.Context()); err != nil || ok != want || ok && was.Title != "two" {
			t.Errorf("deleted under %q: %+v, %t, %v", key, was, ok, err)
		}
	}
	if err := s.Once("a\"b").Delete(t.Context(), a.ID); !td.IsKind(err, td.Invalid) {
		t.Errorf("a key that has to be escaped: %v", err)
	}
}

// What a run said of its end it does not say again, though the task was opened since. Its next end is another one, and
// a person is not bound by any.
func TestAnEndCountsOnce(t *testing.T) {
	s, root := fresh(t)
	a := add(t, s, Task{Title: "a"})[0]
	first := Verdict{State: td.Completed, Run: "r", At: time.Unix(1, 5).UTC()}
	second := Verdict{State: td.Cancelled, Run: "r", At: time.Unix(2, 5).UTC()} // given back to a run, and cancelled before it began
	end := func(v Verdict, want bool) {
		t.Helper()
		if err := s.End(t.Context(), a.ID, v); err != nil {
			t.Fatal(err)
		}
		got, err := s.Task(t.Context(), a.ID)
		if err != nil || (got.Verdict != nil) != want {
			t.Errorf("its verdict is %+v (%v)", got.Verdict, err)
		}
	}
	reopen := func() {
		t.Helper()
		if err := s.Reopen(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
	}
	end(first, true)
	reopen()
	end(first, false)
	end(second, true)
	reopen()
	end(second, false)
	if _, _, err := s.Compact(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	s = open(t, root, filepath.Join(t.TempDir(), "other.db"))
	end(second, false)
	// A person was faster: what the run says then counts as said.
	third := Verdict{State: td.Cancelled, Run: "r3", At: time.Unix(3, 0).UTC()}
	end(Verdict{State: td.Failed, By: "ann", At: time.Unix(3, 0).UTC()}, true)
	end(third, true)
	if got, err := s.Task(t.Context(), a.ID); err != nil || got.Verdict.By != "ann" || !got.Knows(third) {
		t.Errorf("a run and a person: %+v, closed %+v (%v)", got.Verdict, got.Closed, err)
	}
	reopen()
	end(third, false)
}

// A log that was changed without a trace is found out, and read again.
func TestVerify(t *testing.T) {
	s, root := fresh(t)
	add(t, s, Task{Title: "abc"})
	if ok, err := s.Verify(t.Context()); err != nil || !ok {
		t.Errorf("as it was written: %t, %v", ok, err)
	}
	info, err := os.Stat(s.path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, strings.Replace(content(t, root), "abc", "xyz", 1))
	if err := os.Chtimes(s.path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.Verify(t.Context()); err != nil || ok {
		t.Errorf("changed without a trace: %t, %v", ok, err)
	}
	if ok, err := s.Verify(t.Context()); err != nil || !ok {
		t.Errorf("after it was made anew: %t, %v", ok, err)
	}
	wants(t, s, "xyz")
	if lost, err := s.Lost(t.Context()); err != nil || len(lost) != 1 || lost[0].Title != "abc" {
		t.Errorf("lost %v, %v", lost, err)
	}
}

// The index may go at any time: all there is to know is in the log.
func TestIndexIsLost(t *testing.T) {
	root, path := project(t), filepath.Join(t.TempDir(), "index.db")
	s, err := Open(t.Context(), Options{Root: root, Index: path})
	if err != nil {
		t.Fatal(err)
	}
	a := add(t, s, Task{Title: "a", Key: "key of a", Labels: []string{"x"}})[0]
	add(t, s, Task{Title: "b", Blockers: []td.TaskID{a.ID}, Related: []td.TaskID{a.ID}})
	if err := s.Once("k").End(t.Context(), a.ID, Verdict{State: td.Completed, Summary: "well"}); err != nil {
		t.Fatal(err)
	}
	want, err := s.Task(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + end); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	s = open(t, root, path)
	got, err := s.Task(t.Context(), a.ID)
	if err != nil || got.Verdict == nil || *got.Verdict != *want.Verdict || got.Key != want.Key || !got.UpdatedAt.Equal(want.UpdatedAt) {
		t.Errorf("after the index was lost: %+v, %v, want %+v", got, err, want)
	}
	if got := ready(t, s); !slices.Equal(got, []string{"b"}) {
		t.Errorf("ready are %v", got)
	}
	if got := related(t, s, a.ID); !slices.Equal(got, []string{"b"}) {
		t.Errorf("related to a are %v", got)
	}
	if again := add(t, s, Task{Title: "a", Key: "key of a"})[0]; again.ID != a.ID {
		t.Errorf("added again: %s", again.ID)
	}
	if log, err := s.History(t.Context(), a.ID); err != nil || len(log) != 2 {
		t.Errorf("history of %d changes, %v", len(log), err)
	}
}
