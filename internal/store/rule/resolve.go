package rule

import (
	"fmt"
	"strings"

	"taskdaemon/internal/td"
)

// Candidate is something a person may mean by a reference: a task, or an open request of one.
type Candidate struct {
	Task       td.TaskID
	ID, Handle string
	Title      string
	Slug       string // of a PRD: it may be called that, too
	exact      bool
}

// Candidates collects what a reference may mean.
type Candidates struct {
	ref   string
	found []Candidate
}

// Meant starts the search for what ref means.
func Meant(ref string) *Candidates { return &Candidates{ref: ref} }

// Add offers a candidate; it is dropped if the reference does not match it.
func (cs *Candidates) Add(c Candidate) {
	exact, partial := td.MatchesRef(cs.ref, c.ID, c.Handle)
	if slug := td.MatchesSlug(cs.ref, c.Slug); partial || slug {
		c.exact = exact || slug
		cs.found = append(cs.found, c)
	}
}

// One is the task that is meant. An exact match wins over fragments; several matches that lead to the
// same task are one.
func (cs *Candidates) One() (td.TaskID, error) {
	found := cs.distinct(true)
	if len(found) == 0 {
		found = cs.distinct(false)
	}
	switch len(found) {
	case 0:
		return "", td.Errorf(td.NotFound, "nothing matches %q", cs.ref).WithHint("taskdaemon task list")
	case 1:
		return found[0].Task, nil
	}
	const most = 10
	var b strings.Builder
	for i, c := range found {
		if i == most {
			fmt.Fprintf(&b, "\n  … and %d more", len(found)-most)
			break
		}
		fmt.Fprintf(&b, "\n  %s  %s", c.Handle, c.Title)
	}
	return "", td.Errorf(td.Ambiguous, "%q may mean:%s", cs.ref, b.String()).WithHint("type more of the one you mean")
}

func (cs *Candidates) distinct(exact bool) []Candidate {
	seen := map[td.TaskID]bool{}
	var out []Candidate
	for _, c := range cs.found {
		if c.exact == exact && !seen[c.Task] {
			seen[c.Task] = true
			out = append(out, c)
		}
	}
	return out
}
