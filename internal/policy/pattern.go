package policy

import (
	"path"
	"slices"
)

// Pattern is what a rule matches, without a verdict: it names actions for whoever else wants to tell them
// apart. ParsePattern makes it.
type Pattern struct{ match string }

// ParsePattern reads a pattern as it stands in rules.
func ParsePattern(match string) (Pattern, error) {
	return Pattern{match: match}, Check(Rule{Verdict: Ask, Match: match, From: "match"})
}

// Seen is an action that was looked through once, to be held against many patterns.
type Seen struct {
	place  Place
	action Action
	report *report
}

// See looks through an action in the folder it happens in, of a person with this home. Symlinks in commands
// are not followed.
func See(a Action, home string) *Seen {
	place := Place{Workspace: a.Dir, Home: home, Resolve: func(path string) string { return path }}
	return &Seen{place: place, action: a, report: (&Policy{place: place}).examine(a)}
}

// Matches reports whether a rule with this pattern would be about the action: about any of its simple
// commands, paths or hosts, whichever tool it is that touches them.
func (s *Seen) Matches(p Pattern) bool {
	// Patterns of paths depend on the folder. A pattern that was parsed compiles anywhere.
	c, err := compile(Rule{Verdict: Ask, Match: p.match}, s.place)
	return err == nil && c.touches(s.action, s.report) >= could
}

// ChangesGit reports whether it runs a git that is not known to only look.
func (s *Seen) ChangesGit() bool {
	return slices.ContainsFunc(s.report.cmds, func(c command) bool {
		return !c.looks && path.Base(c.words[0]) == "git"
	})
}
