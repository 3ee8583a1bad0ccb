package coord

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/td"
)

// Resource is something of which there is only so much, named by a person: a build that takes the whole
// machine, a port, a test database.
type Resource struct {
	Name     string
	Capacity int    // how many steps may have it at once
	Match    string // which calls need it: Tool, or Tool(pattern) where * is any text
	Where    string // its place in a file, for errors
}

// The resources that taskdaemon names itself begin with these.
const (
	fileResource = "file:"
	repoResource = "repo:"
	hostResource = "host:"
)

// Use is what a call would use, as far as it can be told before it runs.
type Use struct {
	Tool    string
	Command string   // shell source, when it runs one
	Hosts   []string // it would reach
	Reads   []string // absolute paths, symlinks resolved
	Writes  []string
	Repo    string // the repository the workspace belongs to, or empty
	// Shared says that another task that has not ended works in the same folder, or in one above or below.
	Shared bool
}

// Resources decide what a call must have leased before it runs. NewResources makes it.
type Resources struct {
	named []named
	hosts int
}

type named struct {
	want    td.Want
	tool    string
	pattern string
}

// NewResources checks the named resources and compiles them. hosts is how many calls may reach one host at
// once; zero: any number.
func NewResources(list []Resource, hosts int) (*Resources, error) {
	out := &Resources{hosts: hosts}
	for i, r := range list {
		n, err := compile(r)
		if err == nil && slices.ContainsFunc(list[:i], func(o Resource) bool { return o.Name == r.Name }) {
			err = td.Errorf(td.Invalid, "the resource %q is there twice", r.Name)
		}
		if err != nil && r.Where != "" {
			err = fmt.Errorf("%s: %w", r.Where, err)
		}
		if err != nil {
			return nil, err
		}
		out.named = append(out.named, n)
	}
	if hosts < 0 {
		return nil, td.Errorf(td.Invalid, "%d calls cannot reach one host at once", hosts)
	}
	return out, nil
}

func compile(r Resource) (named, error) {
	switch {
	case strings.TrimSpace(r.Name) == "" || strings.TrimSpace(r.Name) != r.Name:
		return named{}, td.Errorf(td.Invalid, "the resource %q needs a name without blanks around it", r.Name)
	case reserved(r.Name):
		return named{}, td.Errorf(td.Invalid, "the resource %q has a name that taskdaemon gives itself: choose one that does not begin with %s, %s or %s",
			r.Name, fileResource, repoResource, hostResource)
	case r.Capacity < 1:
		return named{}, td.Errorf(td.Invalid, "the resource %q has capacity %d: it must be at least 1", r.Name, r.Capacity)
	}
	tool, pattern, err := parseMatch(r.Match)
	if err != nil {
		return named{}, fmt.Errorf("the resource %q: %w", r.Name, err)
	}
	return named{want: td.Want{Resource: r.Name, Shared: true, Capacity: r.Capacity}, tool: tool, pattern: pattern}, nil
}

func reserved(name string) bool {
	return strings.HasPrefix(name, fileResource) || strings.HasPrefix(name, repoResource) || strings.HasPrefix(name, hostResource)
}

// parseMatch reads Tool or Tool(pattern).
func parseMatch(match string) (tool, pattern string, err error) {
	tool, rest, has := strings.Cut(match, "(")
	pattern, closed := strings.CutSuffix(rest, ")")
	switch {
	case strings.TrimSpace(tool) != tool || tool == "" || has && (!closed || pattern == ""):
		return "", "", td.Errorf(td.Invalid, "match %q is none: write Tool or Tool(pattern), as in Bash(go build *)", match)
	case !has:
		return tool, "*", nil
	}
	return tool, pattern, nil
}

// Wants is what the call must have leased, in the form of records.
func (r *Resources) Wants(u Use) []td.Want {
	var wants []td.Want
	commands := simple(u.Command)
	for _, n := range r.named {
		if n.matches(u, commands) {
			wants = append(wants, n.want)
		}
	}
	if u.Repo != "" && slices.ContainsFunc(commands, writesRepo) {
		wants = append(wants, td.Want{Resource: repoResource + u.Repo})
	}
	for _, h := range u.Hosts {
		if r.hosts > 0 {
			wants = append(wants, td.Want{Resource: hostResource + strings.ToLower(h), Shared: true, Capacity: r.hosts})
		}
	}
	if u.Shared {
		for _, p := range u.Reads {
			wants = append(wants, td.Want{Resource: fileResource + filepath.Clean(p), Shared: true})
		}
		for _, p := range u.Writes {
			wants = append(wants, td.Want{Resource: fileResource + filepath.Clean(p)})
		}
	}
	return td.SortWants(wants)
}

func (n named) matches(u Use, commands [][]string) bool {
	if n.tool != u.Tool {
		return false
	}
	if n.pattern == "*" {
		return true
	}
	for _, words := range commands {
		if like(n.pattern, strings.Join(words, " ")) {
			return true
		}
	}
	texts := slices.Concat(u.Hosts, u.Reads, u.Writes)
	return slices.ContainsFunc(texts, func(s string) bool { return like(n.pattern, s) })
}

// like reports whether text matches a pattern in which * is any text. A last " *" also stands for nothing,
// so that "go build *" is "go build", too.
func like(pattern, text string) bool {
	if whole, cut := strings.CutSuffix(pattern, " *"); cut && like(whole, text) {
		return true
	}
	first, rest, more := strings.Cut(pattern, "*")
	if !more {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, first)
	if !ok {
		return false
	}
	for {
		var part string
		part, rest, more = strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(text, part)
		}
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
}
