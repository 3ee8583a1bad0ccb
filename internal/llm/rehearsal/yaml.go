package rehearsal

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"taskdaemon/internal/yamltree"
)

// maxDepth is how deep a script may nest.
const maxDepth = 50

// at makes an error that says where.
func at(n ast.Node, format string, args ...any) error { return yamltree.At(n, format, args...) }

// parseYAML reads one YAML document that is a tree.
func parseYAML(src []byte) (ast.Node, error) {
	switch {
	case len(src) > MaxSize:
		return nil, fmt.Errorf("it has %d bytes, the limit is %d", len(src), MaxSize)
	case !utf8.Valid(src):
		return nil, errors.New("it is not UTF-8")
	}
	root, err := yamltree.Parse(string(src), maxDepth)
	if err == nil && root == nil {
		err = errors.New("it is empty")
	}
	return root, err
}

type fields map[string]func(ast.Node) error

// mapping reads the keys of n, each at most once.
func mapping(n ast.Node, what string, known fields) error {
	m, ok := n.(ast.MapNode)
	if !ok {
		return at(n, "%s is a mapping of %s", what, list(known))
	}
	seen := map[string]bool{}
	for it := m.MapRange(); it.Next(); {
		key := it.Key().GetToken().Value
		parse, ok := known[key]
		if !ok {
			return at(it.Key(), "%s has no key %q: did you mean %q?", what, key, nearest(key, known))
		}
		if seen[key] {
			return at(it.Key(), "key %q is there twice", key)
		}
		seen[key] = true
		if err := parse(it.Value()); err != nil {
			return err
		}
	}
	return nil
}

// sequence reads the items of n in order.
func sequence(n ast.Node, what string, each func(ast.Node) error) error {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		return at(n, "%s is a list", what)
	}
	for _, item := range s.Values {
		if err := each(item); err != nil {
			return err
		}
	}
	return nil
}

// text reads a string. A number or a truth value would be taken for one by people, so it counts too.
func text(into *string) func(ast.Node) error {
	return func(n ast.Node) error {
		switch n := n.(type) {
		case *ast.StringNode:
			*into = n.Value
		case *ast.LiteralNode:
			*into = n.Value.Value
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
			*into = n.GetToken().Value
		default:
			return at(n, "text is wanted here")
		}
		return nil
	}
}

func number[T int | int64](into *T, least, most int64) func(ast.Node) error {
	return func(n ast.Node) error {
		i, ok := n.(*ast.IntegerNode)
		if !ok {
			return at(n, "a whole number is wanted here")
		}
		var v int64
		switch x := i.Value.(type) {
		case int64:
			v = x
		case uint64:
			v = int64(min(x, math.MaxInt64))
		}
		if v < least || v > most {
			return at(n, "%d is not between %d and %d", v, least, most)
		}
		*into = T(v)
		return nil
	}
}

func duration(into *time.Duration) func(ast.Node) error {
	return func(n ast.Node) error {
		var s string
		if err := text(&s)(n); err != nil {
			return err
		}
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 || d > maxWait {
			return at(n, "%q is not a time such as 250ms or 2s", s)
		}
		*into = d
		return nil
	}
}

// value is n as encoding/json would decode it.
func value(n ast.Node) (any, error) {
	switch n := n.(type) {
	case ast.MapNode:
		m := map[string]any{}
		for it := n.MapRange(); it.Next(); {
			key := it.Key().GetToken().Value
			if _, ok := m[key]; ok {
				return nil, at(it.Key(), "key %q is there twice", key)
			}
			v, err := value(it.Value())
			if err != nil {
				return nil, err
			}
			m[key] = v
		}
		return m, nil
	case *ast.SequenceNode:
		list := make([]any, 0, len(n.Values))
		for _, item := range n.Values {
			v, err := value(item)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case *ast.NullNode:
		return nil, nil
	case *ast.IntegerNode:
		return n.Value, nil
	case *ast.FloatNode:
		return n.Value, nil
	case *ast.BoolNode:
		return n.Value, nil
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	default:
		return nil, at(n, "a %s cannot be sent as JSON", strings.ToLower(n.Type().String()))
	}
}
