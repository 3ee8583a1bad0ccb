package skill

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/frontmatter"
	"taskdaemon/internal/td"
	"taskdaemon/internal/words"
)

const (
	maxIndexed = 300 // characters of a description in the index
	maxMatches = 3
	maxTerms   = 400
	maxText    = 64 << 10
	maxListed  = 200 // files of a skill
	maxDeep    = 6

	// enough is the share of a description, by weight of its words, that a text must have.
	enough = 0.22
)

// Index is the list of skills that stands in the system prompt: a line each, the same bytes for the same
// skills.
func Index(skills []Skill) string {
	sorted := slices.SortedFunc(slices.Values(skills), func(a, b Skill) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	for _, s := range sorted {
		fmt.Fprintf(&b, "- %s: %s\n", s.Name, oneLine(s.Description, maxIndexed))
	}
	return b.String()
}

// Match are the skills that a task calls for, at most three, the best first: those it names, and those
// whose description it has enough in common with. Words that many skills have count less. The same
// skills and text give the same answer.
func Match(skills []Skill, text string) []Skill {
	asked := words.Set(strings.ToValidUTF8(text[:min(len(text), maxText)], ""), math.MaxInt)
	rare := map[string]int{} // in how many skills a word is
	terms := make([][]string, len(skills))
	for i, s := range skills {
		terms[i] = words.Set(s.Name+" "+s.Description, maxTerms)
		for _, t := range terms[i] {
			rare[t]++
		}
	}
	type scored struct {
		Skill
		named bool
		share float64
	}
	var found []scored
	for i, s := range skills {
		var hit, all float64
		hits := 0
		for _, t := range terms[i] {
			weight := math.Log(1 + float64(len(skills))/float64(rare[t]))
			all += weight
			if _, ok := slices.BinarySearch(asked, t); ok {
				hit += weight
				hits++
			}
		}
		name := words.Set(s.Name, maxTerms)
		m := scored{s, len(name) > 0 && words.Shared(asked, name) == len(name), 0}
		if all > 0 {
			m.share = hit / all
		}
		if m.named || hits > 1 && m.share >= enough {
			found = append(found, m)
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int {
		if a.named != b.named {
			return map[bool]int{true: -1, false: 1}[a.named]
		}
		return cmp.Or(cmp.Compare(b.share, a.share), strings.Compare(a.Name, b.Name))
	})
	var out []Skill
	for _, m := range found[:min(len(found), maxMatches)] {
		out = append(out, m.Skill)
	}
	return out
}

// Body is a skill's text as it is now, and the names of the other files in its folder, which File reads.
// Effect: none.
func Body(s Skill) (string, error) {
	root, err := s.open()
	if err != nil {
		return "", err
	}
	defer root.Close()
	src, err := read(root, file)
	if err != nil {
		return "", s.failed(file, err)
	}
	doc, err := frontmatter.Parse(src)
	if err != nil {
		return "", td.Errorf(td.Corrupt, "read skill %s: %w", s.Name, err)
	}
	body := strings.TrimSpace(doc.Body)
	if files := list(root); len(files) > 0 {
		body += fmt.Sprintf("\n\nOther files of this skill. Read one with Skill {\"name\": %q, \"file\": %q}; they are in %s, which may be outside of your workspace:\n- %s",
			s.Name, files[0], s.Dir, strings.Join(files, "\n- "))
	}
	return strings.TrimSpace(body) + "\n", nil
}

// File is the text of another file of a skill. Effect: none.
func File(s Skill, name string) (string, error) {
	root, err := s.open()
	if err != nil {
		return "", err
	}
	defer root.Close()
	src, err := read(root, path.Clean(name))
	if err != nil {
		return "", s.failed(oneLine(name, 100), err)
	}
	return strings.ToValidUTF8(string(src), "�"), nil
}

func (s Skill) open() (*beneath.Folder, error) {
	outer, err := s.Level.open(s.root)
	if err != nil {
		return nil, s.failed("its folder", err)
	}
	defer outer.Close()
	root, err := outer.Folder(s.rel)
	if err != nil {
		return nil, s.failed("its folder", err)
	}
	return root, nil
}

func (s Skill) failed(what string, err error) error {
	kind := td.Refused
	if errors.Is(err, fs.ErrNotExist) {
		kind = td.NotFound
	}
	return td.Errorf(kind, "read %s of skill %s: %w", what, s.Name, err)
}

// list names the files of a skill besides its text, sorted; what is hidden, a symlink or very deep is
// left out.
func list(root *beneath.Folder) []string {
	var files []string
	// An entry that cannot be read is left out; the walk goes on.
	_ = root.Walk(".", func(name string, d fs.DirEntry, err error) error {
		hidden := name != "." && strings.HasPrefix(path.Base(name), ".")
		switch {
		case len(files) == maxListed:
			return fs.SkipAll
		case err != nil, d.IsDir() && (hidden || strings.Count(name, "/") >= maxDeep):
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
		case d.Type().IsRegular() && !hidden && name != file:
			files = append(files, printable(name))
		}
		return nil
	})
	return files
}
