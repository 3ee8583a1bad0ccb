package config

import (
	"cmp"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"taskdaemon/internal/td"
)

// Project is one entry of `projects:`: settings that hold for the repositories in one folder.
type Project struct {
	Path  string
	Where string
	own   Config // of which only the keys in its sources count
}

// In are the settings that hold in a folder: the general ones, and over them what the file says of the projects that it is part of, the
// nearest last. Variables and flags win over both.
func (c Config) In(dir string) Config {
	var of []Project
	for _, p := range c.Projects {
		if rel, err := filepath.Rel(p.Path, dir); err == nil && filepath.IsLocal(rel) {
			of = append(of, p)
		}
	}
	if len(of) == 0 {
		return c
	}
	slices.SortStableFunc(of, func(a, b Project) int { return cmp.Compare(len(a.Path), len(b.Path)) })
	general := c.sources
	c.sources = maps.Clone(general)
	for _, p := range of {
		for name := range p.own.sources {
			if from := general[name]; from == FromEnv || from == FromFlag {
				continue
			}
			k, _ := find(name)
			reflect.ValueOf(k.field(&c)).Elem().Set(reflect.ValueOf(k.field(&p.own)).Elem())
			c.sources[name] = FromProject
		}
	}
	return c
}

// projects reads `projects:`.
func projects(r *reader, n ast.Node) error {
	if _, null := n.(*ast.NullNode); null {
		return nil
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return r.fail(n.GetToken(), "want a list of projects, found %s", describe(n))
	}
	for _, item := range seq.Values {
		p, err := r.readProject(item)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(r.c.Projects, func(other Project) bool { return other.Path == p.Path }) {
			return r.fail(item.GetToken(), "%s has an entry already", p.Path)
		}
		r.c.Projects = append(r.c.Projects, p)
	}
	return nil
}

// readProject reads one entry: a path, and keys as they stand in the file itself.
func (r *reader) readProject(item ast.Node) (Project, error) {
	p := Project{Where: r.place(item.GetToken()), own: Config{sources: map[string]Source{}}}
	inner := reader{c: &p.own, path: r.path, seen: map[string]bool{}, project: &p}
	if err := inner.mapping(item, ""); err != nil {
		return p, err
	}
	if p.Path == "" {
		return p, r.fail(item.GetToken(), "a project has a path, such as: {path: ~/src/shop, worktree: {setup: npm ci}}")
	}
	return p, nil
}

// projectPath sets the folder of an entry of `projects:`. Tasks know folders by their real names.
func (r *reader) projectPath(n ast.Node) error {
	text, err := plain(n)
	if err != nil || text == "" {
		return r.fail(n.GetToken(), "path: want a folder's path, found %s", describe(n))
	}
	r.project.Path = filepath.Clean(resolvePath(text, filepath.Dir(r.path)))
	if real, err := filepath.EvalSymlinks(r.project.Path); err == nil {
		r.project.Path = real
	}
	return nil
}

// checkProjects says what is wrong with the settings that projects have of their own.
func (c Config) checkProjects() error {
	for _, p := range c.Projects {
		merged := c.In(p.Path)
		for _, k := range Keys {
			if _, set := p.own.sources[k.Name]; !set || k.check == nil {
				continue
			}
			if err := k.check(&merged); err != nil {
				return td.Errorf(td.Invalid, "%s: %s: %w", p.Where, k.Name, err).WithHint("taskdaemon config check")
			}
		}
	}
	return nil
}

// projectKeys names the settings that projects can have of their own.
func projectKeys() string {
	var names []string
	for _, k := range Keys {
		if k.project {
			names = append(names, "`"+k.Name+"`")
		}
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
