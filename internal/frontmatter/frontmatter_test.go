package frontmatter

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// lineOf is the line an error names, or 0.
func lineOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Line
	}
	return 0
}

func TestParse(t *testing.T) {
	src := "\xef\xbb\xbf---\r\ntitle: A thing: explained\r\n"
	if _, err := Parse([]byte(src + "---\r\nbody")); lineOf(err) != 2 {
		t.Errorf("a colon in a plain value: %v", err)
	}
	doc, err := Parse([]byte("---\ntitle: \"A: thing\"\n# why\ntags: [404, yes, go]\nx:\n  deep:\n    - 1\n    - a: 2.5\nlast: |\n  two\n  lines\n---\n\nbody\r\nmore"))
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, f := range doc.Fields {
		keys = append(keys, f.Key)
	}
	if diff := cmp.Diff([]string{"title", "tags", "x", "last"}, keys); diff != "" {
		t.Error(diff)
	}
	if s, _ := doc.Fields[0].Value.String(); s != "A: thing" {
		t.Errorf("title %q", s)
	}
	if got, err := doc.Fields[1].Value.Strings(); err != nil || strings.Join(got, "|") != "404|yes|go" {
		t.Errorf("tags %q, %v", got, err)
	}
	if got := string(doc.Fields[2].Value.JSON()); got != `{"deep":[1,{"a":2.5}]}` {
		t.Errorf("json %s", got)
	}
	if got := doc.Fields[2].Raw; got != "x:\n  deep:\n    - 1\n    - a: 2.5\n" {
		t.Errorf("raw %q", got)
	}
	if s, _ := doc.Fields[3].Value.String(); s != "two\nlines\n" {
		t.Errorf("block %q", s)
	}
	if doc.Body != "\nbody\nmore" {
		t.Errorf("body %q", doc.Body)
	}
}

func TestParseNothing(t *testing.T) {
	for _, src := range []string{"---\n---\nbody", "---\n# only a comment\n---\nbody"} {
		if doc, err := Parse([]byte(src)); err != nil || len(doc.Fields) != 0 || doc.Body != "body" {
			t.Errorf("Parse(%q) = %+v, %v", src, doc, err)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		name, src string
		line      int
		says      string
	}{
		{"empty", "", 1, "does not begin"},
		{"no front matter", "# Title\n", 1, "does not begin"},
		{"not closed", "---\nname: x\n", 1, "not closed"},
		{"binary", "---\nname: \x00\n---\n", 0, "UTF-8"},
		{"latin-1", "---\nname: \xe9\n---\n", 0, "UTF-8"},
		{"twice", "---\na: 1\nb: 2\na: 3\n---\n", 4, "a"},
		{"list", "---\n- a\n---\n", 2, "list of keys"},
		{"scalar", "---\nword\n---\n", 2, "list of keys"},
		{"braces", "---\n{a: 1}\n---\n", 2, "one key per line"},
		{"indented", "---\n a: 1\n---\n", 2, "start of its line"},
		{"alias", "---\na: &x 1\nb: *x\n---\n", 2, "anchors"},
		{"tag", "---\na: !!binary x\n---\n", 2, "tags"},
		{"tab", "---\na: 1\n\tb: 2\n---\n", 3, ""},
		{"unclosed quote", "---\na: ok\nb: \"x\n---\n", 3, ""},
		{"deep", "---\na: " + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "\n---\n", 2, "deeper"},
		{"deep lines", "---\n" + deep(60) + "---\n", 0, ""},
		{"huge", "---\na: " + strings.Repeat("x", maxHead) + "\n---\n", 2, "limit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.src))
			if err == nil {
				t.Fatal("no error")
			}
			if c.line > 0 && lineOf(err) != c.line {
				t.Errorf("line %d, want %d: %v", lineOf(err), c.line, err)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v does not say %q", err, c.says)
			}
		})
	}
}

func deep(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestStrings(t *testing.T) {
	doc, err := Parse([]byte("---\na: one, two ,\nb:\nc: [[x]]\nd: {x: 1}\n---\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := doc.Fields[0].Value.Strings(); err != nil || strings.Join(got, "|") != "one|two" {
		t.Errorf("commas: %q, %v", got, err)
	}
	if got, err := doc.Fields[1].Value.Strings(); err != nil || got != nil {
		t.Errorf("null: %q, %v", got, err)
	}
	for _, f := range doc.Fields[2:] {
		if _, err := f.Value.Strings(); lineOf(err) != f.Line {
			t.Errorf("%s: %v", f.Key, err)
		}
	}
}

func TestQuoteIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z0-9 :#'"\\\[\]{}&*!|>%@,?-]{0,20}`),
			rapid.SampledFrom([]string{"true", "No", "null", "~", "1e3", "0x1f", "a: b", "- x", " lead", "trail ", "\u2028", "\x7f", "\u0085", "😀"})).Draw(t, "text")
		for _, src := range []string{"---\nk: " + Quote(want) + "\n---\n", "---\nk: [" + Quote(want) + ", z]\n---\n"} {
			doc, err := Parse([]byte(src))
			if err != nil {
				t.Fatalf("%q: %v", src, err)
			}
			v := doc.Fields[0].Value
			if v.Kind == List {
				v = v.Items[0]
			}
			if got, err := v.String(); err != nil || got != want || v.Kind != Text {
				t.Fatalf("%q came back as %q, %v", want, got, err)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"---\nname: x\ndescription: y\n---\nbody", "---\na: [1, {b: c}]\n---\n", "---\na: |\n  x\n---\n",
		"---\na: .inf\nb: .nan\nc: 1_000\n---\n", "---\n\"a\nb\": 1\n---\n", "---\r\na: 1\r\n---\r\n", "---\na:\n- b: c\n  d: e\n...\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		doc, err := Parse(src)
		if err != nil {
			if line := lineOf(err); line < 0 || line > strings.Count(string(src), "\n")+2 {
				t.Fatalf("line %d: %v", line, err)
			}
			return
		}
		for _, field := range doc.Fields {
			if raw := field.Value.JSON(); !json.Valid(raw) {
				t.Fatalf("%q is not JSON: %q", field.Key, raw)
			}
		}
		if !utf8.ValidString(doc.Body) {
			t.Fatal("the body is not UTF-8")
		}
	})
}
