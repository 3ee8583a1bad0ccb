package config

import (
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// Hook is one entry of `hooks:`; internal/hook says what the fields mean.
type Hook struct {
	Point   string        `yaml:"point"`
	Name    string        `yaml:"name"`
	Matcher string        `yaml:"matcher"`
	Command string        `yaml:"command"`
	URL     string        `yaml:"url"`
	Func    string        `yaml:"func"`
	Timeout time.Duration `yaml:"timeout"`
	Order   int           `yaml:"order"`
	OnError string        `yaml:"on_error"`
	Where   string        `yaml:"-"` // its place, for errors
}

// Server is one entry of `mcp:`, a server of tools.
type Server struct {
	Name         string            `yaml:"name"`
	Command      string            `yaml:"command"`
	Args         []string          `yaml:"args"`
	Env          map[string]string `yaml:"env"`
	URL          string            `yaml:"url"`
	Headers      map[string]string `yaml:"headers"`
	Timeout      time.Duration     `yaml:"timeout"`
	StartTimeout time.Duration     `yaml:"start_timeout"`
	Trusted      bool              `yaml:"trusted"`
	Allow        []string          `yaml:"allow"`
	Deny         []string          `yaml:"deny"`
	Disabled     bool              `yaml:"disabled"`
	Where        string            `yaml:"-"`
}

// Provider is one entry of `providers:`, somewhere models can be called beside the default one.
type Provider struct {
	Name    string   `yaml:"name"`
	Kind    string   `yaml:"kind"` // anthropic or openai
	BaseURL string   `yaml:"base_url"`
	KeyEnvs []string `yaml:"key_envs"` // variables that hold keys; several are rotated
	Where   string   `yaml:"-"`
}

// Fallback is one entry of `fallback:`, what is used in place of a model that is off.
type Fallback struct {
	Model string   `yaml:"model"`
	Use   []string `yaml:"use"`
	Where string   `yaml:"-"`
}

// Resource is one entry of `resources:`, something that only so many calls may use at once.
type Resource struct {
	Name     string `yaml:"name"`
	Capacity int    `yaml:"capacity"`
	Match    string `yaml:"match"`
	Where    string `yaml:"-"`
}

// sectionOf reads a key of the file that holds a list of things; nil: it is none. They stand in the file only.
func sectionOf(name string) func(r *reader, n ast.Node) error {
	switch name {
	case "hooks":
		return list(name, func(c *Config) *[]Hook { return &c.Hooks }, func(h *Hook, at string) { h.Where = at })
	case "mcp":
		return list(name, func(c *Config) *[]Server { return &c.MCP }, func(s *Server, at string) { s.Where = at })
	case "providers":
		return list(name, func(c *Config) *[]Provider { return &c.Providers }, func(p *Provider, at string) { p.Where = at })
	case "rules":
		return rules
	case "rates":
		return rates
	case "resources":
		return list(name, func(c *Config) *[]Resource { return &c.Resources }, func(r *Resource, at string) { r.Where = at })
	case "fallback":
		return list(name, func(c *Config) *[]Fallback { return &c.Fallback }, func(f *Fallback, at string) { f.Where = at })
	case "windows":
		return windows
	case "projects":
		return projects
	}
	return nil
}

// wrongEntry says what is wrong with an entry of a list, by the names that stand in the file.
func (r *reader) wrongEntry(name string, item ast.Node, entry reflect.Type, err error) error {
	var (
		kind    *yaml.TypeError
		node    *yaml.UnexpectedNodeTypeError
		unknown *yaml.UnknownFieldError
	)
	switch {
	case errors.As(err, &kind):
		where, want := name, kind.DstType
		if kind.StructFieldName != nil {
			_, field, _ := strings.Cut(*kind.StructFieldName, ".")
			if f, ok := entry.FieldByName(field); ok {
				where, want = name+"."+f.Tag.Get("yaml"), f.Type
			}
		}
		return r.fail(kind.Token, "%s: want %s", where, wanted(want))
	case errors.As(err, &node) && describe(item) != "keys":
		return r.fail(node.Token, "%s: an entry has keys, like name: …; found %s", name, describe(item))
	case errors.As(err, &node):
		return r.fail(node.Token, "%s: want %s, found %s", name, shapes[node.Expected], shapes[node.Actual])
	case errors.As(err, &unknown):
		var keys []string
		for f := range entry.Fields() {
			if key := f.Tag.Get("yaml"); key != "-" {
				keys = append(keys, key)
			}
		}
		return r.fail(unknown.Token, "%s: %s; the keys are %s", name, strings.Replace(unknown.Message, "field", "key", 1), strings.Join(keys, ", "))
	}
	if y, ok := errors.AsType[yaml.Error](err); ok {
		return r.fail(y.GetToken(), "%s: %s", name, y.GetMessage())
	}
	return r.fail(item.GetToken(), "%s: %v", name, err)
}

// shapes are the forms of values in words.
var shapes = map[ast.NodeType]string{
	ast.MappingType: "keys and values", ast.SequenceType: "a list", ast.StringType: "text", ast.IntegerType: "a number", ast.FloatType: "a number",
	ast.BoolType: "true or false", ast.NullType: "nothing",
}

// wanted says in words what a field of an entry is.
func wanted(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a time like 30s, 5m or 24h"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Slice:
		return "a list of " + wanted(t.Elem())
	case reflect.Map:
		return "keys and values"
	case reflect.Bool:
		return "true or false"
	case reflect.Pointer:
		return wanted(t.Elem())
	}
	return "a number"
}

// list reads a list of T, each strictly: an unknown field is an error with its place.
func list[T any](name string, field func(*Config) *[]T, place func(*T, string)) func(*reader, ast.Node) error {
	return func(r *reader, n ast.Node) error {
		if _, null := n.(*ast.NullNode); null {
			return nil
		}
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			return r.fail(n.GetToken(), "%s: want a list (each entry begins with -), found %s", name, describe(n))
		}
		for _, item := range seq.Values {
			var one T
			if err := yaml.NodeToValue(item, &one, yaml.Strict()); err != nil {
				return r.wrongEntry(name, item, reflect.TypeFor[T](), err)
			}
			place(&one, r.place(item.GetToken()))
			*field(r.c) = append(*field(r.c), one)
		}
		return nil
	}
}
