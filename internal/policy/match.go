package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// holds reports whether a rule is for the folder an action happens in.
func (p *Policy) holds(c compiled, a Action) bool {
	return c.in == "" || under(p.place.Workspace, c.in) == yes || under(a.Dir, c.in) == yes
}

// anyOf is the first of some deny or ask rules that matches a part of an action at least this surely.
func (p *Policy) anyOf(rules []compiled, a Action, r *report, least match) (compiled, bool) {
	i := slices.IndexFunc(rules, func(c compiled) bool {
		return p.holds(c, a) && (c.touches(a, r) >= least || least <= could && p.mightTouch(c, r))
	})
	if i < 0 {
		return compiled{}, false
	}
	return rules[i], true
}

// touches says whether any part of an action is what the rule is about, whichever tool does it.
func (c compiled) touches(a Action, r *report) match {
	if c.names(a.Tool, a.Bound) {
		return yes
	}
	found := false
	switch c.kind {
	case kindCommand:
		found = slices.ContainsFunc(r.cmds, func(cmd command) bool {
			return slices.ContainsFunc(cmd.spellings(), func(s string) bool { return matchesCommand(c.arg, s) })
		})
	case kindRead:
		return c.touchesPaths(r, Read)
	case kindWrite:
		return c.touchesPaths(r, Write)
	case kindHost:
		found = slices.ContainsFunc(r.hosts, func(h string) bool { return matchesHost(c.arg, h) })
	}
	if found {
		return yes
	}
	return no
}

func (c compiled) touchesPaths(r *report, access Access) match {
	most := no
	for _, u := range r.uses {
		if u.access != access || u.guessed || harmlessSink(u.path) {
			continue
		}
		switch {
		case matchesPath(c.arg, u.path):
			return yes
		case couldName(c.arg, u):
			most = could
		}
	}
	return most
}

// couldName reports whether a path with marks, or a folder whose content is gone, may contain what a
// pattern names.
func couldName(pattern string, u use) bool {
	fixed, _ := doublestar.SplitPattern(pattern)
	if u.destroys && above(u.path, fixed) != no {
		return true
	}
	return globbed(u.path) && (under(u.path, fixed) != no || above(u.path, fixed) != no)
}

// spellings are the ways in which a rule against a command may name it.
func (c command) spellings() []string {
	out := c.forms()
	for i := range out {
		out[i] = readable(out[i])
	}
	return out
}

// forms are its spellings with their marks: by the path of the program and by its name, and a git without the flags before its subcommand.
func (c command) forms() []string {
	out := []string{c.text()}
	base := path.Base(c.words[0])
	if base != c.words[0] {
		out = append(out, strings.Join(append([]string{base}, c.words[1:]...), " "))
	}
	if sub, ok := strings.CutPrefix(base, "git-"); ok { // git-push is git push
		out = append(out, strings.Join(append([]string{"git", sub}, c.words[1:]...), " "))
	}
	if base == "git" { // git -C x push is git push
		rest := c.words[1:]
		for len(rest) > 1 && strings.HasPrefix(rest[0], "-") {
			if slices.Contains(gitValued, rest[0]) {
				rest = rest[1:]
			}
			rest = rest[1:]
		}
		out = append(out, "git "+strings.Join(rest, " "))
	}
	return out
}

func matchesHost(pattern, host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if pattern == "" || pattern == "*" || pattern == host {
		return true
	}
	return doublestar.MatchUnvalidated(strings.ReplaceAll(pattern, "**", "*"), host)
}

// covered reports whether allow rules cover every part of an action, and names the last one needed.
func (p *Policy) covered(a Action, r *report) (compiled, bool) {
	var by compiled
	found := false
	allowed := func(match func(c compiled) bool) bool {
		for _, c := range p.allow {
			if p.holds(c, a) && (c.rule.Untrusted || !a.Tainted) && match(c) {
				by, found = c, true
				return true
			}
		}
		return false
	}
	for i, cmd := range r.cmds {
		if cmd.plain || r.varied == "" && (cmd.looks && !r.strays(i) || freely(a) && r.editsBy(i)) {
			continue
		}
		ok := allowed(func(c compiled) bool { return c.kind == kindCommand && (!cmd.away || c.arg == "") && c.covers(cmd) })
		if !ok && (!cmd.looks || r.varied != "") {
			return by, false
		}
		if !ok && !p.coveredUses(r, func(u use) bool { return u.cmd == i && u.outside }, allowed) {
			return by, false
		}
	}
	if r.shell {
		redirected := func(u use) bool {
			if freely(a) && u.editable() {
				return false
			}
			return u.redir && !harmlessSink(u.path) && (u.outside || u.access == Write && !p.inTemp(u.path))
		}
		return by, p.coveredUses(r, redirected, allowed) && found
	}
	if len(r.uses) == 0 && len(r.hosts) == 0 {
		return by, allowed(func(c compiled) bool { return c.permits(a.Tool, a.Bound, a.Origin) })
	}
	every := func(u use) bool { return u.outside || u.access == Write || !a.Looks }
	if !p.coveredUses(r, every, allowed) {
		return by, false
	}
	for _, h := range r.hosts {
		if !allowed(func(c compiled) bool {
			return c.kind == kindHost && matchesHost(c.arg, h) || c.arg == "" && c.tool == a.Tool
		}) {
			return by, false
		}
	}
	if !found && !writesFiles(a.Tool) && !a.Looks { // another tool with paths: its own name must be allowed
		return by, false
	}
	return by, found
}

func (p *Policy) inTemp(path string) bool {
	return slices.ContainsFunc(p.place.Temp, func(t string) bool { return under(path, t) == yes })
}

// strays reports whether a command reads or writes outside the workspace.
func (r *report) strays(cmd int) bool {
	return slices.ContainsFunc(r.uses, func(u use) bool { return u.cmd == cmd && u.outside })
}

// coveredUses reports whether rules for paths allow each use that counts.
func (p *Policy) coveredUses(r *report, counts func(use) bool, allowed func(func(compiled) bool) bool) bool {
	for _, u := range r.uses {
		if !counts(u) {
			continue
		}
		want := kindRead
		if u.access == Write {
			want = kindWrite
		}
		ok := allowed(func(c compiled) bool {
			return c.kind == want && !strings.ContainsRune(u.path, markBelow) && matchesPath(c.arg, u.path) || c.kind == kindTool && !r.shell && c.permits(r.tool, r.bound, r.origin)
		})
		if !ok {
			return false
		}
	}
	return true
}

// covers reports whether an allow rule names a command, exactly as it would run. A rule for exactly one command was made
// without input: what is piped into it may be anything, and makes it do something else.
func (c compiled) covers(cmd command) bool {
	if cmd.fed && c.arg != "" && !strings.Contains(c.arg, "*") {
		return false
	}
	words := slices.Clone(cmd.words)
	if dir := path.Dir(words[0]); strings.HasPrefix(dir, "/") && slices.Contains(programs, dir) {
		words[0] = path.Base(words[0])
	}
	return matchesCommand(c.arg, readable(strings.Join(words, " ")))
}
