package memory

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"taskdaemon/internal/frontmatter"
	"taskdaemon/internal/td"
)

// maxFile is the largest file that is read.
const maxFile = 256 << 10

// page is a learning's file: the learning, and the lines of its front matter that mean nothing here and
// are somebody else's.
type page struct {
	Learning
	extra string
}

// parsePage reads a file. People write these too, so what is missing is made up for; an error is a
// *frontmatter.Error.
func parsePage(id string, src []byte) (page, error) {
	doc, err := frontmatter.Parse(src)
	if err != nil {
		return page{}, err
	}
	p := page{Learning: Learning{ID: id, Kind: td.KindLearning, Text: strings.TrimSpace(printable(doc.Body, true))}}
	for _, f := range doc.Fields {
		if err := p.read(f); err != nil {
			return page{}, err
		}
	}
	if p.Title == "" {
		p.Title = shorten(oneLine(strings.ReplaceAll(id, "-", " ")), maxTitle)
	}
	if p.Text == "" {
		p.Text = p.Title
	}
	return p, nil
}

func (p *page) read(f frontmatter.Field) (err error) {
	switch f.Key {
	case "title":
		p.Title, err = f.Value.String()
		p.Title = shorten(oneLine(p.Title), maxTitle)
	case "kind":
		p.Kind, err = readKind(f.Value)
	case "tags":
		p.Tags, err = f.Value.Strings()
		p.Tags = cleanTags(p.Tags)
	case "feature":
		p.Feature, err = f.Value.String()
		p.Feature = shorten(oneLine(p.Feature), maxWord)
	case "sources":
		p.Sources, err = f.Value.Strings()
		p.Sources = cleanSources(p.Sources)
	case "created_at":
		p.CreatedAt, err = readTime(f.Value)
	case "files":
		p.Files, err = readFiles(f.Value)
	default:
		p.extra += strings.TrimRight(f.Raw, "\n") + "\n"
	}
	return err
}

func readKind(v frontmatter.Node) (td.LearningKind, error) {
	s, err := v.String()
	if err != nil {
		return "", err
	}
	kind, err := td.LearningKindOf(strings.ToLower(strings.TrimSpace(s)))
	if err != nil {
		return "", frontmatter.Errorf(v.Line, "kind is learning or decision, not %q", shorten(s, 40))
	}
	return kind, nil
}

func readTime(v frontmatter.Node) (time.Time, error) {
	s, err := v.String()
	if err != nil || s == "" {
		return time.Time{}, err
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC().Truncate(time.Second), nil
		}
	}
	return time.Time{}, frontmatter.Errorf(v.Line, "%q is not a time such as 2026-01-31T12:00:00Z", shorten(s, 40))
}

func readFiles(v frontmatter.Node) ([]File, error) {
	if v.Kind != frontmatter.List && v.Kind != frontmatter.Null {
		return nil, frontmatter.Errorf(v.Line, "files is a list")
	}
	var files []File
	for _, item := range v.Items {
		var f File
		var err error
		if item.Kind != frontmatter.Map {
			f.Path, err = item.String()
		}
		for _, field := range item.Fields {
			switch field.Key {
			case "path":
				f.Path, err = field.Value.String()
			case "hash":
				f.Hash, err = field.Value.String()
			}
			if err != nil {
				break
			}
		}
		if err != nil {
			return nil, err
		}
		if _, err := cleanFiles([]File{f}); err != nil {
			return nil, frontmatter.Errorf(item.Line, "%v", err)
		}
		files = append(files, f)
	}
	files, err := cleanFiles(files)
	if err != nil {
		return nil, frontmatter.Errorf(v.Line, "%v", err)
	}
	return files, nil
}

// format is the file that parsePage reads as p.
func (p page) format() []byte {
	var b bytes.Buffer
	b.WriteString("---\n")
	fmt.Fprintf(&b, "title: %s\n", frontmatter.Quote(p.Title))
	if p.Kind != td.KindLearning { // which files of people do not name
		fmt.Fprintf(&b, "kind: %s\n", p.Kind)
	}
	writeList(&b, "tags", p.Tags)
	if p.Feature != "" {
		fmt.Fprintf(&b, "feature: %s\n", frontmatter.Quote(p.Feature))
	}
	writeList(&b, "sources", p.Sources)
	if len(p.Files) > 0 {
		b.WriteString("files:\n")
		for _, f := range p.Files {
			fmt.Fprintf(&b, "  - path: %s\n", frontmatter.Quote(f.Path))
			if f.Hash != "" {
				fmt.Fprintf(&b, "    hash: %s\n", quoteHash(f.Hash))
			}
		}
	}
	if !p.CreatedAt.IsZero() {
		fmt.Fprintf(&b, "created_at: %s\n", p.CreatedAt.UTC().Format(time.RFC3339))
	}
	b.WriteString(p.extra)
	b.WriteString("---\n\n")
	b.WriteString(p.Text)
	b.WriteByte('\n')
	return b.Bytes()
}

func writeList(b *bytes.Buffer, key string, items []string) {
	if len(items) == 0 {
		return
	}
	quoted := make([]string, len(items))
	for i, s := range items {
		quoted[i] = frontmatter.Quote(s)
	}
	fmt.Fprintf(b, "%s: [%s]\n", key, strings.Join(quoted, ", "))
}

// quoteHash quotes a hash that YAML would take for a number: 12e4… is one.
func quoteHash(h string) string { return `"` + h + `"` }

// Problem is a file that could not be used, or the index's trouble. The others are not touched by it.
type Problem = frontmatter.Problem
