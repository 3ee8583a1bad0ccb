package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestCompile(t *testing.T) {
	doubling := `{"type":"object","$ref":"#/$defs/a0","$defs":{"a30":{}`
	for i := range 30 {
		doubling += fmt.Sprintf(`,"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i+1, i+1)
	}
	for _, c := range []struct{ schema, good, bad, says string }{
		{schema: `{"type":"object","$ref":"#"}`, good: `{"a":1}`, bad: `1`},
		{schema: `{"type":"object","properties":{"a":{"$ref":"#"}}}`, good: `{"a":{"a":{"a":{}}}}`, bad: `{"a":1}`},
		{schema: `{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"$ref":"#/$defs/y"},"y":{"$ref":"#/$defs/x"}}}`, good: `{"a":1}`},
		{schema: `{"$ref":"#/$defs/x~1y","$defs":{"x/y":{"type":"integer"}}}`, good: `1`, bad: `"x"`},
		{schema: `{"type":"string","$ref":"#/$defs/long","$defs":{"long":{"minLength":3}}}`, good: `"long"`, bad: `"no"`},
		{schema: doubling + `}}`, says: "more than 10000 parts"},
		{schema: strings.Repeat(`{"not":`, 300) + `{}` + strings.Repeat(`}`, 300), says: "nested more than 200"},
		{schema: `{"$ref":"http://x/y"}`, says: "leads outside"},
		{schema: `{"$ref":"#/$defs/x"}`, says: "leads nowhere"},
		{schema: `{"properties":{"a":{"pattern":"("}}}`, says: "error parsing regexp"},
		{schema: `{"type":"file"}`, says: "is no type"},
		{schema: `[]`, says: "stands where a schema should"},
		{schema: `{`, says: "not JSON"},
	} {
		check, err := Compile(json.RawMessage(c.schema))
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%.60s: %v, want %q", c.schema, err, c.says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%.60s: %v", c.schema, err)
			continue
		}
		var good, bad any
		if err := json.Unmarshal([]byte(c.good), &good); err != nil {
			t.Fatal(err)
		}
		if err := check.Validate(good); err != nil {
			t.Errorf("%.60s refuses %s: %v", c.schema, c.good, err)
		}
		if c.bad == "" {
			continue
		}
		if err := json.Unmarshal([]byte(c.bad), &bad); err != nil {
			t.Fatal(err)
		}
		if check.Validate(bad) == nil {
			t.Errorf("%.60s accepts %s", c.schema, c.bad)
		}
	}
}

// FuzzCompile checks that no schema can do harm, and no input to one.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"not":{"$ref":"#"}}`, `{"items":[{}],"additionalItems":false}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"],"b":{"minProperties":1}}}`, `true`, `null`,
	} {
		f.Add(s, `{"a":"x","b":[{"a":{"a":1}}]}`)
	}
	f.Fuzz(func(t *testing.T, raw, input string) {
		check, err := Compile(json.RawMessage(raw))
		var in any
		if err == nil && json.Unmarshal([]byte(input), &in) == nil {
			_ = check.Validate(in) // it may say anything; it must only end
		}
	})
}
