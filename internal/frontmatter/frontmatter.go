// Package frontmatter reads Markdown files that begin with YAML between two lines of three dashes, as
// learnings and skills do. People, other programs and models write them, so everything about them is
// doubted: size, depth and encoding are bounded, and an error says at which line it is.
package frontmatter

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of the part between the dashes. The YAML parser recurses, and a stack that overflows cannot be
// caught, so depth is measured on the tokens before it runs.
const (
	maxHead  = 64 << 10
	maxDepth = 30
)

// Error is what is wrong with a file, and where.
type Error struct {
	Line int // from 1; 0: the file as a whole
	Msg  string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Msg
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Msg)
}

// Errorf makes an Error.
func Errorf(line int, format string, args ...any) *Error {
	return &Error{line, fmt.Sprintf(format, args...)}
}

// LineOf is the line an error names, or 0.
func LineOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Line
	}
	return 0
}

// Doc is a file that was read.
type Doc struct {
	Fields []Field // of the front matter, in the file's order
	Body   string  // what follows it, with plain line ends
}

// Field is one key of a mapping.
type Field struct {
	Key   string
	Line  int
	Raw   string // of a key of the front matter itself: its lines as they are, comments included
	Value Node
}

var bom = []byte("\xef\xbb\xbf")

// Parse reads a whole file. Every error is an *Error.
func Parse(src []byte) (Doc, error) {
	head, body, err := split(src)
	if err != nil {
		return Doc{}, err
	}
	root, err := parse(head)
	if err != nil {
		return Doc{}, err
	}
	doc := Doc{Body: body}
	if root == nil {
		return doc, nil
	}
	if m, ok := root.(*ast.MappingNode); ok && m.IsFlowStyle {
		return Doc{}, at(root, "write one key per line, without braces")
	}
	if m, ok := root.(ast.MapNode); ok {
		for it := m.MapRange(); it.Next(); {
			if t := it.Key().GetToken(); t != nil && t.Position != nil && t.Position.Column != 1 {
				return Doc{}, at(it.Key(), "a key begins at the start of its line")
			}
		}
	}
	node, err := convert(root)
	if err != nil {
		return Doc{}, err
	}
	if node.Kind != Map {
		return Doc{}, at(root, "the front matter is a list of keys and values, such as: name: value")
	}
	doc.Fields = node.Fields
	addRaw(doc.Fields, head)
	return doc, nil
}

// split takes the file apart. The front matter's first line is line 2 of the file.
func split(src []byte) (head, body string, err error) {
	src = bytes.TrimPrefix(src, bom)
	if bytes.IndexByte(src, 0) >= 0 || !utf8.Valid(src) {
		return "", "", Errorf(0, "it is not text in UTF-8")
	}
	text := strings.ReplaceAll(string(src), "\r\n", "\n")
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t") != "---" {
		return "", "", Errorf(1, "the file does not begin with front matter: a line of three dashes, keys, and three dashes again")
	}
	for at := 0; at < len(rest); {
		end := strings.IndexByte(rest[at:], '\n')
		next := at + end + 1
		if end < 0 {
			end, next = len(rest)-at, len(rest)
		}
		if line := strings.TrimRight(rest[at:at+end], " \t"); line == "---" || line == "..." {
			if at > maxHead {
				return "", "", Errorf(2, "the front matter has %d bytes, the limit is %d", at, maxHead)
			}
			return rest[:at], rest[next:], nil
		}
		at = next
	}
	return "", "", Errorf(1, "the front matter is not closed: a second line of three dashes is missing")
}

func parse(head string) (root ast.Node, err error) {
	defer func() { // the library promises no errors instead of panics for every input
		if r := recover(); r != nil {
			root, err = nil, Errorf(2, "the front matter is not YAML: %v", r)
		}
	}()
	tokens := lexer.Tokenize(head)
	if err := checkTokens(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		if y, ok := errors.AsType[yaml.Error](err); ok {
			return nil, atToken(y.GetToken(), "%s", y.GetMessage())
		}
		return nil, Errorf(2, "%v", err)
	}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		if root != nil {
			return nil, at(doc.Body, "the front matter is one document")
		}
		root = doc.Body
	}
	return root, nil
}

// checkTokens refuses what front matter never needs and a parser may choke on.
func checkTokens(tokens token.Tokens) error {
	flow, line, inLine := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, inLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return atToken(t, "anchors and aliases are not allowed; quote a value that begins with & or *")
		case token.TagType, token.DirectiveType:
			return atToken(t, "tags and directives are not allowed; quote a value that begins with ! or %%")
		case token.MappingKeyType:
			return atToken(t, "a key is a plain word, without ?")
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType:
			inLine++
		case token.MappingValueType:
			if flow == 0 {
				inLine++
			}
		}
		if flow > maxDepth || inLine > maxDepth || t.Position.IndentLevel > maxDepth {
			return atToken(t, "it nests deeper than %d levels", maxDepth)
		}
	}
	return nil
}

func at(n ast.Node, format string, args ...any) error { return atToken(n.GetToken(), format, args...) }

func atToken(t *token.Token, format string, args ...any) error {
	line := 2
	if t != nil && t.Position != nil {
		line = t.Position.Line + 1
	}
	return Errorf(line, format, args...)
}

// addRaw gives each field the lines from its own to the next one's.
func addRaw(fields []Field, head string) {
	lines := strings.SplitAfter(head, "\n")
	for i := range fields {
		from, to := fields[i].Line-2, len(lines)
		if i+1 < len(fields) {
			to = fields[i+1].Line - 2
		}
		if 0 <= from && from <= to && to <= len(lines) {
			fields[i].Raw = strings.Join(lines[from:to], "")
		}
	}
}
