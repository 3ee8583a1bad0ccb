package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"taskdaemon/internal/fence"
	"taskdaemon/internal/td"
)

// Shape is the form of a tool's input, made from the Go type that holds it: the model is told it, and
// what the model sends is held against it. Making one panics on a type that has no JSON form: that is a
// mistake in the program.
//
// Fields with omitempty are optional. The tag jsonschema describes a field, enum lists the strings it
// may be, min and max bound a number, or the length of a list or text. The tag alias lists what models call a field
// that know a like tool from elsewhere; they are told of it by no schema. Both hold at every depth.
type Shape[In any] struct {
	raw      json.RawMessage
	resolved *jsonschema.Resolved
	form     *form
}

// ShapeOf makes the shape of In. Its bytes are the same in every run of the program.
func ShapeOf[In any]() *Shape[In] {
	schema, err := jsonschema.For[In](nil)
	if err == nil {
		err = refine(schema, reflect.TypeFor[In]())
	}
	if err != nil {
		panic(fmt.Sprintf("tool: schema of %s: %v", reflect.TypeFor[In](), err))
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		panic(fmt.Sprintf("tool: schema of %s: %v", reflect.TypeFor[In](), err))
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		panic(fmt.Sprintf("tool: schema of %s: %v", reflect.TypeFor[In](), err))
	}
	return &Shape[In]{raw: raw, resolved: resolved, form: formOf(schema, reflect.TypeFor[In]())}
}

// refine adds what the tags say, and takes out null, which a Go slice may be and an input may not.
func refine(s *jsonschema.Schema, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if i := slices.Index(s.Types, "null"); i >= 0 {
		if rest := slices.Delete(slices.Clone(s.Types), i, i+1); len(rest) == 1 {
			s.Type, s.Types = rest[0], nil
		}
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return refine(s.Items, t.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := s.Properties[name]
		if p == nil {
			continue
		}
		if err := refine(p, f.Type); err != nil {
			return err
		}
		if enum, ok := f.Tag.Lookup("enum"); ok {
			for v := range strings.SplitSeq(enum, ",") {
				p.Enum = append(p.Enum, v)
			}
		}
		if err := bound(f.Tag.Get("min"), p, &p.Minimum, &p.MinLength, &p.MinItems); err != nil {
			return err
		}
		if err := bound(f.Tag.Get("max"), p, &p.Maximum, &p.MaxLength, &p.MaxItems); err != nil {
			return err
		}
	}
	return nil
}

func bound(tag string, p *jsonschema.Schema, number **float64, text, list **int) error {
	if tag == "" {
		return nil
	}
	n, err := strconv.Atoi(tag)
	if err != nil {
		return fmt.Errorf("parse bound: %w", err)
	}
	switch p.Type {
	case "string":
		*text = &n
	case "array":
		*list = &n
	default:
		f := float64(n)
		*number = &f
	}
	return nil
}

// Schema is what the model is told.
func (s *Shape[In]) Schema() json.RawMessage { return s.raw }

// Decode reads an input. The error tells the model what is wrong with it. What it has beyond the schema is left out, and named.
func (s *Shape[In]) Decode(input json.RawMessage) (in In, ignored []string, err error) {
	if len(bytes.TrimSpace(input)) == 0 {
		input = json.RawMessage("{}")
	}
	var loose any
	if err := json.Unmarshal(input, &loose); err != nil {
		return in, nil, td.Errorf(td.Invalid, "the input is not valid JSON: %w", err)
	}
	ignored, changed := s.form.fit(loose, "")
	if changed {
		if input, err = json.Marshal(loose); err != nil {
			return in, nil, td.Errorf(td.Invalid, "the input does not fit the schema: %s", explain(err))
		}
	}
	if err := s.resolved.Validate(loose); err != nil {
		return in, nil, td.Errorf(td.Invalid, "the input does not fit the schema: %s", explain(err))
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return in, nil, td.Errorf(td.Invalid, "the input does not fit the schema: %s", explain(err))
	}
	return in, ignored, nil
}

// explain cuts a validator's message down to what a model can use: it may repeat the whole input.
func explain(err error) string {
	msg := strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "?"), "validating root: ", "")
	msg = strings.ReplaceAll(msg, "validating /properties/", "")
	if r := []rune(msg); len(r) > 400 {
		msg = string(r[:250]) + " … " + string(r[len(r)-100:])
	}
	return msg
}

// maxIgnored is how many names the model is told that count for nothing.
const maxIgnored = 5

// ignoredText tells the model what of its input counted for nothing.
func ignoredText(tool string, names []string) string {
	var shown []string
	for _, name := range names[:min(len(names), maxIgnored)] {
		shown = append(shown, fence.Spell(strings.ToValidUTF8(name[:min(len(name), 40)], "?")))
	}
	return fmt.Sprintf("\n[%s has no argument %s; what you gave was ignored]", tool, strings.Join(shown, ", "))
}

// Define makes a tool from functions of its decoded input. t brings the rest; resolve may be nil for a
// tool that is pure or a control.
func Define[In any](
	t Tool,
	prepare func(ctx context.Context, env *Env, in In) (Call, error),
	resolve func(ctx context.Context, env *Env, in In, intent td.Intent) (Resolution, error),
) Tool {
	shape := ShapeOf[In]()
	t.Schema = shape.Schema()
	t.Prepare = func(ctx context.Context, env *Env, input json.RawMessage) (Call, error) {
		in, ignored, err := shape.Decode(input)
		if err != nil {
			return Call{}, err
		}
		call, err := prepare(ctx, env, in)
		if t.Control != NoControl && err == nil {
			call.Input, err = json.Marshal(in)
		}
		if len(ignored) > 0 {
			call.Ignored = ignoredText(t.Name, ignored)
		}
		if run := call.Run; run != nil && call.Ignored != "" {
			call.Run = func(ctx context.Context) (td.ToolResult, error) {
				res, err := run(ctx)
				res.Content += call.Ignored
				return res, err
			}
		}
		return call, err
	}
	if resolve != nil {
		t.Resolve = func(ctx context.Context, env *Env, input json.RawMessage, intent td.Intent) (Resolution, error) {
			in, _, err := shape.Decode(input)
			if err != nil {
				return Resolution{}, err
			}
			return resolve(ctx, env, in, intent)
		}
	}
	return t
}
