package sqlite

import (
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// ordered is a journal with one open run over a graph.
func ordered(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s := openTest(t, Options{Dir: dir})
	c, err := s.Claim(t.Context(), td.DaemonStream, td.Holder{Host: "h"})
	if err != nil {
		t.Fatal(err)
	}
	order := td.GraphRunOrdered{Order: td.GraphOrder{Run: "r-1", Project: "/p", Parallel: 2}}
	if _, err := s.Append(t.Context(), c, 0, td.Event{At: time.Now(), Body: order}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A journal of an earlier version has no runs, and takes the first.
func TestMigrateRuns(t *testing.T) {
	dir := filled(t, 2)
	ofVersion(t, dir, 5, append([]string{"DROP TABLE runs"}, noTokens...)...)
	s := openTest(t, Options{Dir: dir})
	defer s.Close()
	if got, err := s.Runs(t.Context(), store.RunFilter{}); err != nil || len(got) > 0 {
		t.Errorf("runs of an earlier version: %+v, %v", got, err)
	}
	c, err := s.Claim(t.Context(), td.DaemonStream, td.Holder{Host: "h"})
	if err != nil {
		t.Fatal(err)
	}
	own, err := s.Task(t.Context(), td.DaemonStream)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), c, own.Head, td.Event{At: time.Now(), Body: td.GraphRunOrdered{Order: td.GraphOrder{Run: "r", Project: "/p"}}}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Runs(t.Context(), store.RunFilter{Open: true}); err != nil || len(got) != 1 {
		t.Errorf("the first run: %+v, %v", got, err)
	}
}

// Check tells of a table of runs that does not agree with the records, and a list goes on without what it cannot read.
func TestCheckFindsWrongRuns(t *testing.T) {
	for sql, left := range map[string]int{
		"DELETE FROM runs":                                              0,
		"UPDATE runs SET run = CAST('{' AS BLOB)":                       0,
		`UPDATE runs SET run = CAST('{"run":"r-1"}' AS BLOB)`:           1,
		"INSERT INTO runs VALUES ('x', '/p', 1, 0, CAST('{}' AS BLOB))": 2,
	} {
		dir := ordered(t)
		tamper(t, dir, sql)
		s := openTest(t, Options{Dir: dir})
		if found, err := s.Check(t.Context()); err != nil || len(found) == 0 || !strings.Contains(found[0].What, "run ") {
			t.Errorf("%s: check found %+v, %v", sql, found, err)
		}
		if got, err := s.Runs(t.Context(), store.RunFilter{}); err != nil || len(got) != left {
			t.Errorf("%s: %d runs, %v", sql, len(got), err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
