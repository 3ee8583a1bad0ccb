package coord

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/policy"
	"taskdaemon/internal/td"
)

// Resource is something of which there is only so much, named by a person: a build that takes the whole
// machine, a port, a test database.
type Resource struct {
	Name     string
	Capacity int    // how many steps may have it at once
	Match    string // which calls need it, as in rules: Bash(go build *)
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
	policy.Action
	Home string // the person's
	Repo string // the repository the workspace belongs to, or empty
	Own  bool   // the workspace is a worktree that no other task has
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
	pattern policy.Pattern
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
		return named{}, td.Errorf(td.Invalid, "the resource %q has a name that taskdaemon gives itself: choose one that does not begin with %s, %s, %s or %s",
			r.Name, fileResource, repoResource, hostResource, td.MergeResource)
	case r.Capacity < 1:
		return named{}, td.Errorf(td.Invalid, "the resource %q has capacity %d: it must be at least 1", r.Name, r.Capacity)
	}
	pattern, err := policy.ParsePattern(r.Match)
	if err != nil {
		return named{}, td.Errorf(td.Invalid, "the resource %q: %w", r.Name, err)
	}
	return named{want: td.Want{Resource: r.Name, Shared: true, Capacity: r.Capacity}, pattern: pattern}, nil
}

func reserved(name string) bool {
	return strings.HasPrefix(name, td.MergeResource) || strings.HasPrefix(name, fileResource) || strings.HasPrefix(name, repoResource) || strings.HasPrefix(name, hostResource)
}

// searching are the tools whose path is where they look, not a file that they read.
var searching = []string{"Grep", "Glob"}

// Wants is what the call must have leased, in the form of records. Leases are no guard rail: a command that
// hides what it does runs without one.
func (r *Resources) Wants(u Use) []td.Want {
	var wants []td.Want
	if u.Command != "" && u.Repo != "" || len(r.named) > 0 {
		seen := policy.See(u.Action, u.Home)
		for _, n := range r.named {
			if seen.Matches(n.pattern) {
				wants = append(wants, n.want)
			}
		}
		if use := seen.GitUse(); u.Repo != "" && use > policy.GitLooks {
			wants = append(wants, td.Want{Resource: repoResource + u.Repo, Shared: u.Own && use == policy.GitCheckout})
		}
	}
	for _, h := range u.Hosts {
		if r.hosts > 0 {
			wants = append(wants, td.Want{Resource: hostResource + strings.ToLower(h), Shared: true, Capacity: r.hosts})
		}
	}
	if u.Shared && !slices.Contains(searching, u.Tool) {
		for _, p := range u.Paths {
			wants = append(wants, td.Want{Resource: fileResource + filepath.Clean(p.Path), Shared: p.Access == policy.Read})
		}
	}
	return td.SortWants(wants)
}
