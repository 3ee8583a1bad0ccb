package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"taskdaemon/internal/td"
)

// MaxFileSize is the largest config file that is read.
const MaxFileSize = 1 << 20

// maxNesting bounds what stands within what: the reader of YAML recurses, and slows with the square.
const maxNesting = 100

// readFile sets c from the file, if it exists, and reports whether it does.
func readFile(c *Config, path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, td.Errorf(td.Invalid, "read config: %w", err).WithHint("chmod u+r %s", path)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return false, td.Errorf(td.Invalid, "read config %s: %w", path, err).WithHint("taskdaemon config path")
	}
	if len(data) > MaxFileSize {
		return false, td.Errorf(td.Invalid, "%s: larger than %s", path, Size(MaxFileSize)).
			WithHint("taskdaemon config path")
	}
	return true, parse(c, path, data)
}

// parse sets c from the text of a config file. Every error names the place.
func parse(c *Config, path string, data []byte) error {
	r := reader{c: c, path: path, seen: map[string]bool{}}
	if nesting(data) > maxNesting {
		return r.fail(nil, "nested too deep")
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		if y, ok := errors.AsType[yaml.Error](err); ok {
			return r.fail(y.GetToken(), "%s", y.GetMessage())
		}
		return r.fail(nil, "%v", err)
	}
	for i, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if i > 0 {
			return r.fail(doc.Body.GetToken(), "more than one document")
		}
		if err := r.mapping(doc.Body, ""); err != nil {
			return err
		}
	}
	return nil
}

// nesting is how deep the text can nest at most, counted without understanding it: brackets within
// brackets, and list dashes in a row.
func nesting(data []byte) int {
	depth, dashes, deepest := 0, 0, 0
	for i, b := range data {
		switch {
		case b == '[' || b == '{':
			depth++
		case b == ']' || b == '}':
			depth--
		case b == '-' && (i == 0 || data[i-1] == ' '):
			dashes++ // a ruler of dashes is not a list
		}
		if b != '-' && b != ' ' {
			dashes = 0
		}
		deepest = max(deepest, depth, dashes)
	}
	return deepest
}

type reader struct {
	c    *Config
	path string
	seen map[string]bool
	// project is the entry of `projects:` that is read; nil: the file itself.
	project *Project
}

// Mistake is what is wrong in a file, and where. Msg may quote the file.
type Mistake struct {
	Where string // file, and line and column if they are known
	Msg   string
}

func (m *Mistake) Error() string { return m.Where + ": " + m.Msg }

func (r *reader) fail(at *token.Token, format string, args ...any) error {
	return td.Errorf(td.Invalid, "%w", &Mistake{r.place(at), fmt.Sprintf(format, args...)}).
		WithHint("edit %s, then: taskdaemon config check", r.path)
}

func (r *reader) place(at *token.Token) string {
	if at == nil || at.Position == nil {
		return r.path
	}
	return fmt.Sprintf("%s:%d:%d", r.path, at.Position.Line, at.Position.Column)
}

func (r *reader) mapping(n ast.Node, section string) error {
	switch n := n.(type) {
	case *ast.NullNode, *ast.CommentGroupNode:
		return nil
	case *ast.MappingNode:
		for _, v := range n.Values {
			if err := r.entry(v, section); err != nil {
				return err
			}
		}
		return nil
	case *ast.MappingValueNode:
		return r.entry(n, section)
	}
	if section == "" {
		return r.fail(n.GetToken(), "want key: value, found %s", describe(n))
	}
	return r.fail(n.GetToken(), "%s: want keys below it, found %s", section, describe(n))
}

