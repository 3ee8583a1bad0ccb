package hook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Apply is p with the changes in it. Those of a Result are known to fit the payload they were made for;
// an error says that they were not. Pure.
func Apply[P Payload](p P, changes map[string]json.RawMessage) (P, error) {
	if len(changes) == 0 {
		return p, nil
	}
	v, err := with(p, changes)
	if err != nil {
		return p, err
	}
	return v.(P), nil
}

// with is a copy of p with these fields set.
func with(p Payload, changes map[string]json.RawMessage) (Payload, error) {
	fields := payloadFields()[p.Point()]
	v := reflect.New(reflect.TypeOf(p)).Elem()
	v.Set(reflect.ValueOf(p))
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		f, ok := fields[name]
		raw := changes[name]
		if !ok {
			return nil, fmt.Errorf("%s has no field %s", p.Point(), name)
		}
		if f.typ == reflect.TypeFor[json.RawMessage]() && !isObject(raw) {
			return nil, fmt.Errorf("%s is no object", name)
		}
		value := reflect.New(f.typ)
		if err := json.Unmarshal(raw, value.Interface()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		v.FieldByIndex(f.index).Set(value.Elem())
	}
	next := v.Interface().(Payload)
	if c, ok := next.(checked); ok {
		if err := c.check(); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// checkChanges sorts out what a hook gave back under the names of the payload's fields. A field as it was
// is no change, so a hook may print all of its payload; null is none either. One that is not the
// hook's to change must be as it was. Other names are nobody's.
func checkChanges(t Trait, p Payload, given map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	fields := payloadFields()[t.Point]
	var changes map[string]json.RawMessage
	// Sorted, so that of several wrongs the same one is told each time.
	for _, name := range slices.Sorted(maps.Keys(given)) {
		f, ok := fields[name]
		raw := given[name]
		if !ok && name != eventName || string(bytes.TrimSpace(raw)) == "null" {
			continue
		}
		was, err := valueOf(p, name, f)
		if err != nil {
			return nil, err
		}
		mine := slices.Contains(t.Modify, name)
		same, err := equalJSON(was, raw, mine)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case same:
			continue
		case !mine:
			return nil, fmt.Errorf("it changes %s, which is read-only at %s", name, t.Point)
		}
		if changes == nil {
			changes = map[string]json.RawMessage{}
		}
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		changes[name] = b.Bytes()
	}
	if len(changes) == 0 {
		return nil, nil
	}
	if _, err := with(p, changes); err != nil {
		return nil, err
	}
	return changes, nil
}

// valueOf is a field of p as JSON.
func valueOf(p Payload, name string, f Field) (json.RawMessage, error) {
	var v any = p.Point()
	if name != eventName {
		v = reflect.ValueOf(p).FieldByIndex(f.index).Interface()
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	return raw, nil
}

// equalJSON reports whether two values mean the same, whatever their order of keys, spaces and escapes.
// Unless exact, numbers count as equal that are so in floating point, for tools like jq round large ones.
func equalJSON(a, b json.RawMessage, exact bool) (bool, error) {
	if bytes.Equal(a, b) {
		return true, nil
	}
	x, err := decodeAny(a, true)
	if err != nil {
		return false, err
	}
	y, err := decodeAny(b, true)
	if err != nil {
		return false, err
	}
	if exact || reflect.DeepEqual(x, y) {
		return reflect.DeepEqual(x, y), nil
	}
	x, errX := decodeAny(a, false)
	y, errY := decodeAny(b, false)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y), nil
}

func decodeAny(raw []byte, exact bool) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if exact {
		d.UseNumber()
	}
	err = d.Decode(&v)
	return v, err
}

func isObject(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && raw[0] == '{'
}
