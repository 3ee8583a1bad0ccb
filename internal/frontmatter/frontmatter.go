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

	"github.com/goccy/go-yaml/ast"

	"taskdaemon/internal/yamltree"
)

// Limits of the part between the dashes.
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

func parse(head string) (ast.Node, error) {
	root, err := yamltree.Parse(head, maxDepth)
	if e, ok := errors.AsType[*yamltree.Error](err); ok {
		return nil, inFile(e)
	}
	return root, err
}

func at(n ast.Node, format string, args ...any) error {
	return inFile(yamltree.At(n, format, args...))
}

// inFile is an error of the front matter at its place in the file, whose second line is its first.
func inFile(e *yamltree.Error) *Error { return &Error{max(e.Line, 1) + 1, e.Msg} }

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
