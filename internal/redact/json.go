package redact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// Mark stands where a secret was.
func (r *Redactor) Mark() string { return string(r.get().mark) }

// JSON is a JSON value without secrets in its strings: raw itself when they hold none. What is no JSON comes back
// as it is.
func (r *Redactor) JSON(raw []byte) []byte { return cleanJSON(raw, r.get().clean) }

// Known is a JSON value without registered values in its strings; what is only shaped like a secret stays. It
// costs little where there are none.
func (r *Redactor) Known(raw []byte) []byte {
	k := r.get()
	// The strings are escaped once here: their own escapes are one level deeper.
	if found, _ := k.finder.find(raw, -1); len(found) == 0 {
		return raw
	}
	return cleanJSON(raw, k.onlyValues().clean)
}

// Holds reports whether a text holds a registered value in any form.
func (r *Redactor) Holds(text []byte) bool {
	found, _ := r.get().finder.find(text, 0)
	return len(found) > 0
}

// Treatment is what becomes of a string that holds a secret.
type Treatment int

// The treatments.
const (
	// Exact is for what is carried out as it was given: a command, a name, a path. It is refused, because to store it
	// without the secret would be to carry out something else.
	Exact Treatment = iota
	Words           // what people and models read: the secret is taken out
	Data            // like Exact, but what is only shaped like a key may stay: a script may be about that
)

// Request takes secrets out of the strings of a JSON value whose keys hold words, and names the first other one that holds
// a secret. What is no JSON comes back as it is.
func (r *Redactor) Request(raw []byte, treat func(key string) Treatment) (clean []byte, refused string) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		if r.Holds(raw) {
			return nil, "the request"
		}
		return raw, ""
	}
	w := requestWalk{r: r, treat: treat}
	v = w.walk(v, "")
	if w.refused != "" || !w.changed {
		return raw, w.refused
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil, "the request"
	}
	return out, ""
}

// requestWalk goes through a request.
type requestWalk struct {
	r       *Redactor
	treat   func(key string) Treatment
	changed bool
	refused string
}

func (w *requestWalk) walk(v any, key string) any {
	switch v := v.(type) {
	case string:
		text := []byte(v)
		switch w.treat(key) {
		case Words:
			if clean := w.r.String(v); clean != v {
				w.changed = true
				return clean
			}
		case Data:
			w.refuse(w.r.Holds(text), key)
		default:
			w.refuse(w.r.Secret(text), key)
		}
	case []any:
		for i := range v {
			v[i] = w.walk(v[i], key)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			w.refuse(w.r.Holds([]byte(k)), key)
			v[k] = w.walk(v[k], k)
		}
	}
	return v
}

func (w *requestWalk) refuse(holds bool, key string) {
	if holds && w.refused == "" {
		w.refused = cmp.Or(key, "the request")
	}
}

// Secret reports whether a text holds a registered value, or a key by its shape. Values that are only given to a name
// like password do not count: a command may well hold one for a test.
func (r *Redactor) Secret(text []byte) bool {
	return r.Holds(text) || len(appendKeys(nil, text, keyShapes)) > 0
}

func cleanJSON(raw []byte, clean func([]byte) ([]byte, bool)) []byte {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return raw
	}
	changed := false
	v = cleanAny(v, clean, &changed)
	if !changed {
		return raw
	}
	out, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return out
}

// free is a name that the object does not have yet: two secrets have the same mark.
func free(v map[string]any, name string) string {
	for {
		if _, taken := v[name]; !taken {
			return name
		}
		name += "'"
	}
}

func cleanAny(v any, clean func([]byte) ([]byte, bool), changed *bool) any {
	switch v := v.(type) {
	case string:
		out, did := clean([]byte(v))
		if did {
			*changed = true
			return string(out)
		}
	case []any:
		for i := range v {
			v[i] = cleanAny(v[i], clean, changed)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			v[k] = cleanAny(v[k], clean, changed)
			if name, did := clean([]byte(k)); did {
				*changed = true
				v[free(v, string(name))] = v[k]
				delete(v, k)
			}
		}
	}
	return v
}
