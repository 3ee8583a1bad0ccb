package daemon

import (
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

func TestAuthorPrompts(t *testing.T) {
	b := briefing{
		name: "a boat {spec} for $USER", path: "there.md", spec: "spec.md", plan: "plan.md",
		phases: []td.PRDPart{{Number: 1, Name: "hull", Requirements: []string{"oak"}, Criteria: []string{"it is tight"}}}, criteria: []string{"it swims", "it turns"}, planned: "- t-1 buy wood\n",
	}
	for _, phase := range td.AuthorPhases {
		p := b.prompt(phase)
		for _, part := range []string{"a boat {spec} for $USER", "\n\n"} {
			if !strings.Contains(p, part) {
				t.Errorf("%s: no %q in\n%s", phase, part, p)
			}
		}
		if rest := strings.ReplaceAll(p, b.name, ""); strings.ContainsAny(rest, "{}") {
			t.Errorf("%s: a hole is left in\n%s", phase, rest)
		}
		if doc := phase.Document(); (doc != "") != strings.Contains(p, "there.md") {
			t.Errorf("%s: the document is %q, and it is told\n%s", phase, doc, p)
		}
	}
	if got, want := b.known(), "\nThe work is divided into these phases. Say of each task which it is in (phase: its number), and let the tasks of one wait for those of the one before where they need them:\n- phase 1: hull\n  - requires: oak\n  - done when: it is tight\n"+
		"\nThe feature counts as done when all of this holds. Each is the business of at least one task, whose text says so:\n- it swims\n- it turns\n"+
		"\nThese are planned already; add what is missing, nothing twice:\n- t-1 buy wood\n"; got != want {
		t.Errorf("known: %q", got)
	}
	if got := (briefing{}).known(); got != "" {
		t.Errorf("of nothing is known: %q", got)
	}
}
