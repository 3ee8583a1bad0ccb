package sqlite

import (
	"cmp"
	"reflect"
	"slices"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// A journal from before there were tallies gets them from its records, the same as if they had been counted as they were written.
func TestMigrateTallies(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, Options{Dir: dir})
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for range 3 {
		task, err := s.Create(t.Context(), td.Spec{ID: td.NewTaskID(), CreatedAt: at}, "")
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Claim(t.Context(), task.ID, td.Holder{Host: "here", Pid: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range []td.Body{
			td.StepIntended{Intent: td.Intent{Key: "t1.model", Kind: td.ModelStep, Name: "m", Effect: td.Pure}},
			td.StepEnded{Outcome: td.Outcome{Key: "t1.model", Took: time.Second, Model: &td.ModelResult{Usage: td.Usage{Input: 5}, Cost: 3}}},
			td.StepIntended{Intent: td.Intent{Key: "t1.0", Kind: td.ToolStep, Name: "Read", Effect: td.Pure}},
			td.Discarded{},
			td.StepIntended{Intent: td.Intent{Key: "t2.0", Kind: td.ToolStep, Name: "Read", Effect: td.Pure}},
			td.StepEnded{Outcome: td.Outcome{Key: "t2.0", Tool: &td.ToolResult{IsError: true}}},
		} {
			at = at.Add(time.Minute)
			if task, err = s.Append(t.Context(), c, task.Head, td.Event{At: at, Body: body}); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := tallyList(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, dir, noTallies)
	tamper(t, dir, "PRAGMA user_version = 9")
	s = openTest(t, Options{Dir: dir})
	defer s.Close()
	if got := tallyList(t, s); len(got) == 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("counted anew:\n%+v\nas it was written:\n%+v", got, want)
	}
	if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("check found %+v, %v", found, err)
	}
}

func tallyList(t *testing.T, s *Store) []td.Tally {
	t.Helper()
	out, err := s.Tallies(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(out, func(a, b td.Tally) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Took, b.Took))
	})
	return out
}
