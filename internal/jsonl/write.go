package jsonl

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// writer writes canonical JSON. It keeps the first error and goes on.
type writer struct {
	dst []byte
	err error
}

func (w *writer) open() { w.dst = append(w.dst, '{') }
func (w *writer) shut() { w.dst = append(w.dst, '}') }

// comma parts what comes next from what was before, if something was.
func (w *writer) comma() {
	if last := w.dst[len(w.dst)-1]; last != '{' && last != '[' {
		w.dst = append(w.dst, ',')
	}
}

func (w *writer) key(key string) {
	w.comma()
	w.text(key)
	w.dst = append(w.dst, ':')
}

func (w *writer) text(text string) { w.dst = appendQuoted(w.dst, text) }

func (w *writer) stamp(s Stamp) {
	w.dst = append(s.append(append(w.dst, '"')), '"')
}

// raw writes a value that the caller gave.
func (w *writer) raw(key string, raw []byte) {
	value, err := tidy(raw)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("the value of %s: %w", brief(key), err)
	}
	w.dst = append(w.dst, value...)
}

// values writes a map of values under key, if there are any.
func (w *writer) values(key string, values map[string]json.RawMessage) {
	if len(values) == 0 {
		return
	}
	w.key(key)
	w.open()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		w.key(name)
		w.raw(name, values[name])
	}
	w.shut()
}

// sets writes the members of sets under key. A set without members says nothing and is left out.
func (w *writer) sets(key string, sets map[string][]string) {
	begun := false
	for _, set := range slices.Sorted(maps.Keys(sets)) {
		if len(sets[set]) == 0 {
			continue
		}
		if !begun {
			w.key(key)
			w.open()
			begun = true
		}
		w.key(set)
		w.dst = append(w.dst, '[')
		for _, m := range slices.Compact(slices.Sorted(slices.Values(sets[set]))) {
			w.comma()
			w.text(m)
		}
		w.dst = append(w.dst, ']')
	}
	if begun {
		w.shut()
	}
}

// at writes which ops c comes from, those that are not its own.
func (w *writer) at(c *Change) {
	w.open()
	if first := c.first(); first != c.Op {
		w.key(keyFirst)
		w.stamp(first)
	}
	begun := false
	for _, set := range slices.Sorted(maps.Keys(c.At.Members)) {
		members := others(c.At.Members[set], c.Op)
		if len(members) == 0 {
			continue
		}
		if !begun {
			w.key(keyMembers)
			w.open()
			begun = true
		}
		w.key(set)
		w.stamps(c.At.Members[set], members)
	}
	if begun {
		w.shut()
	}
	if fields := others(c.At.Set, c.Op); len(fields) > 0 {
		w.key(keySet)
		w.stamps(c.At.Set, fields)
	}
	w.shut()
}

// others are the names, sorted, whose op is not own.
func others(ops map[string]Stamp, own Stamp) []string {
	var names []string
	for name, op := range ops {
		if op != own {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (w *writer) stamps(ops map[string]Stamp, names []string) {
	w.open()
	for _, name := range names {
		w.key(name)
		w.stamp(ops[name])
	}
	w.shut()
}
