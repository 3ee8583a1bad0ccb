package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"taskdaemon/internal/schema"
	"taskdaemon/internal/td"
)

// maxSchema is the longest schema of a tool, in bytes, as the model is told it.
const maxSchema = 64 << 10

// dialects are alike enough; what differs is found when the schema is compiled.
var dialects = []any{
	nil, "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema",
}

// normalize makes of what a server sent the schema that a model can be told, with sorted keys, or says what is
// wrong with it.
func normalize(sent any) (json.RawMessage, error) {
	root, ok := sent.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("its schema is not an object")
	}
	root = maps.Clone(root)
	if !slices.Contains(dialects, root["$schema"]) {
		delete(root, "$schema")
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
func compile(raw json.RawMessage) (*jsonschema.Resolved, error) {
	check, err := schema.Compile(raw)
	if err != nil {
		return nil, fmt.Errorf("its schema is broken: %w", err)
	}
	return check, nil
}

// decode holds a model's input against the schema, and gives it as it is to be sent: without a key that stands twice,
// and with numbers as they were written. The error tells the model what is wrong.
func decode(check *jsonschema.Resolved, input json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(input)) == 0 {
		input = json.RawMessage("{}")
	}
	var in, exact map[string]any
	if err := json.Unmarshal(input, &in); err != nil || in == nil {
		return nil, td.Errorf(td.Invalid, "the input is not a JSON object")
	}
	if err := check.Validate(in); err != nil {
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

// cut shortens s to n characters, the middle first.
func cut(s string, n int) string {
	r := []rune(strings.ToValidUTF8(s, "?"))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n*2/3]) + " … " + string(r[len(r)-n/3:])
}