func (r *reader) entry(v *ast.MappingValueNode, section string) error {
	word, ok := v.Key.(*ast.StringNode)
	if !ok {
		return r.fail(v.Key.GetToken(), "want a key, found %s", describe(v.Key))
	}
	name := word.Value
	if section != "" {
		name = section + "." + name
	}
	if r.seen[name] {
		return r.fail(v.Key.GetToken(), "%s is set twice", clip(name))
	}
	r.seen[name] = true
	if r.project != nil && name == "path" {
		return r.projectPath(v.Value)
	}
	if key, ok := find(name); ok {
		if r.project != nil && !key.project {
			return r.fail(v.Key.GetToken(), "%s holds for all projects: set it outside of projects", name)
		}
		return r.set(key, v.Value)
	}
	if read := sectionOf(name); read != nil {
		if r.project != nil {
			return r.fail(v.Key.GetToken(), "%s holds for all projects: set it outside of projects", name)
		}
		return read(r, v.Value)
	}
	if isSection(name) && !strings.Contains(word.Value, ".") {
		return r.mapping(v.Value, name)
	}
	if near := nearest(name); near != "" {
		return r.fail(v.Key.GetToken(), "unknown key %q; did you mean %s?", clip(name), near)
	}
	return r.fail(v.Key.GetToken(), "unknown key %q", clip(name))
}

func (r *reader) set(k Key, n ast.Node) error {
	if _, null := n.(*ast.NullNode); null {
		return nil // a key without a value keeps its default
	}
	if ptr, ok := k.field(r.c).(*[]time.Duration); ok {
		return r.setList(k, ptr, n)
	}
	text, err := r.scalar(k, n)
	if err != nil {
		return err
	}
	if k.path {
		text = resolvePath(text, filepath.Dir(r.path))
	}
	if err := k.setScalar(r.c, text); err != nil {
		return r.fail(n.GetToken(), "%s: %v", k.Name, err)
	}
	r.c.sources[k.Name] = FromFile
	return nil
}

func (r *reader) setList(k Key, ptr *[]time.Duration, n ast.Node) error {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return r.fail(n.GetToken(), "%s: want a list of times like [1s, 5s], found %s", k.Name, describe(n))
	}
	list := make([]time.Duration, 0, len(seq.Values))
	for _, item := range seq.Values {
		text, err := plain(item)
		if err != nil {
			return r.fail(item.GetToken(), "%s: want a time like 30s, found %s", k.Name, describe(item))
		}
		d, err := parseDuration(text)
		if err != nil {
			return r.fail(item.GetToken(), "%s: %v", k.Name, err)
		}
		list = append(list, d)
	}
	*ptr = list
	r.c.sources[k.Name] = FromFile
	return nil
}

// scalar is the node's text, if its YAML type suits the key.
func (r *reader) scalar(k Key, n ast.Node) (string, error) {
	wrong := func() (string, error) {
		return "", r.fail(n.GetToken(), "%s: want %s, found %s", k.Name, article(k.Kind()), describe(n))
	}
	text, err := plain(n)
	if err != nil {
		return wrong()
	}
	_, isString := n.(*ast.StringNode)
	_, isLiteral := n.(*ast.LiteralNode)
	isWord := isString || isLiteral
	switch k.field(r.c).(type) {
	case *int:
		if isWord {
			return wrong()
		}
	case *bool:
		if _, isBool := n.(*ast.BoolNode); !isBool {
			return wrong()
		}
	case *string:
		// `mode: off` is a word here, whatever YAML makes of it.
		if _, isBool := n.(*ast.BoolNode); !isWord && (!isBool || len(k.Enum) == 0) {
			return wrong()
		}
	}
	return text, nil
}

// plain is the text of a scalar.
func plain(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return strings.TrimSuffix(n.Value.Value, "\n"), nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	default:
		return "", errors.New("not a scalar")
	}
}

func describe(n ast.Node) string {
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode:
		return fmt.Sprintf("the text %q", clip(n.Value))
	case *ast.LiteralNode:
		return "a block of text"
	case *ast.IntegerNode, *ast.FloatNode:
		return "the number " + clip(n.GetToken().Value)
	case *ast.BoolNode:
		return n.GetToken().Value
	case *ast.AliasNode, *ast.AnchorNode, *ast.MergeKeyNode:
		return "an alias or anchor, which this file may not hold"
	case *ast.TagNode:
		return "a tag, which this file may not hold"
	default:
		return "something else"
	}
}

func article(kind string) string {
	switch kind {
	case "number", "time", "size", "path":
		return "a " + kind
	default:
		return kind
	}
}
