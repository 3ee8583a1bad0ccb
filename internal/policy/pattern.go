package policy

import "path"

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

// GitUse is how much of a repository a command may change.
type GitUse int

// How much that is, from the least on.
const (
	GitLooks    GitUse = iota // nothing
	GitCheckout               // the checkout, and the branch it is on
	GitAll                    // what all its worktrees share
)

// GitUse is how much the gits that it runs may change.
func (s *Seen) GitUse() GitUse {
	use := GitLooks
	for _, c := range s.report.cmds {
		switch {
		case c.looks || path.Base(c.words[0]) != "git":
		case c.own:
			use = max(use, GitCheckout)
		default:
			return GitAll
		}
	}
	return use
}
