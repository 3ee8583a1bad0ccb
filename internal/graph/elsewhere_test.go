package graph

import (
	"errors"
	"os"
	"testing"

	"taskdaemon/internal/td"
)

// What is to be known elsewhere, too, is in the log exactly if it is there or may be.
func TestAddWith(t *testing.T) {
	for name, c := range map[string]struct {
		fails error
		stays bool
	}{
		"done":      {nil, true},
		"not known": {td.Errorf(td.Unknown, "the sync failed"), true},
		"refused":   {td.Errorf(td.Storage, "the disk is full"), false},
		"plain":     {errors.New("no"), false},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := fresh(t)
			if _, err := s.Add(t.Context(), Task{Title: "before"}); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(s.path)
			if err != nil {
				t.Fatal(err)
			}
			var told td.TaskID
			err = s.AddWith(t.Context(), Task{Title: "new", Key: "k"}, func(id td.TaskID, handle string) error {
				told = id
				return c.fails
			})
			if !errors.Is(err, c.fails) || told == "" {
				t.Fatalf("it says %v of %q", err, told)
			}
			after, err := os.ReadFile(s.path)
			if err != nil || (len(after) > len(before)) != c.stays {
				t.Errorf("the log had %d bytes and has %d: %v", len(before), len(after), err)
			}
			ids, all, err := s.Known(t.Context(), []string{"k"})
			if err != nil || all != c.stays || all && ids[0] != told {
				t.Errorf("known as %v, %v", ids, err)
			}
			again := told
			if err := s.AddWith(t.Context(), Task{Title: "new", Key: "k"}, func(id td.TaskID, _ string) error { again = id; return nil }); err != nil {
				t.Fatal(err)
			}
			if (again == told) != c.stays {
				t.Errorf("added again it is %s, and was %s", again, told)
			}
		})
	}
}

// A change that the index has no room for is not in the log.
func TestUnreadIsTakenBack(t *testing.T) {
	s, _ := fresh(t)
	if err := s.index.db.Exec("CREATE TRIGGER full BEFORE INSERT ON record BEGIN SELECT RAISE(ABORT, 'full'); END"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Add(t.Context(), Task{Title: "refused"}); !td.IsKind(err, td.Storage) {
		t.Fatalf("it says %v", err)
	}
	if log, err := os.ReadFile(s.path); err != nil || len(log) > 0 {
		t.Errorf("what was refused is in the log: %q, %v", log, err)
	}
	if err := s.index.db.Exec("DROP TRIGGER full"); err != nil {
		t.Fatal(err)
	}
	if added, err := s.Add(t.Context(), Task{Title: "added"}); err != nil || added[0].Title != "added" {
		t.Errorf("afterwards: %v, %v", added, err)
	}
}
