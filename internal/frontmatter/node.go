package frontmatter

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Kind is the form of a value.
type Kind int

// The kinds. A scalar other than text keeps its spelling, since a person who writes `tags: [404]` means
// the word.
const (
	Null Kind = iota
	Text
	Bool
	Number
	List
	Map
)

// Node is a value in the front matter.
type Node struct {
	Line   int
	Kind   Kind
	Text   string // of a scalar
	Items  []Node
	Fields []Field
	number any
}

func convert(n ast.Node) (Node, error) {
	out := Node{Line: 2}
	if t := n.GetToken(); t != nil && t.Position != nil {
		out.Line = t.Position.Line + 1
		out.Text = t.Value
	}
	switch n := n.(type) {
	case ast.MapNode:
		return convertMap(out.Line, n)
	case *ast.SequenceNode:
		out.Kind, out.Text = List, ""
		for _, item := range n.Values {
			v, err := convert(item)
			if err != nil {
				return Node{}, err
			}
			out.Items = append(out.Items, v)
		}
	case *ast.NullNode:
		out.Kind, out.Text = Null, ""
	case *ast.IntegerNode:
		out.Kind, out.number = Number, n.Value
	case *ast.FloatNode:
		out.Kind, out.number = Number, n.Value
		if math.IsInf(n.Value, 0) || math.IsNaN(n.Value) {
			out.Kind = Text
		}
	case *ast.BoolNode:
		out.Kind, out.number = Bool, n.Value
	case *ast.InfinityNode, *ast.NanNode:
		out.Kind = Text
	case *ast.StringNode:
		out.Kind, out.Text = Text, n.Value
	case *ast.LiteralNode:
		out.Kind, out.Text = Text, n.Value.Value
	default:
		return Node{}, at(n, "a %s is not allowed here", strings.ToLower(n.Type().String()))
	}
	return out, nil
}

func convertMap(line int, n ast.MapNode) (Node, error) {
	out := Node{Line: line, Kind: Map}
	seen := map[string]bool{}
	for it := n.MapRange(); it.Next(); {
		t := it.Key().GetToken()
		if t == nil || t.Position == nil {
			return Node{}, Errorf(line, "a key is a plain word")
		}
		if seen[t.Value] {
			return Node{}, at(it.Key(), "key %q is there twice", t.Value)
		}
		seen[t.Value] = true
		v, err := convert(it.Value())
		if err != nil {
			return Node{}, err
		}
		out.Fields = append(out.Fields, Field{Key: t.Value, Line: t.Position.Line + 1, Value: v})
	}
	return out, nil
}

// String reads a text: a scalar of any kind, as it is spelled.
func (n Node) String() (string, error) {
	switch n.Kind {
	case Null:
		return "", nil
	case List, Map:
		return "", Errorf(n.Line, "text is wanted here")
	}
	return n.Text, nil
}

// Strings reads a list of texts. A single text stands for a list of one; commas divide it, as other
// programs write tags.
func (n Node) Strings() ([]string, error) {
	var out []string
	add := func(s string) {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	switch n.Kind {
	case Map:
		return nil, Errorf(n.Line, "a list is wanted here")
	case List:
		for _, item := range n.Items {
			s, err := item.String()
			if err != nil {
				return nil, err
			}
			add(s)
		}
	default:
		for s := range strings.SplitSeq(n.Text, ",") {
			add(s)
		}
	}
	return out, nil
}

// JSON is the value as JSON, keys in the file's order.
func (n Node) JSON() json.RawMessage {
	var b bytes.Buffer
	n.writeJSON(&b)
	return b.Bytes()
}

func (n Node) writeJSON(b *bytes.Buffer) {
	open := func(i int, c byte) {
		if i > 0 {
			c = ','
		}
		b.WriteByte(c)
	}
	switch n.Kind {
	case Null:
		b.WriteString("null")
	case Number, Bool:
		writeScalar(b, n.number)
	case Text:
		writeScalar(b, n.Text)
	case List:
		if len(n.Items) == 0 {
			b.WriteByte('[')
		}
		for i, item := range n.Items {
			open(i, '[')
			item.writeJSON(b)
		}
		b.WriteByte(']')
	case Map:
		if len(n.Fields) == 0 {
			b.WriteByte('{')
		}
		for i, f := range n.Fields {
			open(i, '{')
			writeScalar(b, f.Key)
			b.WriteByte(':')
			f.Value.writeJSON(b)
		}
		b.WriteByte('}')
	}
}

func writeScalar(b *bytes.Buffer, v any) {
	raw, err := json.Marshal(v)
	if err != nil { // convert lets no value through that has no JSON form
		raw = []byte("null")
	}
	b.Write(raw)
}
