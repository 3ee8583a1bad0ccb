package jsonl

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// str skips a string. It is plain if what stands between the quotes is its text.
func (s *scanner) str() (tidy, plain bool, err error) {
	if !s.take('"') {
		return false, false, s.expected("a string")
	}
	tidy, plain = true, true
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return tidy, plain, nil
		case c < ' ':
			return false, false, s.errorf(s.i, "a control character inside a string")
		case c == '\\':
			plain = false
			fine, err := s.escape()
			if err != nil {
				return false, false, err
			}
			tidy = fine && tidy
		default:
			s.i++
		}
	}
	return false, false, errShort
}

// escape skips an escape sequence, and reports whether it is surely canonical.
func (s *scanner) escape() (tidy bool, err error) {
	s.i++
	if s.i >= len(s.b) {
		return false, errShort
	}
	at, c := s.i-1, s.b[s.i]
	s.i++
	switch c {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return true, nil
	case '/':
		return false, nil
	case 'u':
	default:
		return false, s.errorf(at, "an escape that there is not")
	}
	r, err := s.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return false, err
	}
	for _, c := range []byte(`\u`) {
		if s.i >= len(s.b) {
			return false, errShort
		}
		if !s.take(c) {
			return false, s.errorf(at, "half a surrogate pair")
		}
	}
	low, err := s.hex4()
	if err == nil && utf16.DecodeRune(r, low) == utf8.RuneError {
		err = s.errorf(at, "half a surrogate pair")
	}
	return false, err
}

func (s *scanner) hex4() (rune, error) {
	var r rune
	for range 4 {
		if s.i >= len(s.b) {
			return 0, errShort
		}
		switch c := s.b[s.i]; {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, s.expected("a hex digit")
		}
		s.i++
	}
	return r, nil
}

// text is the text of a string, which shares memory with the input if it can.
func (s *scanner) text(what string) (text []byte, tidy bool, err error) {
	if s.i < len(s.b) && s.b[s.i] != '"' {
		return nil, false, s.expected(what)
	}
	from := s.i + 1
	tidy, plain, err := s.str()
	if err != nil {
		return nil, false, err
	}
	if text = s.b[from : s.i-1 : s.i-1]; !plain {
		text = unescape(text)
	}
	return text, tidy, nil
}

// unescape is the text of a string that str accepted.
func unescape(in []byte) []byte {
	out := make([]byte, 0, len(in))
	for s := (scanner{b: in}); s.i < len(in); {
		if c := in[s.i]; c != '\\' {
			out = append(out, c)
			s.i++
			continue
		}
		c := in[s.i+1]
		s.i += 2
		if at := bytes.IndexByte(shortEscapes, c); at >= 0 {
			out = append(out, shortMeanings[at])
			continue
		}
		r, _ := s.hex4()
		if utf16.IsSurrogate(r) {
			s.i += len(`\u`)
			low, _ := s.hex4()
			r = utf16.DecodeRune(r, low)
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

// The escapes of one letter, and what they mean. The canonical form uses all but the last.
var (
	shortEscapes  = []byte(`"\bfnrt/`)
	shortMeanings = []byte("\"\\\b\f\n\r\t/")
)

// appendQuoted writes a string in its canonical form: a control character, a quote or a backslash is
// escaped, as a letter if there is one for it.
func appendQuoted[T string | []byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	from := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[from:i]...)
		from = i + 1
		if at := bytes.IndexByte(shortMeanings, c); at >= 0 {
			dst = append(dst, '\\', shortEscapes[at])
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, text[from:]...)
	return append(dst, '"')
}
