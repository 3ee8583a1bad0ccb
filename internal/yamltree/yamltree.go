// Package yamltree reads YAML that strangers wrote: one document that is a tree. Anchors, aliases, tags
// and directives are refused, since nothing that is read this way needs them and they are how a small
// file becomes a huge one. Depth is bounded before the library parses: it recurses, and a stack that
// overflows cannot be caught. Every error says where.
package yamltree

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Error is what is wrong with a text, and where.
type Error struct {
	Line, Column int // from 1; 0: the text as a whole
	Msg          string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Msg
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg)
}

// At makes an error at the place of a node.
func At(n ast.Node, format string, args ...any) *Error { return at(n.GetToken(), format, args...) }

func at(t *token.Token, format string, args ...any) *Error {
	e := &Error{Msg: fmt.Sprintf(format, args...)}
	if t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line, t.Position.Column
	}
	return e
}

// Parse reads src, which nests at most depth levels deep. The root is nil if there is nothing in it but
// comments. Every error is an *Error.
func Parse(src string, depth int) (root ast.Node, err error) {
	defer func() { // the library promises no errors instead of panics for every input
		if r := recover(); r != nil {
			root, err = nil, &Error{Msg: fmt.Sprintf("it is not YAML: %v", r)}
		}
	}()
	tokens := lexer.Tokenize(src)
	if e := check(tokens, depth); e != nil {
		return nil, e
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		if y, ok := errors.AsType[yaml.Error](err); ok {
			return nil, at(y.GetToken(), "%s", y.GetMessage())
		}
		return nil, &Error{Msg: err.Error()}
	}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		if root != nil {
			return nil, At(doc.Body, "there is to be one document, and here a second begins")
		}
		root = doc.Body
	}
	return root, nil
}

// check refuses what is not allowed and a parser may choke on.
func check(tokens token.Tokens, depth int) *Error {
	flow, line, inLine := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, inLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return at(t, "anchors and aliases are not allowed; quote a value that begins with & or *")
		case token.TagType, token.DirectiveType:
			return at(t, "tags and directives are not allowed; quote a value that begins with ! or %%")
		case token.MappingKeyType:
			return at(t, "a key is a plain word, without ?")
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
		if flow > depth || inLine > depth || t.Position.IndentLevel > depth {
			return at(t, "it nests deeper than %d levels", depth)
		}
	}
	return nil
}
