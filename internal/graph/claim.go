package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
)

// Claim says that a clone of the project works on a task. Clones know of each other only what is synced: two may claim
// the same task, and then the earlier claim counts.
type Claim struct {
	Who   string `json:"who,omitempty"`
	Host  string `json:"host,omitempty"`
	Clone string `json:"clone"` // the name under which it writes to the log
	// At is when it was made, by the clocks that all clones agree on.
	At time.Time `json:"at,omitzero"`

	op jsonl.Stamp
}

// ClaimTerm is how long a claim counts: whoever made it may be gone for good.
const ClaimTerm = 24 * time.Hour

const setClaims = "claims"

// claimsOf are the claims of a task, the earliest first. What cannot be read claims nothing.
func claimsOf(r *jsonl.Record) (out []Claim) {
	for name, m := range r.Sets[setClaims] {
		var c Claim
		if !m.In || json.Unmarshal([]byte(name), &c) != nil || c.Clone == "" {
			continue
		}
		c.op, c.At = m.Op, m.Op.Time().UTC()
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Claim) int { return a.op.Compare(b.op) })
	return out
}

// member is the claim in the log. The time is that of the op that adds it.
func (c Claim) member() (string, error) {
	c.At = time.Time{}
	raw, err := json.Marshal(c)
	return string(raw), err
}

// counts reports whether a claim has not run out.
func (c Claim) counts(now time.Time) bool { return now.Sub(c.At) < ClaimTerm }

// Claim says that this clone works on a task. If another does, that is a conflict, unless the task is taken from it; that the
// task has ended always is. What this clone has it keeps.
func (s *Store) Claim(ctx context.Context, id td.TaskID, who, host string, take bool) error {
	return s.write(ctx, "", func() ([]change, error) {
		t, err := s.read(id)
		if err != nil {
			return nil, err
		}
		if t.Verdict != nil {
			return nil, td.Errorf(td.Conflict, "%s is %s", t.Handle, t.Verdict.State).WithHint("taskdaemon task reset %s", t.Handle)
		}
		if other, is := s.elsewhere(t.Claims); is && !take {
			return nil, td.Errorf(td.Conflict, "%s is claimed by %s", t.Handle, other.Words()).WithHint("taskdaemon task reset %s takes it", t.Handle)
		}
		c := change{jsonl.Change{Task: id}}
		mine, has := Claim{Who: s.secrets.String(who), Host: host, Clone: s.clone}, false
		for _, old := range t.Claims {
			switch {
			case old.Clone == s.clone && old.counts(s.now()):
				has = true
			case old.Clone == mine.Clone && old.Who == mine.Who && old.Host == mine.Host: // it is made anew
			default:
				if err := c.unclaim(old); err != nil {
					return nil, err
				}
			}
		}
		if has {
			return []change{c}, nil
		}
		name, err := mine.member()
		if err != nil {
			return nil, err
		}
		c.add(setClaims, name)
		return []change{c}, nil
	})
}

// Unclaim gives up what this clone claims of a task; with all also what others do.
func (s *Store) Unclaim(ctx context.Context, id td.TaskID, all bool) error {
	return s.write(ctx, "", func() ([]change, error) {
		t, err := s.read(id)
		if err != nil {
			return nil, err
		}
		c := change{jsonl.Change{Task: id}}
		for _, old := range t.Claims {
			if all || old.Clone == s.clone {
				if err := c.unclaim(old); err != nil {
					return nil, err
				}
			}
		}
		return []change{c}, nil
	})
}

func (c *change) unclaim(old Claim) error {
	name, err := old.member()
	if err != nil {
		return err
	}
	c.remove(setClaims, name)
	return nil
}

// Elsewhere is the claim by which another clone works on a task, if one does and it came first.
func (s *Store) Elsewhere(ctx context.Context, id td.TaskID) (c Claim, is bool, err error) {
	err = s.with(ctx, func() error {
		c, is = s.Taken(id)
		return nil
	})
	return c, is, err
}

// elsewhere is the claim of another clone that counts, of those there are.
func (s *Store) elsewhere(claims []Claim) (Claim, bool) {
	for _, c := range claims {
		if c.counts(s.now()) {
			return c, c.Clone != s.clone
		}
	}
	return Claim{}, false
}

// Taken is Elsewhere for who looks at the graph, in View or Each.
func (s *Store) Taken(id td.TaskID) (Claim, bool) {
	h := s.heads[id]
	if h == nil || len(h.claims) == 0 {
		return Claim{}, false
	}
	return s.elsewhere(h.claims)
}

// Words say who has a claim.
func (c Claim) Words() string {
	return cmp.Or(c.Who, "somebody") + " on " + cmp.Or(c.Host, c.Clone) + " since " + c.At.Local().Format("Jan 2 15:04")
}
