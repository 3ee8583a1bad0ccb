package yamltree

import (
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const depth = 10
	for _, c := range []struct{ name, src, want string }{
		{"a tree", "a: {b: [1, two]}\nc:\n  - d: e\n", ""},
		{"comments only", "# nothing\n", ""},
		{"empty", "", ""},
		{"an empty second document", "a: 1\n---\n# nothing\n", ""},
		{"a second document", "a: 1\n---\nb: 2\n", "line 3, column 2: there is to be one document"},
		{"an anchor", "a: &x 1\n", "line 1, column 4: anchors"},
		{"an alias", "a: 1\nb: *x\n", "line 2, column 4: anchors"},
		{"a merge", "a:\n  <<: {b: 1}\n", "line 2, column 3: anchors"},
		{"a tag", "a: !!str 1\n", "line 1, column 4: tags"},
		{"a directive", "%YAML 1.2\n---\na: 1\n", "tags and directives"},
		{"a complex key", "? a\n: b\n", "line 1, column 1: a key is a plain word"},
		{"deep flow", "a: " + strings.Repeat("[", depth+1) + strings.Repeat("]", depth+1), "nests deeper than 10"},
		{"deep in a line", strings.Repeat("- ", depth+1) + "a", "nests deeper than 10"},
		{"deep by indent", indented(depth + 2), "nests deeper than 10"},
		{"as deep as allowed", "a: " + strings.Repeat("[", depth) + strings.Repeat("]", depth), ""},
		{"not YAML", "a: [1\n", "line 1"},
	} {
		root, err := Parse(c.src, depth)
		switch e, ok := errors.AsType[*Error](err); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (!ok || root != nil || !strings.Contains(e.Error(), c.want)):
			t.Errorf("%s: %v, %v, want %q", c.name, root, err, c.want)
		}
	}
	if root, err := Parse("# nothing\n", depth); root != nil || err != nil {
		t.Errorf("a comment is %v, %v", root, err)
	}
}

// indented is a mapping in a mapping in a mapping.
func indented(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "a: 1\n", "a: {b: [1, two]}\n", "- - - a\n", "a: |\n  x\n", "a: &x [*x]\n", "!!a b", "? a\n: b\n", "---\n---\n", "%a\n", "a: \"\\x\"", "a: [", "\t- a", "<<: *a",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, src string) {
		root, err := Parse(src, 20)
		if _, ok := errors.AsType[*Error](err); err != nil && (!ok || root != nil) {
			t.Errorf("%v and the error %T %v", root, err, err)
		}
	})
}
