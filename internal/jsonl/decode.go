package jsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"taskdaemon/internal/td"
)

// Decode reads one line, with or without its newline. It takes any way to write the JSON of a change and
// any keys beside the known ones, but no known key of a wrong type and no key twice. Values and members
// come in their canonical form. The change shares memory with line.
func Decode(line []byte) (Change, error) {
	var d decoder
	return d.decode(line)
}

// decoder reads many lines and keeps the few names that come again and again.
type decoder struct {
	names map[string]string
}

// Bounds of what a decoder keeps: strangers write names, too.
const (
	maxNames      = 4096
	maxNameLength = 128
)

// name is text as a string, one and the same for the same text.
func (d *decoder) name(text []byte) string {
	if name, ok := d.names[string(text)]; ok {
		return name
	}
	name := string(text)
	if len(d.names) < maxNames && len(name) <= maxNameLength {
		if d.names == nil {
			d.names = make(map[string]string)
		}
		d.names[name] = name
	}
	return name
}

func (d *decoder) decode(line []byte) (Change, error) {
	c, err := d.change(line)
	if err != nil {
		return Change{}, &td.Error{Kind: td.Corrupt, Err: err}
	}
	return c, nil
}

func (d *decoder) change(line []byte) (Change, error) {
	if err := checkText(line); err != nil {
		return Change{}, err
	}
	var c Change
	s := scanner{b: line}
	s.space()
	l, err := s.enter('{', "a JSON object")
	for err == nil {
		var key []byte
		var more bool
		if key, more, err = s.pair(&l); err != nil || !more {
			break
		}
		err = d.part(&s, &c, key)
	}
	if err != nil {
		return Change{}, err
	}
	if s.space(); s.i < len(line) {
		return Change{}, s.expected("the end of the line")
	}
	switch {
	case c.Op == (Stamp{}):
		return Change{}, fmt.Errorf("%s is missing", keyOp)
	case c.Task == "":
		return Change{}, fmt.Errorf("%s is missing", keyTask)
	}
	return c, c.check()
}

// checkText finds what needs no look at the JSON, and is worth words of its own.
func checkText(line []byte) error {
	if len(line) > MaxLine {
		return errTooLong
	}
	if isMarker(bytes.TrimRight(line, "\r\n")) {
		return errors.New("a conflict marker that git wrote")
	}
	if at := bytes.IndexByte(line, 0); at >= 0 {
		return fmt.Errorf("column %d: a NUL byte", at+1)
	}
	if at := badUTF8(line); at >= 0 {
		return fmt.Errorf("column %d: not valid UTF-8", at+1)
	}
	return nil
}

var errTooLong = fmt.Errorf("longer than %d bytes", MaxLine)

// badUTF8 is where text stops to be UTF-8, or -1.
func badUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	at := 0
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

// isMarker reports whether git wrote line around the sides of a conflict. All but the middle one may go on
// with what the side is called.
func isMarker(line []byte) bool {
	const n = 7
	if len(line) < n || bytes.Count(line[:n], line[:1]) < n {
		return false
	}
	switch line[0] {
	case '=':
		return len(line) == n
	case '<', '>', '|':
		return len(line) == n || line[n] == ' '
	}
	return false
}

// part reads the value of one key of a line.
func (d *decoder) part(s *scanner, c *Change, key []byte) (err error) {
	again := false
	switch string(key) {
	case keyOp:
		again = c.Op != Stamp{}
		c.Op, err = d.stamp(s)
	case keyTask:
		again = c.Task != ""
		c.Task, err = d.task(s)
	case keySet:
		again = c.Set != nil
		c.Set, err = d.values(s)
	case keyAdd:
		again = c.Add != nil
		c.Add, err = d.sets(s)
	case keyRemove:
		again = c.Remove != nil
		c.Remove, err = d.sets(s)
	case keyAt:
		again = c.At != nil
		c.At, err = d.at(s)
	default:
		name := d.name(key)
		if _, again = c.Extra[name]; !again {
			if c.Extra == nil {
				c.Extra = make(map[string]json.RawMessage)
			}
			c.Extra[name], err = d.value(s)
		}
	}
	switch {
	case err == nil && again:
		return twice(key)
	case err != nil && !errors.Is(err, errShort):
		return fmt.Errorf("%s: %w", brief(string(key)), err)
	}
	return err
}

// value reads any value, in its canonical form.
func (d *decoder) value(s *scanner) (json.RawMessage, error) {
	from := s.i
	fine, err := s.value(maxDepth)
	if err != nil {
		return nil, err
	}
	raw := s.b[from:s.i:s.i]
	if fine {
		return raw, nil
	}
	return (&scanner{b: raw}).appendTidy(nil)
}

func (d *decoder) stamp(s *scanner) (Stamp, error) {
	text, _, err := s.text("a string")
	if err != nil {
		return Stamp{}, err
	}
	op, ok := parseStamp(text, d.name)
	if !ok {
		return Stamp{}, fmt.Errorf("%s is no stamp", brief(string(text)))
	}
	return op, nil
}

func (d *decoder) task(s *scanner) (td.TaskID, error) {
	text, _, err := s.text("a string")
	if err == nil && !isTask(text) {
		err = fmt.Errorf("%s is no task's id: a UUIDv7 in lower case is", brief(string(text)))
	}
	return td.TaskID(text), err
}

// object reads an object whose keys are names, none of them twice.
func object[T any](d *decoder, s *scanner, value func(*scanner) (T, error)) (map[string]T, error) {
	l, err := s.enter('{', "an object")
	if err != nil {
		return nil, err
	}
	all := make(map[string]T)
	for {
		key, more, err := s.pair(&l)
		if err != nil || !more {
			return all, err
		}
		name := d.name(key)
		if _, again := all[name]; again {
			return nil, twice(key)
		}
		if all[name], err = value(s); err != nil {
			return nil, err
		}
	}
}

func (d *decoder) values(s *scanner) (map[string]json.RawMessage, error) {
	return object(d, s, d.value)
}

func (d *decoder) sets(s *scanner) (map[string][]string, error) {
	return object(d, s, d.members)
}

func (d *decoder) members(s *scanner) ([]string, error) {
	l, err := s.enter('[', "a list of strings")
	var all []string
	for err == nil {
		var more bool
		if more, err = s.item(&l); err != nil || !more {
			break
		}
		var text []byte
		text, _, err = s.text("a string")
		all = append(all, d.name(text))
	}
	slices.Sort(all)
	return slices.Compact(all), err
}

func (d *decoder) at(s *scanner) (*At, error) {
	l, err := s.enter('{', "an object")
	at := new(At)
	for err == nil {
		var key []byte
		var more bool
		if key, more, err = s.pair(&l); err != nil || !more {
			break
		}
		again := false
		switch string(key) {
		case keyFirst:
			again = at.First != Stamp{}
			at.First, err = d.stamp(s)
		case keySet:
			again = at.Set != nil
			at.Set, err = object(d, s, d.stamp)
		case keyMembers:
			again = at.Members != nil
			at.Members, err = object(d, s, func(s *scanner) (map[string]Stamp, error) { return object(d, s, d.stamp) })
		default:
			// A kind of op that this version cannot fold: better no line than half of one.
			err = fmt.Errorf("%s is not known", brief(string(key)))
		}
		if err == nil && again {
			err = twice(key)
		}
	}
	return at, err
}
