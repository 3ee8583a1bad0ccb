package graph

import (
	"strings"

	"taskdaemon/internal/frontmatter"
	"taskdaemon/internal/td"
)

// Head is what a spec says of its PRD before its text, for programs to read: between two lines of three dashes, as YAML.
type Head struct {
	// Criteria are how one can tell that the feature is done, one by one.
	Criteria []string
	// Phases are what the work is divided into, in their order.
	Phases []td.PRDPart
	// AutoInstall says that whoever works on it may install what the work needs, as far as the rules allow.
	AutoInstall bool
}

// The most that a head may have.
const (
	maxPoints = 100
	maxPoint  = 2000 // characters
)

// ReadHead reads the head of a spec. One without has an empty head. What other programs keep there is theirs.
func ReadHead(spec string) (h Head, err error) {
	if first, _, _ := strings.Cut(strings.TrimPrefix(spec, "\ufeff"), "\n"); strings.TrimRight(first, " \t\r") != "---" {
		return Head{}, nil
	}
	doc, err := frontmatter.Parse([]byte(spec))
	if err != nil {
		return Head{}, err
	}
	for _, f := range doc.Fields {
		switch strings.ReplaceAll(f.Key, "-", "_") {
		case "criteria":
			h.Criteria, err = points(f)
		case "phases":
			h.Phases, err = phases(f)
		case "auto_install":
			if f.Value.Kind != frontmatter.Bool {
				err = frontmatter.Errorf(f.Line, "%s: it is true or false", f.Key)
			}
			h.AutoInstall = strings.EqualFold(f.Value.Text, "true")
		}
		if err != nil {
			return Head{}, err
		}
	}
	return h, nil
}

// phases reads a list of phases, each its name alone or a name with requirements and success criteria. They are numbered in their order.
func phases(f frontmatter.Field) (out []td.PRDPart, err error) {
	items := f.Value.Items
	if f.Value.Kind != frontmatter.List {
		items = []frontmatter.Node{f.Value}
	}
	if len(items) > maxPoints {
		return nil, frontmatter.Errorf(f.Line, "%s: there are %d; %d are allowed", f.Key, len(items), maxPoints)
	}
	for _, item := range items {
		var part td.PRDPart
		fields := item.Fields
		if item.Kind != frontmatter.Map {
			fields = []frontmatter.Field{{Key: "name", Line: item.Line, Value: item}}
		}
		for _, in := range fields {
			list, err := points(in)
			if err != nil {
				return nil, err
			}
			switch strings.ReplaceAll(in.Key, "-", "_") {
			case "name":
				part.Name = strings.Join(list, ", ")
			case "requirements":
				part.Requirements = list
			case "success_criteria", "criteria":
				part.Criteria = list
			}
		}
		switch {
		case part.Name != "":
			part.Number = len(out) + 1
			out = append(out, part)
		case item.Kind == frontmatter.Map:
			return nil, frontmatter.Errorf(item.Line, "%s: a phase has no name", f.Key)
		}
	}
	return out, nil
}

// points reads a list of sentences; a single one is a list of one, whatever commas it has.
func points(f frontmatter.Field) (out []string, err error) {
	items := f.Value.Items
	switch f.Value.Kind {
	case frontmatter.List:
	case frontmatter.Null:
		return nil, nil
	default:
		items = []frontmatter.Node{f.Value}
	}
	if len(items) > maxPoints {
		return nil, frontmatter.Errorf(f.Line, "%s: it has %d points; %d are allowed", f.Key, len(items), maxPoints)
	}
	for _, item := range items {
		text, err := item.String()
		if err != nil {
			return nil, err
		}
		text = strings.Join(strings.Fields(text), " ")
		if len([]rune(text)) > maxPoint {
			return nil, frontmatter.Errorf(item.Line, "%s: a point has more than %d characters", f.Key, maxPoint)
		}
		if text != "" {
			out = append(out, text)
		}
	}
	return out, nil
}
