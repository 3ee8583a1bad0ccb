package jsonl

import (
	"bytes"
	"errors"
	"fmt"
)

// maxDepth bounds how deep the value of a field may be nested.
const maxDepth = 100

// errShort is text that ends before the JSON in it does: more bytes might make it whole.
var errShort = errors.New("it ends in the middle")

// scanner walks over JSON text, which is valid UTF-8. encoding/json is not used because it takes too much:
// a key twice, half a surrogate pair, any letter case; and because it copies what is fine as it is.
type scanner struct {
	b []byte
	i int
}

// expected is the error at the current place, which is short if nothing is there.
func (s *scanner) expected(what string) error {
	if s.i >= len(s.b) {
		return errShort
	}
	return s.errorf(s.i, "%s is expected", what)
}

func (s *scanner) errorf(at int, format string, args ...any) error {
	return fmt.Errorf("column %d: %s", at+1, fmt.Sprintf(format, args...))
}

// space skips white space, and reports whether there was any.
func (s *scanner) space() bool {
	from := s.i
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
			continue
		}
		break
	}
	return s.i > from
}

// take skips the one byte c, if it is next.
func (s *scanner) take(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// list is a place inside an array or object.
type list struct {
	closing byte
	begun   bool
	tidy    bool // canonical so far
	key     []byte
}

// enter goes into the array or object that opens here.
func (s *scanner) enter(opening byte, what string) (list, error) {
	if !s.take(opening) {
		return list{}, s.expected(what)
	}
	return list{closing: opening + 2, tidy: true}, nil // in ASCII, ] and } stand two after [ and {
}

// item goes to the next element, or past the end of the list.
func (s *scanner) item(l *list) (more bool, err error) {
	l.tidy = !s.space() && l.tidy
	if s.take(l.closing) {
		return false, nil
	}
	if l.begun {
		if !s.take(',') {
			return false, s.expected("a comma or " + string(l.closing))
		}
		l.tidy = !s.space() && l.tidy
	}
	l.begun = true
	return true, nil
}

// pair goes to the next value of an object and says its key, or goes past the end of the object. Keys that
// do not ascend make the object untidy: whether one comes twice is for the caller to find.
func (s *scanner) pair(l *list) (key []byte, more bool, err error) {
	if more, err = s.item(l); !more {
		return nil, false, err
	}
	key, tidy, err := s.text("a key")
	if err != nil {
		return nil, false, err
	}
	ascends := l.key == nil || bytes.Compare(l.key, key) < 0
	l.key = key
	spaced := s.space()
	if !s.take(':') {
		return nil, false, s.expected("a colon")
	}
	l.tidy = !s.space() && !spaced && tidy && ascends && l.tidy
	return key, true, nil
}

// value skips one value, and reports whether it is canonical.
func (s *scanner) value(depth int) (tidy bool, err error) {
	if s.i >= len(s.b) {
		return false, errShort
	}
	switch c := s.b[s.i]; c {
	case '"':
		tidy, _, err := s.str()
		return tidy, err
	case '{', '[':
		return s.nested(depth)
	case 't':
		return true, s.literal("true")
	case 'f':
		return true, s.literal("false")
	case 'n':
		return true, s.literal("null")
	default:
		if c == '-' || isDigit(c) {
			return true, s.number()
		}
		return false, s.expected("a value")
	}
}

func (s *scanner) nested(depth int) (tidy bool, err error) {
	if depth == 0 {
		return false, s.errorf(s.i, "nested more than %d deep", maxDepth)
	}
	keyed := s.b[s.i] == '{'
	l, err := s.enter(s.b[s.i], "a list")
	for err == nil {
		var more, fine bool
		if keyed {
			_, more, err = s.pair(&l)
		} else {
			more, err = s.item(&l)
		}
		if err != nil || !more {
			break
		}
		fine, err = s.value(depth - 1)
		l.tidy = fine && l.tidy
	}
	return l.tidy, err
}

func (s *scanner) literal(word string) error {
	for i := range len(word) {
		if !s.take(word[i]) {
			return s.expected(word)
		}
	}
	return nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (s *scanner) number() error {
	s.take('-')
	if !s.take('0') {
		if err := s.digits(); err != nil {
			return err
		}
	}
	if s.take('.') {
		if err := s.digits(); err != nil {
			return err
		}
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		return s.digits()
	}
	return nil
}

func (s *scanner) digits() error {
	from := s.i
	for s.i < len(s.b) && isDigit(s.b[s.i]) {
		s.i++
	}
	if s.i == from {
		return s.expected("a digit")
	}
	return nil
}
