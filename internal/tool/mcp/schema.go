package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"taskdaemon/internal/td"
)

// What the schema of a tool may come to.
const (
	maxSchema   = 64 << 10 // bytes, as the model is told it
	maxExpanded = 10_000   // schemas in it once every reference is followed
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

	types    = []string{"object", "array", "string", "number", "integer", "boolean", "null"}
	dialects = []any{nil, "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"}
	draft7   = dialects[1:3]
)

// normalize makes of what a server sent the schema that a model can be told, with sorted keys, or says what is
// wrong with it.
func normalize(sent any) (json.RawMessage, error) {
	root, ok := sent.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("its schema is not an object")
	}
	root = maps.Clone(root)
	if !slices.Contains(dialects, root["$schema"]) {
		delete(root, "$schema") // of the dialects that are alike enough; what differs is found below
	}
	switch root["type"] {
	case nil:
		root["type"] = "object"
	case "object":
	default:
		return nil, fmt.Errorf("its schema is not that of an object")
	}
	for _, k := range []string{"allOf", "anyOf", "oneOf"} { // the APIs of models refuse these here
		if _, ok := root[k]; ok {
			return nil, fmt.Errorf("its schema has %s at the top", k)
		}
	}
	raw, err := json.Marshal(root)
	if err != nil {
		return nil, fmt.Errorf("its schema cannot be written: %w", err)
	}
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("its schema has %d bytes, more than %d", len(raw), maxSchema)
	}
	return raw, nil
}

// compile makes the check of a tool's input.
//
// References are followed here and not by the validator, which would follow one that leads to itself until
// the stack is full, and the daemon dead. Where a schema contains itself, its inner self accepts anything: the
// server will look at it anyway.
func compile(raw json.RawMessage) (*jsonschema.Resolved, error) {
	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		return nil, fmt.Errorf("its schema is not JSON: %w", err)
	}
	e := &expander{root: root, left: maxExpanded}
	if m, ok := root.(map[string]any); ok {
		e.draft7 = slices.Contains(draft7, m["$schema"])
	}
	flat, err := e.expand(root, nil, 0)
	if err != nil {
		return nil, fmt.Errorf("its schema is broken: %w", err)
	}
	flatRaw, err := json.Marshal(flat)
	if err != nil {
		return nil, fmt.Errorf("its schema cannot be written: %w", err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(flatRaw, &schema); err != nil {
		return nil, fmt.Errorf("its schema is broken: %s", cut(err.Error(), 200))
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("its schema is broken: %s", cut(err.Error(), 200))
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

// decode holds a model's input against the schema, and gives it as it is to be sent: without a key that stands twice,
// and with numbers as they were written. The error tells the model what is wrong.
func decode(schema *jsonschema.Resolved, input json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(input)) == 0 {
		input = json.RawMessage("{}")
	}
	var in, exact map[string]any
	if err := json.Unmarshal(input, &in); err != nil || in == nil {
		return nil, td.Errorf(td.Invalid, "the input is not a JSON object")
	}
	if err := schema.Validate(in); err != nil {
		msg := strings.NewReplacer("validating root: ", "", "validating /properties/", "").Replace(err.Error())
		return nil, td.Errorf(td.Invalid, "the input does not fit the schema: %s", cut(msg, 400))
	}
	d := json.NewDecoder(bytes.NewReader(input))
	d.UseNumber()
	if err := d.Decode(&exact); err != nil {
		return nil, td.Errorf(td.Invalid, "the input is not a JSON object")
	}
	return json.Marshal(exact)
}

// brief shows a piece of what a server sent.
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
