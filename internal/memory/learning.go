package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"taskdaemon/internal/td"
	"taskdaemon/internal/words"
)

// Learning is one thing that was learned.
type Learning struct {
	ID        string          `json:"id"` // the file's name without .md, so no two can be the same
	Kind      td.LearningKind `json:"kind"`
	Title     string          `json:"title"`
	Text      string          `json:"text"`
	Tags      []string        `json:"tags,omitempty"` // lower case, sorted
	Feature   string          `json:"feature,omitempty"`
	Sources   []string        `json:"sources,omitempty"` // handles of the tasks it comes from, oldest first
	Files     []File          `json:"files,omitempty"`   // what it is about; it is void when they change
	CreatedAt time.Time       `json:"created_at"`
}

// File is a cited file, by its path in the project.
type File struct {
	Path string `json:"path"`
	Hash string `json:"hash,omitempty"` // SHA-256 of the content, in hex; empty: only its existence counts
}

// What a learning may hold. One that is larger is an essay that no task should be told.
const (
	maxTitle   = 200 // characters
	maxText    = 16 << 10
	maxMerged  = 32 << 10
	maxWord    = 64 // a tag, a feature, a source
	maxTags    = 20
	maxSources = 20
	maxFiles   = 50
)

// clean brings a learning into its one form, so that the same one is the same bytes. It refuses what no
// file should hold.
func clean(l Learning) (Learning, error) {
	l.Text = strings.TrimSpace(printable(strings.ReplaceAll(l.Text, "\r\n", "\n"), true))
	l.Title = oneLine(l.Title)
	if l.Text == "" {
		return l, td.Errorf(td.Invalid, "the learning has no text")
	}
	if len(l.Text) > maxText {
		return l, td.Errorf(td.Invalid, "the learning's text has %d bytes, the limit is %d", len(l.Text), maxText)
	}
	if l.Title == "" {
		l.Title = titleOf(l.Text)
	}
	l.Title = shorten(l.Title, maxTitle)
	kind, err := td.LearningKindOf(string(l.Kind))
	if err != nil {
		return l, err
	}
	l.Kind = kind
	l.Feature = shorten(oneLine(l.Feature), maxWord)
	l.Tags = cleanTags(l.Tags)
	l.Sources = cleanSources(l.Sources)
	files, err := cleanFiles(l.Files)
	if err != nil {
		return l, err
	}
	l.Files = files
	l.CreatedAt = l.CreatedAt.UTC().Truncate(time.Second)
	return l, nil
}

func cleanTags(tags []string) []string {
	var out []string
	for _, t := range tags {
		if t = shorten(strings.ToLower(oneLine(t)), maxWord); t != "" {
			out = append(out, t)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), maxTags)]
}

func cleanSources(sources []string) []string {
	var out []string
	for _, s := range sources {
		if s = shorten(oneLine(s), maxWord); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out[:min(len(out), maxSources)]
}

func cleanFiles(files []File) ([]File, error) {
	var out []File
	for _, f := range files {
		f.Path = path.Clean(f.Path)
		if !localPath(f.Path) {
			return nil, td.Errorf(td.Invalid, "cited file %q is not a path inside the project", f.Path)
		}
		if !validHash(f.Hash) {
			return nil, td.Errorf(td.Invalid, "the hash of %s is not a SHA-256 in hex", f.Path)
		}
		if i := slices.IndexFunc(out, func(o File) bool { return o.Path == f.Path }); i >= 0 {
			if f.Hash != "" {
				out[i] = f
			}
		} else {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	if len(out) > maxFiles {
		return nil, td.Errorf(td.Invalid, "the learning cites %d files, the limit is %d", len(out), maxFiles)
	}
	return out, nil
}

func localPath(p string) bool {
	return p != "" && p != "." && p != ".." && !path.IsAbs(p) && !strings.HasPrefix(p, "../") && len(p) <= 1024 &&
		utf8.ValidString(p) && strings.IndexFunc(p, unicode.IsControl) < 0
}

func validHash(h string) bool {
	raw, err := hex.DecodeString(h)
	return err == nil && (len(raw) == sha256.Size || h == "")
}

// printable drops what a terminal would obey.
func printable(s string, lines bool) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) && !(lines && (r == '\n' || r == '\t')) {
			return -1
		}
		return r
	}, s)
}

func oneLine(s string) string { return strings.Join(strings.Fields(printable(s, true)), " ") }

// shorten cuts s to at most n characters, at a word's end where there is one near.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	cut := string([]rune(s)[:n-1])
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)/2 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " ,;:.") + "…"
}

// titleOf makes a title of a text: its first sentence.
func titleOf(text string) string {
	first, _, _ := strings.Cut(strings.TrimLeft(text, "#->* \n\t"), "\n")
	if i := strings.Index(first, ". "); i > 0 {
		first = first[:i]
	}
	return shorten(strings.TrimRight(oneLine(first), ".:"), 80)
}

// titleKey is what two titles have in common when they are the same to a reader.
func titleKey(title string) string {
	var parts []string
	words.Each(title, func(t words.Token) bool {
		if !t.Whole {
			parts = append(parts, t.Text)
		}
		return true
	})
	if len(parts) == 0 {
		return title
	}
	return strings.Join(parts, " ")
}

// Version names a learning with a hash of its text: it is another one when it was changed.
func (l Learning) Version() string {
	sum := sha256.Sum256([]byte(l.Text))
	return l.ID + "@" + hex.EncodeToString(sum[:6])
}

// newID names a learning: readable, and different for different learnings.
func newID(l Learning) string {
	sum := sha256.Sum256([]byte(titleKey(l.Title) + "\x00" + l.Text))
	var b strings.Builder
	for _, r := range strings.ToLower(l.Title) {
		switch {
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= 48 {
			break
		}
	}
	slug := strings.Trim(b.String(), "-")
	if slug == "" {
		slug = "learning"
	}
	return slug + "-" + hex.EncodeToString(sum[:4])
}
