package sqlite

import (
	"slices"
	"testing"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// A journal from before the ledger gets one: what its tasks cost is booked, to their trees too, and agrees
// with their records.
func TestLedgerOfAnOlderJournal(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, Options{Dir: dir})
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	root := td.NewTaskID()
	for _, spec := range []td.Spec{{ID: root}, {ID: td.NewTaskID(), Parent: root}, {ID: td.NewTaskID()}} {
		spec.CreatedAt = at
		task, err := s.Create(t.Context(), spec, "")
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Claim(t.Context(), task.ID, td.Holder{Host: "here", Pid: 1})
		if err != nil {
			t.Fatal(err)
		}
		cost := td.Money(7)
		if spec.ID != root && spec.Parent == "" {
			cost = 0 // it called nobody
		}
		answer := td.StepEnded{Outcome: td.Outcome{Key: "t1.model", Via: td.Ran, Model: &td.ModelResult{Model: "m", Cost: cost, Usage: td.Usage{Input: 3}}}}
		if _, err := s.Append(t.Context(), c, task.Head, td.Event{At: at, Body: answer}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ofVersion(t, dir, 2, append(slices.Clone(noSums), "DROP TABLE spend", "DROP TABLE spend_days", "DROP TABLE reserved", "DROP TABLE caps", "DROP TABLE notes", "DROP TABLE runs")...)
	s = openTest(t, Options{Dir: dir})
	defer s.Close()
	got, err := s.Balances(t.Context(), td.Cap{Scope: td.OfTask, Key: string(root)}, td.Cap{Scope: td.OfTree, Key: string(root)},
		td.Cap{Scope: td.OfDay, Key: "2030-01-02"}, td.Cap{Scope: td.OfMonth, Key: "2030-01"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []td.Money{7, 14, 14, 14} {
		if got[i].Spent != want {
			t.Errorf("%s: %d are spent, want %d", got[i].Scope, got[i].Spent, want)
		}
	}
	if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("check found %+v, %v", found, err)
	}
}

// Check tells of a ledger that does not agree with the records.
func TestCheckFindsAWrongLedger(t *testing.T) {
	for _, sql := range []string{
		"UPDATE spend SET amount = amount + 1",
		"DELETE FROM spend",
		"UPDATE reserved SET amount = amount - 1",
		"DELETE FROM reserved",
		"UPDATE spend SET tokens = tokens + 1",
		"UPDATE reserved SET tokens = tokens - 1",
		"INSERT INTO reserved VALUES (1, 'x', 1, '2030-01-02', 5, 0)",
	} {
		dir := t.TempDir()
		s := openTest(t, Options{Dir: dir})
		at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
		task, err := s.Create(t.Context(), td.Spec{ID: td.NewTaskID(), CreatedAt: at}, "")
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Claim(t.Context(), task.ID, td.Holder{Host: "here", Pid: 1})
		if err != nil {
			t.Fatal(err)
		}
		intent := td.Intent{Key: "t1.model", Kind: td.ModelStep, Name: "m", Effect: td.Pure, Reserve: &td.Reserve{Amount: 40, Input: 8, Cause: td.CauseTurn, Day: "2030-01-02"}}
		for range 2 { // the second is the first made again
			if task, err = s.Append(t.Context(), c, task.Head, td.Event{At: at, Body: td.StepIntended{Intent: intent}}); err != nil {
				t.Fatal(err)
			}
		}
		if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
			t.Fatalf("check found %+v, %v", found, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		tamper(t, dir, sql)
		s = openTest(t, Options{Dir: dir})
		found, err := s.Check(t.Context())
		found = slices.DeleteFunc(found, func(p store.Problem) bool { return p.What == "the sums over the ledger are wrong" })
		if err != nil || len(found) != 1 || found[0].Task != task.ID {
			t.Errorf("%s: check found %+v, %v", sql, found, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// noTallies takes away what version 10 added.
const noTallies = "DROP TABLE tallies"

// noSums takes away what version 9 added, too, and gives back what it took.
var noSums = []string{
	noTallies,
	"DROP TRIGGER tasks_added", "DROP TRIGGER tasks_moved", "DROP TABLE counts",
	"CREATE TABLE spend_days (day TEXT PRIMARY KEY, amount INTEGER NOT NULL, tokens INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID",
	"INSERT INTO spend_days SELECT day, sum(amount), sum(tokens) FROM spend_sums GROUP BY day", "DROP TABLE spend_sums",
}

// noTokens takes away what version 7 added.
var noTokens = append(slices.Clone(noSums),
	"DROP INDEX spend_tree_tokens", "ALTER TABLE spend DROP COLUMN tokens", "ALTER TABLE spend DROP COLUMN estimated", "ALTER TABLE spend DROP COLUMN replayed",
	"ALTER TABLE spend_days DROP COLUMN tokens", "ALTER TABLE reserved DROP COLUMN tokens",
)

// A journal from before there were token budgets, with a call under way and one that was lost: what is in it folds as it
// did, and counts no tokens.
func TestLedgerBeforeTokens(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, Options{Dir: dir})
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	task, err := s.Create(t.Context(), td.Spec{ID: td.NewTaskID(), CreatedAt: at}, "")
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Claim(t.Context(), task.ID, td.Holder{Host: "here", Pid: 1})
	if err != nil {
		t.Fatal(err)
	}
	intent := td.Intent{Key: "t1.model", Kind: td.ModelStep, Name: "m", Effect: td.Pure, Reserve: &td.Reserve{Amount: 40, Input: 8, Cause: td.CauseTurn, Day: "2030-01-02"}}
	for range 2 {
		if task, err = s.Append(t.Context(), c, task.Head, td.Event{At: at, Body: td.StepIntended{Intent: intent}}); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Second)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ofVersion(t, dir, 6, noTokens...)
	s = openTest(t, Options{Dir: dir})
	defer s.Close()
	got, err := s.Balances(t.Context(), td.Cap{Scope: td.OfTask, Key: string(task.ID)}, td.Cap{Scope: td.OfTreeTokens, Key: string(task.ID)}, td.Cap{Scope: td.OfDayTokens, Key: "2030-01-02"})
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Spent != 8 || got[0].Reserved != 40 || got[1].Spent+got[1].Reserved+got[2].Spent+got[2].Reserved != 0 {
		t.Errorf("the balances are %+v", got)
	}
	if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("check found %+v, %v", found, err)
	}
}
