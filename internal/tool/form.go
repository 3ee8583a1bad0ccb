package tool

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// form is what an input may be called by, at every depth: the fields of objects, by the names that the schema has, and what else
// models call them. Nil is the form of what has no fields.
type form struct {
	fields  map[string]*form  // of an object
	aliases map[string]string // of these, by another name
	items   *form             // of a list
}

// formOf is the form of a type that a schema was made from.
func formOf(s *jsonschema.Schema, t reflect.Type) *form {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case s == nil:
		return nil
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		return &form{items: formOf(s.Items, t.Elem())}
	case t.Kind() != reflect.Struct || s.Properties == nil:
		return nil
	}
	f := &form{fields: map[string]*form{}, aliases: map[string]string{}}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if s.Properties[name] == nil {
			continue
		}
		f.fields[name] = formOf(s.Properties[name], field.Type)
		for alias := range strings.FieldsFuncSeq(field.Tag.Get("alias"), func(r rune) bool { return r == ',' }) {
			f.aliases[alias] = name
		}
	}
	return f
}

// fit gives the fields of a value the names that they have here, and takes out what is none. Where it stands, as `edits[].`, is put before the names of these;
// of those that stand deeper the first few are named.
func (f *form) fit(value any, at string) (ignored []string, changed bool) {
	if f == nil {
		return nil, false
	}
	inside := func(f *form, value any, at string) {
		names, did := f.fit(value, at)
		for _, name := range names {
			if len(ignored) < maxIgnored && !slices.Contains(ignored, name) {
				ignored = append(ignored, name)
			}
		}
		changed = changed || did
	}
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			inside(f.items, item, strings.TrimSuffix(at, ".")+"[].")
		}
	case map[string]any:
		if f.fields == nil {
			break // it stands where a list should
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if _, is := f.fields[name]; is {
				continue
			}
			field := f.aliases[name]
			if _, has := v[field]; field != "" && !has {
				v[field] = v[name]
			} else {
				ignored = append(ignored, at+name)
			}
			delete(v, name)
			changed = true
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			inside(f.fields[name], v[name], at+name+".")
		}
	}
	return ignored, changed
}
