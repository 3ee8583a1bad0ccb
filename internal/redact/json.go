package redact

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Mark stands where a secret was.
func (r *Redactor) Mark() string { return string(r.get().mark) }

// JSON is a JSON value without secrets in its strings: raw itself when they hold none. What is no JSON comes back
// as it is.
func (r *Redactor) JSON(raw []byte) []byte { return cleanJSON(raw, r.get().clean) }

// Known is a JSON value without registered values in its strings; what is only shaped like a secret stays. It
// costs next to nothing where there are none.
func (r *Redactor) Known(raw []byte) []byte {
	k := r.get()
	if !k.mayHold(raw) {
		return raw
	}
	return cleanJSON(raw, k.onlyValues().clean)
}

// mayHold looks for the values as they stand in JSON. One that JSON may write in several ways is looked for in the
// strings themselves.
func (k *known) mayHold(raw []byte) bool {
	return k.odd || slices.ContainsFunc(k.values, func(v []byte) bool { return bytes.Contains(raw, v) })
}

// odd reports whether JSON may write the value otherwise than it is.
func odd(v []byte) bool {
	return bytes.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\/<>&`, r) })
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
		for k := range v {
			v[k] = cleanAny(v[k], clean, changed)
		}
	}
	return v
}
