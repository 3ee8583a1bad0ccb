// Package schema makes checks of JSON schemas that strangers wrote: those of a skill's tools and of MCP
// servers. What it gives can be used on any input without harm to the daemon, whatever the schema says.
package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// What a schema may come to.
const (
	maxExpanded = 10_000 // schemas in it once every reference is followed
	maxNesting  = 200
)

// The keywords whose values are schemas, by how they hold them.
var (
	holdsOne = []string{
		"not", "if", "then", "else", "additionalProperties", "unevaluatedProperties", "items", "additionalItems",
		"unevaluatedItems", "contains", "propertyNames",
	}
	holdsList = []string{"allOf", "anyOf", "oneOf", "prefixItems", "items"}
	holdsMap  = []string{"properties", "patternProperties", "dependentSchemas", "dependencies"}
	// aside are only reached by references.
	aside = []string{"$defs", "definitions"}
	// elsewhere change what a reference means. No tool needs them.
	elsewhere = []string{"$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"}

	types  = []string{"object", "array", "string", "number", "integer", "boolean", "null"}
	draft7 = []any{"http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-07/schema#"}
)

// Compile makes the check of an input. Its error says what is wrong with the schema.
//
// References are followed here and not by the validator, which would follow one that leads to itself until
// the stack is full, and the daemon dead. Where a schema contains itself, its inner self accepts anything:
// whoever carries the call out will look at it anyway.
func Compile(raw json.RawMessage) (_ *jsonschema.Resolved, err error) {
	defer func() { // a library's panic must not be the daemon's
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	e := &expander{root: root, left: maxExpanded}
	if m, ok := root.(map[string]any); ok {
		e.draft7 = slices.Contains(draft7, m["$schema"])
	}
	flat, err := e.expand(root, nil, 0)
	if err != nil {
		return nil, err
	}
	flatRaw, err := json.Marshal(flat)
	if err != nil {
		return nil, fmt.Errorf("it cannot be written: %w", err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(flatRaw, &schema); err != nil {
		return nil, fmt.Errorf("%s", cut(err.Error(), 200))
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("%s", cut(err.Error(), 200))
	}
	return resolved, nil
}

// expander writes a schema anew with its references followed.
type expander struct {
	root   any
	draft7 bool
	left   int // schemas that may still be written
}

// expand is the schema at node. inside are the references that are being followed.
func (e *expander) expand(node any, inside []string, depth int) (any, error) {
	if _, ok := node.(bool); ok {
		return node, nil
	}
	m, ok := node.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s stands where a schema should", brief(node))
	}
	if e.left--; e.left < 0 {
		return nil, fmt.Errorf("it has more than %d parts", maxExpanded)
	}
	if depth > maxNesting {
		return nil, fmt.Errorf("it is nested more than %d deep", maxNesting)
	}
	if err := plain(m, depth); err != nil {
		return nil, err
	}
	out := maps.Clone(m)
	for _, k := range slices.Concat(aside, elsewhere, []string{"$ref"}) {
		delete(out, k)
	}
	sub := func(n any) (any, error) { return e.expand(n, inside, depth+1) }
	if err := each(m, out, sub); err != nil {
		return nil, err
	}
	ref, ok := m["$ref"]
	if !ok {
		return out, nil
	}
	target, err := e.follow(ref, inside, depth)
	if err != nil || e.draft7 { // there, what stands beside a reference does not count
		return target, err
	}
	all, _ := out["allOf"].([]any)
	out["allOf"] = append(slices.Clip(all), target)
	return out, nil
}

// each expands the schemas that m holds into out.
func each(m, out map[string]any, sub func(any) (any, error)) (err error) {
	for _, k := range holdsOne {
		if _, list := m[k].([]any); m[k] == nil || list {
			continue
		}
		if out[k], err = sub(m[k]); err != nil {
			return err
		}
	}
	for _, k := range holdsList {
		list, ok := m[k].([]any)
		if !ok {
			continue
		}
		copied := make([]any, len(list))
		for i, n := range list {
			if copied[i], err = sub(n); err != nil {
				return err
			}
		}
		out[k] = copied
	}
	for _, k := range holdsMap {
		named, ok := m[k].(map[string]any)
		if !ok {
			continue
		}
		copied := make(map[string]any, len(named))
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if _, names := named[name].([]any); names && k == "dependencies" {
				copied[name] = named[name]
			} else if copied[name], err = sub(named[name]); err != nil {
				return err
			}
		}
		out[k] = copied
	}
	return nil
}

// plain refuses what would be read in another way than it is written.
func plain(m map[string]any, depth int) error {
	for _, k := range elsewhere {
		if _, ok := m[k]; ok && (k != "$id" || depth > 0) {
			return fmt.Errorf("it uses %s", k)
		}
	}
	words, ok := m["type"].([]any)
	if !ok && m["type"] != nil {
		words = []any{m["type"]}
	}
	for _, w := range words {
		if s, ok := w.(string); !ok || !slices.Contains(types, s) {
			return fmt.Errorf("%s is no type", brief(w))
		}
	}
	return nil
}

// follow is the schema that a reference names.
func (e *expander) follow(ref any, inside []string, depth int) (any, error) {
	text, ok := ref.(string)
	if !ok {
		return nil, fmt.Errorf("%s is no reference", brief(ref))
	}
	if slices.Contains(inside, text) {
		return true, nil
	}
	pointer, ok := strings.CutPrefix(text, "#")
	if !ok {
		return nil, fmt.Errorf("the reference %s leads outside", brief(text))
	}
	pointer, err := url.PathUnescape(pointer)
	if err != nil || pointer != "" && pointer[0] != '/' {
		return nil, fmt.Errorf("the reference %s is not a path", brief(text))
	}
	node := e.root
	for i, part := range strings.Split(pointer, "/") {
		if i == 0 {
			continue // what stands before the first slash
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch n := node.(type) {
		case map[string]any:
			node = n[part]
		case []any:
			at, err := strconv.Atoi(part)
			if err != nil || at < 0 || at >= len(n) {
				return nil, fmt.Errorf("the reference %s leads nowhere", brief(text))
			}
			node = n[at]
		default:
			node = nil
		}
	}
	if node == nil {
		return nil, fmt.Errorf("the reference %s leads nowhere", brief(text))
	}
	return e.expand(node, append(slices.Clip(inside), text), depth+1)
}

// brief shows a piece of a schema.
func brief(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "something"
	}
	return cut(string(raw), 60)
}

// cut shortens s to n characters, the middle first.
func cut(s string, n int) string {
	r := []rune(strings.ToValidUTF8(s, "?"))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n*2/3]) + " … " + string(r[len(r)-n/3:])
}
