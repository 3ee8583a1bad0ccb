package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Problem is something about a rule that its author should know.
type Problem struct {
	Rule Rule
	Text string // what is wrong, and what to do
}

// Contradictions finds rules that cannot be read, that others hide, that are there twice, and that nothing
// can match. None of them is dangerous: deny wins over ask, and ask over allow.
func Contradictions(rules []Rule) []Problem {
	var out []Problem
	place := Place{Workspace: "/workspace", Home: "/home"}
	var seen []compiled
	for _, r := range rules {
		if err := Tightens(r); err != nil {
			out = append(out, Problem{Rule: r, Text: err.Error()})
			continue
		}
		c, err := compile(r, place)
		if err != nil {
			out = append(out, Problem{Rule: r, Text: err.Error()})
			continue
		}
		seen = append(seen, c)
	}
	for i, c := range seen {
		if text := c.idle(); text != "" {
			out = append(out, Problem{Rule: c.rule, Text: text})
		}
		for j, other := range seen {
			if i == j || !(other.in == "" || other.in == c.in) || !other.includes(c) {
				continue
			}
			switch {
			case rank(other.rule.Verdict) > rank(c.rule.Verdict):
				out = append(out, Problem{Rule: c.rule, Text: fmt.Sprintf("%q never decides: %q%s wins over it", c.rule, other.rule, from(other.rule))})
			case other.rule.Verdict == c.rule.Verdict && other.rule.Match == c.rule.Match && other.in == c.in && other.rule.Untrusted == c.rule.Untrusted && j < i:
				out = append(out, Problem{Rule: c.rule, Text: fmt.Sprintf("%q is there twice%s", c.rule, from(other.rule))})
			}
		}
	}
	return out
}

func from(r Rule) string {
	if r.From == "" {
		return ""
	}
	return " (" + r.From + ")"
}

func rank(v Verdict) int { return slices.Index([]Verdict{Allow, Ask, Deny}, v) }

// includes reports whether everything that inner matches is matched by c as well. It may miss some.
func (c compiled) includes(inner compiled) bool {
	if c.kind != inner.kind {
		return c.arg == "" && c.kind == kindTool && doublestar.MatchUnvalidated(c.tool, inner.tool)
	}
	switch {
	case c.kind == kindTool:
		return c.names(inner.tool, inner.arg)
	case c.arg == "":
		return true
	case inner.arg == "":
		return false
	case c.kind == kindCommand:
		return matchesCommand(c.arg, inner.arg)
	case c.kind == kindHost:
		return matchesHost(c.arg, inner.arg)
	}
	return doublestar.MatchUnvalidated(c.arg, inner.arg)
}

// idle says why a rule can never decide anything by itself, or nothing.
func (c compiled) idle() string {
	switch {
	case c.kind == kindCommand && c.arg != "" && (strings.ContainsAny(c.arg, ";|<>&\n`") || strings.Contains(c.arg, "$(")):
		return fmt.Sprintf("%q matches nothing: each command of a line is judged by itself, so write one rule for each, without ; | & < >", c.rule)
	case c.rule.Verdict != Deny && (c.kind == kindRead || c.kind == kindWrite) && c.arg != "":
		fixed, _ := doublestar.SplitPattern(c.arg)
		p := &Policy{place: Place{Workspace: "/workspace", Home: "/home"}}
		access := Read
		if c.kind == kindWrite {
			access = Write
		}
		if f, ok := p.floorPath(fixed, access, false); ok && f.verdict == Deny {
			return fmt.Sprintf("%q never decides: the floor keeps %s", c.rule, f.rule)
		}
	}
	return ""
}
