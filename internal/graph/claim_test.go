package graph

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
)

// clones are two stores whose logs are exchanged by hand.
type clones struct {
	t        *testing.T
	ann, ben *Store
	now      time.Time
}

func newClones(t *testing.T) *clones {
	t.Helper()
	c := &clones{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	open := func(name string) *Store {
		root := filepath.Join(t.TempDir(), name)
		if err := Make(root); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), Options{Root: root, Index: filepath.Join(t.TempDir(), name+".db"), Now: func() time.Time { return c.now }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	c.ann, c.ben = open("ann"), open("ben")
	return c
}

// sync merges the logs of both.
func (c *clones) sync() {
	c.t.Helper()
	read := func(s *Store) []byte {
		raw, err := os.ReadFile(s.path)
		if err != nil {
			c.t.Fatal(err)
		}
		return raw
	}
	both := jsonl.Merge(nil, read(c.ann), read(c.ben))
	for _, s := range []*Store{c.ann, c.ben} {
		if err := os.WriteFile(s.path, both, 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *clones) claim(s *Store, id td.TaskID, who string, take bool) error {
	c.now = c.now.Add(time.Second)
	return s.Claim(c.t.Context(), id, who, "host", take)
}

// taken says whose claim keeps each clone from the task: of ann's, then of ben's store.
func (c *clones) taken(id td.TaskID) string {
	c.t.Helper()
	var out []string
	for _, s := range []*Store{c.ann, c.ben} {
		claim, is, err := s.Elsewhere(c.t.Context(), id)
		if err != nil {
			c.t.Fatal(err)
		}
		if !is {
			claim.Who = "-"
		}
		out = append(out, claim.Who)
	}
	return strings.Join(out, " ")
}

func (c *clones) want(id td.TaskID, what, want string) {
	c.t.Helper()
	if got := c.taken(id); got != want {
		c.t.Errorf("%s: kept by %q, want %q", what, got, want)
	}
}

func TestClaims(t *testing.T) {
	c := newClones(t)
	added, err := c.ann.Add(t.Context(), Task{Title: "one"})
	if err != nil {
		t.Fatal(err)
	}
	id := added[0].ID
	c.sync()
	c.want(id, "at first", "- -")
	for range 2 { // once more changes nothing
		if err := c.claim(c.ann, id, "ann", false); err != nil {
			t.Fatal(err)
		}
	}
	if history, err := c.ann.History(t.Context(), id); err != nil || len(history) != 2 {
		t.Errorf("%d changes, %v", len(history), err)
	}
	c.want(id, "before they meet", "- -")
	if err := c.claim(c.ben, id, "ben", false); err != nil {
		t.Fatal(err)
	}
	c.sync()
	c.want(id, "both claimed it", "- ann")
	if err := c.claim(c.ben, id, "ben", true); err != nil {
		t.Fatal(err)
	}
	c.sync()
	c.want(id, "taken by force", "ben -")

	if err := c.ben.Unclaim(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	if err := c.claim(c.ben, id, "ben", false); err != nil {
		t.Fatal(err)
	}
	c.sync()
	c.want(id, "given up for all, and claimed", "ben -")
	if err := c.claim(c.ann, id, "ann", false); !td.IsKind(err, td.Conflict) || td.HintOf(err) == "" {
		t.Errorf("claim what another has: %v", err)
	}
	c.now = c.now.Add(ClaimTerm)
	c.want(id, "run out", "- -")
	if err := c.claim(c.ann, id, "ann", false); err != nil {
		t.Fatal(err)
	}
	c.sync()
	c.want(id, "claimed after that", "- ann")
	if err := c.ann.End(t.Context(), id, Verdict{State: td.Completed, Run: "r", At: c.now}); err != nil {
		t.Fatal(err)
	}
	for _, take := range []bool{false, true} {
		if err := c.claim(c.ann, id, "ann", take); !td.IsKind(err, td.Conflict) || td.HintOf(err) == "" {
			t.Errorf("claim what has ended: %v", err)
		}
	}
	if err := c.ann.Reopen(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	c.sync()
	c.want(id, "ended, and opened again", "- -")
}
