package policy

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Offer is a rule that an answer may store: "always" as an allow, "never" as a deny.
type Offer struct {
	Rule  string // "Bash(go test *)"
	Words string // "any go test command"
	// With are further rules that must be stored together with this one, when the action has several
	// parts.
	With []string
}

// offers are the rules that would have decided this action.
func (p *Policy) offers(a Action, r *report) []Offer {
	switch {
	case r.shell:
		return p.commandOffers(a, r)
	case a.Origin == Server:
		out := []Offer{{Rule: a.Tool, Words: "this tool"}}
		if parts := strings.Split(a.Tool, "__"); len(parts) > 2 && parts[1] != "" {
			out = append(out, Offer{Rule: ServerPrefix + parts[1] + "__*", Words: "every tool of " + parts[1]})
		}
		return out
	case len(r.hosts) > 0:
		var out []Offer
		for _, h := range r.hosts {
			if !plainHost.MatchString(h) {
				return nil // it would stand for others as well
			}
			out = append(out, Offer{Rule: "WebFetch(" + h + ")", Words: "anything from " + h})
		}
		return together(out)
	case len(r.uses) > 0:
		return p.pathOffers(r)
	case a.Bound != "":
		return []Offer{{Rule: a.Tool + "(" + a.Bound + ")", Words: "this tool, until its command is another one"}}
	case a.Tool != "" && a.Origin != ProjectSkill:
		return []Offer{{Rule: a.Tool, Words: "every call of " + a.Tool}}
	}
	return nil
}

// lifts are the rules by which a command that the mode leaves to a sandbox gets the network of the config: what a question would offer, if that is enough. Nil: there are none to offer.
func (p *Policy) lifts(a Action, r *report, offers []Offer) []string {
	if r.held || len(offers) == 0 {
		return nil
	}
	offered := append([]string{offers[0].Rule}, offers[0].With...)
	with := *p
	with.allow = slices.Clone(p.allow)
	for _, match := range offered {
		c, err := compile(Rule{Verdict: Allow, Match: match}, p.place)
		if err != nil {
			return nil
		}
		with.allow = append(with.allow, c)
	}
	if _, enough := with.covered(a, r); !enough {
		return nil
	}
	return offered
}

// plainHost is one host, and no pattern.
var plainHost = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)

// together makes each offer bring the others along: one alone would not be enough.
func together(offers []Offer) []Offer {
	if len(offers) < 2 {
		return offers
	}
	for i := range offers {
		for j, o := range offers {
			if j != i {
				offers[i].With = append(offers[i].With, o.Rule)
			}
		}
	}
	return offers
}

func (p *Policy) pathOffers(r *report) []Offer {
	tool := "Read"
	if slices.ContainsFunc(r.uses, func(u use) bool { return u.access == Write }) {
		tool = "Write"
	}
	if len(r.uses) != 1 || odd(r.uses[0].path) || !certain(r.uses[0].path) {
		return nil
	}
	file := p.shown(r.uses[0].path)
	out := []Offer{{Rule: tool + "(" + file + ")", Words: "this file"}}
	if dir := path.Dir(r.uses[0].path); p.small(dir) {
		dir = p.shown(dir)
		out = append(out, Offer{Rule: tool + "(" + dir + "/**)", Words: "everything in " + dir})
	}
	return out
}

// systemTrees are folders of the machine: all that is in one of them, or in a folder of it, is too much to give away.
var systemTrees = []string{
	"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/nix", "/proc", "/run", "/sbin", "/snap", "/sys", "/usr", "/var", "/System", "/Library", "/Applications",
}

// small reports whether a folder is small enough to be given away as a whole. Outside the workspace that is one deep
// below the root, and neither hidden nor of the system, nor one that holds a home, the workspace or what is taskdaemon's.
func (p *Policy) small(dir string) bool {
	if dir != p.place.Workspace && under(dir, p.place.Workspace) == yes {
		return true
	}
	for _, kept := range append([]string{p.place.Workspace, p.place.Home, p.place.State}, p.place.Own...) {
		if above(dir, kept) != no {
			return false
		}
	}
	names := segments(dir)
	hidden := slices.ContainsFunc(names, func(s string) bool { return strings.HasPrefix(s, ".") })
	system := slices.ContainsFunc(systemTrees, func(t string) bool { return under(dir, t) == yes })
	return len(names) >= 3 && !hidden && !system
}

// odd reports whether a path has characters that mean something else in a rule.
func odd(path string) bool {
	return strings.ContainsAny(path, "*?[]{}()\\") || strings.TrimSpace(path) != path
}

// shown is a path as a rule names it.
func (p *Policy) shown(file string) string {
	if rest, ok := strings.CutPrefix(file, p.place.Workspace+"/"); ok {
		if strings.HasPrefix(rest, "~") || strings.TrimSpace(rest) != rest {
			return "./" + rest // it is not the home
		}
		return rest
	}
	if rest, ok := strings.CutPrefix(file, p.place.Home+"/"); ok {
		return "~/" + rest
	}
	return file
}
