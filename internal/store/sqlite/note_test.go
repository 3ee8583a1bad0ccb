package sqlite

import (
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// noted is the folder of a journal with a task that left two notes, one of them in a blob.
func noted(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := openTest(t, Options{Dir: dir})
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	task, err := s.Create(t.Context(), td.Spec{ID: td.NewTaskID(), Title: "the lexer", Project: "/p", CreatedAt: at}, "")
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Claim(t.Context(), task.ID, td.Holder{Host: "h"})
	if err != nil {
		t.Fatal(err)
	}
	note := func(text string) td.Event {
		return td.Event{At: at, Body: td.IterationEnded{Iteration: 1, Ending: td.EndedUnclear, Notes: text, Run: "r"}}
	}
	if _, err := s.Append(t.Context(), c, task.Head, note("first"), note(strings.Repeat("second ", blobOver))); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A journal of an earlier version has the notes that its records hold.
func TestMigrateNotes(t *testing.T) {
	dir := noted(t)
	ofVersion(t, dir, 4, append([]string{"DROP TABLE notes", "DROP TABLE runs"}, noTokens...)...)
	s := openTest(t, Options{Dir: dir})
	defer s.Close()
	for match, want := range map[string]int{"": 2, "first": 1, "second": 1, "lexer": 2} {
		got, err := s.Notes(t.Context(), store.NoteQuery{Project: "/p", Run: "r", Match: match})
		if err != nil || len(got) != want {
			t.Errorf("%q: %d notes, %v; want %d", match, len(got), err, want)
		}
	}
	if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("check found %+v, %v", found, err)
	}
}

// Check tells of a list of notes that does not agree with the records.
func TestCheckFindsWrongNotes(t *testing.T) {
	for _, sql := range []string{
		"DELETE FROM notes WHERE cursor = 2",
		"UPDATE notes SET project = '/q' WHERE cursor = 2",
		"UPDATE notes SET run = 'x'",
		"UPDATE notes SET words = 'x' WHERE cursor = 3",
		"INSERT INTO notes VALUES (1, 1, '/p', 'r', '')",
	} {
		dir := noted(t)
		tamper(t, dir, sql)
		s := openTest(t, Options{Dir: dir})
		if found, err := s.Check(t.Context()); err != nil || len(found) == 0 || !strings.Contains(found[0].What, "note") {
			t.Errorf("%s: check found %+v, %v", sql, found, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
