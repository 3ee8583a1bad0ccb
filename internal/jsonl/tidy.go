package jsonl

import (
	"bytes"
	"fmt"
	"slices"
)

// tidy is raw in its canonical form, which is raw itself if it has that already.
func tidy(raw []byte) ([]byte, error) {
	s := scanner{b: raw}
	fine, err := s.value(maxDepth)
	switch {
	case err != nil:
		return nil, err
	case s.i < len(raw):
		return nil, s.expected("its end")
	case fine:
		return raw, nil
	}
	s.i = 0
	return s.appendTidy(nil)
}

// appendTidy writes the value that comes next, which value accepted, in its canonical form.
func (s *scanner) appendTidy(dst []byte) ([]byte, error) {
	switch s.b[s.i] {
	case '"':
		text, _, err := s.text("a string")
		return appendQuoted(dst, text), err
	case '[':
		return s.appendArray(dst)
	case '{':
		return s.appendObject(dst)
	}
	from := s.i
	_, err := s.value(maxDepth)
	return append(dst, s.b[from:s.i]...), err
}

func (s *scanner) appendArray(dst []byte) ([]byte, error) {
	dst = append(dst, '[')
	l, err := s.enter('[', "a list")
	for n := 0; err == nil; n++ {
		var more bool
		if more, err = s.item(&l); err != nil || !more {
			break
		}
		if n > 0 {
			dst = append(dst, ',')
		}
		dst, err = s.appendTidy(dst)
	}
	return append(dst, ']'), err
}

func (s *scanner) appendObject(dst []byte) ([]byte, error) {
	type pair struct{ key, value []byte }
	var pairs []pair
	l, err := s.enter('{', "an object")
	for err == nil {
		var more bool
		var p pair
		if p.key, more, err = s.pair(&l); err != nil || !more {
			break
		}
		p.value, err = s.appendTidy(nil)
		pairs = append(pairs, p)
	}
	if err != nil {
		return dst, err
	}
	slices.SortFunc(pairs, func(a, b pair) int { return bytes.Compare(a.key, b.key) })
	dst = append(dst, '{')
	for i, p := range pairs {
		if i > 0 {
			if bytes.Equal(pairs[i-1].key, p.key) {
				return dst, twice(p.key)
			}
			dst = append(dst, ',')
		}
		dst = append(appendQuoted(dst, p.key), ':')
		dst = append(dst, p.value...)
	}
	return append(dst, '}'), nil
}

// twice is the error of a key that an object has two of: which of them counts, readers do not agree on.
func twice[T string | []byte](key T) error {
	return fmt.Errorf("the key %s comes twice", brief(string(key)))
}
