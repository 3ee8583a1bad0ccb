// Package skill reads skills: folders with a SKILL.md that tells an agent how some kind of work is done
// here, and that may bring tools of their own (L-2).
//
// A person has skills for all projects, and a project has its own, which win. A prompt lists them all in
// a line each; the text of one is loaded when it is needed. Nothing here acts on the world: loading reads
// files, and a tool is only described, for the caller to run.
package skill

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/frontmatter"
	"taskdaemon/internal/td"
)

// Level is whose skill it is. A higher one wins.
type Level int

// The levels.
const (
	User Level = iota
	Project
)

func (l Level) String() string { return [...]string{"user", "project"}[l] }

// Source is a folder that holds skills, a folder each.
type Source struct {
	Root  string // below it everything is read without following a symbolic link
	Dir   string // the folder, relative to Root
	Level Level
}

// Sources are the folders where skills are looked for. Of two skills of one level that have the same
// name, the one whose folder comes first here counts.
func Sources(userConfig, project string) []Source {
	return []Source{
		{userConfig, "skills", User},
		{project, ".taskdaemon/skills", Project},
		{project, ".claude/skills", Project},
	}
}

// Skill is one skill, without its text.
type Skill struct {
	Name        string
	Description string // one line: what it does, and when to use it
	Level       Level
	Dir         string // the skill's folder, absolute
	Tools       []Tool
	root, rel   string // the folder as its source names it
}

// Problem is a skill that could not be used, or only in part.
type Problem = frontmatter.Problem

const (
	file           = "SKILL.md"
	maxFile        = 256 << 10
	maxSkills      = 500 // in one folder
	maxDescription = 1024
)

// A name becomes a part of tool names, which may have 64 characters in all. Two underscores divide the
// parts.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9-]|_[A-Za-z0-9-])*_?$`)

// reserved are the names whose tools would be called like those of MCP servers.
var reserved = regexp.MustCompile(`(?i)^mcp(_|$)`)

// Load reads the skills of these folders, sorted by name. What is broken is left out and reported, a
// folder that is missing is empty. Effect: none; the same files give the same skills.
func Load(sources ...Source) ([]Skill, []Problem) {
	l := loader{taken: map[string]Skill{}}
	for _, level := range []Level{Project, User} {
		for _, s := range sources {
			if s.Level == level {
				l.source(s)
			}
		}
	}
	skills := make([]Skill, 0, len(l.taken))
	for _, s := range l.taken {
		skills = append(skills, s)
	}
	slices.SortFunc(skills, func(a, b Skill) int { return strings.Compare(a.Name, b.Name) })
	slices.SortStableFunc(l.problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return skills, l.problems
}

type loader struct {
	taken    map[string]Skill
	problems []Problem
}

func (l *loader) problem(s Source, name string, err error) {
	l.problems = append(l.problems, frontmatter.ProblemOf(filepath.Join(s.Root, s.Dir, printable(name)), err))
}

func (l *loader) source(s Source) {
	root, err := s.Level.open(s.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		l.problem(s, "", err)
		return
	}
	defer root.Close()
	names, err := folders(root, s.Dir)
	if err != nil {
		l.problem(s, "", err)
		return
	}
	if len(names) > maxSkills {
		l.problem(s, "", fmt.Errorf("it holds %d folders; only the first %d are read", len(names), maxSkills))
		names = names[:maxSkills]
	}
	for _, name := range names {
		src, err := read(root, path.Join(s.Dir, name, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // not a skill, or gone just now
		}
		if err != nil {
			l.problem(s, path.Join(name, file), err)
			continue
		}
		skill, problems, err := parse(name, src)
		for _, p := range problems {
			l.problem(s, path.Join(name, file), p)
		}
		if err != nil {
			l.problem(s, path.Join(name, file), err)
			continue
		}
		skill.Level, skill.root, skill.rel = s.Level, s.Root, path.Join(s.Dir, name)
		skill.Dir = filepath.Join(s.Root, skill.rel)
		l.take(s, name, skill)
	}
}

// take keeps a skill unless its name is taken by one that wins.
func (l *loader) take(s Source, name string, skill Skill) {
	other, taken := l.taken[skill.Name]
	switch {
	case !taken:
		for i := range skill.Tools {
			skill.Tools[i].dir = skill.Dir
		}
		l.taken[skill.Name] = skill
	case other.Level == skill.Level:
		msg := "two skills are called %q: %s is used"
		l.problem(s, path.Join(name, file), fmt.Errorf(msg, skill.Name, other.Dir))
		l.problems = append(l.problems, Problem{File: filepath.Join(other.Dir, file), Msg: fmt.Sprintf(msg, skill.Name, "this one")})
	}
}

// open opens the folder that a source is in. The path to a person's own folder may lead through links of theirs.
func (l Level) open(root string) (*beneath.Folder, error) {
	if l == User {
		return beneath.OpenResolved(root)
	}
	return beneath.Open(root)
}

// folders are the names in dir that may be skills, sorted. Links are among them, to be reported.
func folders(root *beneath.Folder, dir string) ([]string, error) {
	all, err := root.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range all {
		if (e.IsDir() || e.Type()&fs.ModeSymlink != 0) && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// read is a file of a skill, never too much of it.
func read(root *beneath.Folder, name string) ([]byte, error) {
	src, _, err := root.Read(name, maxFile)
	if errors.Is(err, beneath.ErrTooLarge) {
		return nil, td.Errorf(td.Invalid, "it has more than %d bytes", maxFile)
	}
	return src, err
}

// parse reads a SKILL.md. Keys it does not know are other programs'. Tools that are broken are reported
// and left out.
func parse(folder string, src []byte) (Skill, []error, error) {
	doc, err := frontmatter.Parse(src)
	if err != nil {
		return Skill{}, nil, err
	}
	s := Skill{Name: folder}
	nameLine := 1
	var tools frontmatter.Node
	for _, f := range doc.Fields {
		switch f.Key {
		case "name":
			s.Name, err = f.Value.String()
			nameLine = f.Line
		case "description":
			s.Description, err = f.Value.String()
		case "tools":
			tools = f.Value
		}
		if err != nil {
			return Skill{}, nil, err
		}
	}
	s.Name = strings.TrimSpace(s.Name)
	if !nameForm.MatchString(s.Name) || len(s.Name) > 48 {
		return Skill{}, nil, frontmatter.Errorf(nameLine, "%q is no name: up to 48 letters, digits, hyphens and single underscores", printable(s.Name))
	}
	if reserved.MatchString(s.Name) {
		return Skill{}, nil, frontmatter.Errorf(nameLine, "the name %q is reserved for the tools of MCP servers; give the skill another name", printable(s.Name))
	}
	if s.Description = oneLine(s.Description, maxDescription); s.Description == "" {
		return Skill{}, nil, frontmatter.Errorf(1, "it has no description, by which it would be found")
	}
	var problems []error
	s.Tools, problems = parseTools(s.Name, tools)
	return s, problems, nil
}

func oneLine(s string, most int) string {
	s = printable(strings.Join(strings.Fields(s), " "))
	if r := []rune(s); len(r) > most {
		return strings.TrimRight(string(r[:most-1]), " ,.;:") + "…"
	}
	return s
}

// printable drops what a terminal would obey.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
