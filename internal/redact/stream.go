package redact

import (
	"bytes"
	"unicode/utf8"
)

// maxHeld is how much of a line without an end a Stream holds back.
const maxHeld = 8 << 10

// mostOverprinted is in how much of the end a value is looked for that goes on behind a character that is printed over.
const mostOverprinted = 1 << 10

// Stream takes secrets out of a text that comes in pieces. It lets whole lines through, so that a secret cut in two
// by the pieces is found; a line that does not end is let through in parts of 8 KiB. What may be the beginning of a
// known value is held back, however it is written. The zero value knows shapes.
type Stream struct {
	Redactor *Redactor
	Known    bool // look for registered values alone, and hold back no more than what may be the beginning of one
	rest     []byte
	inKey    bool // a private key began and has not ended
}

// Write takes the next piece and returns what may be shown now.
func (s *Stream) Write(piece []byte) []byte {
	all := append(s.rest, piece...)
	if s.inKey {
		end := keyEnd().FindIndex(all)
		if end == nil {
			s.rest = bytes.Clone(all[max(0, len(all)-100):]) // the end itself may be cut in two
			return nil
		}
		all, s.inKey = all[end[1]:], false
	}
	cut := len(all)
	if !s.Known {
		if line := bytes.LastIndexByte(all, '\n') + 1; line > 0 || len(all) <= maxHeld {
			cut = line
		}
	}
	cut = s.Redactor.get().safeCut(all, cut)
	s.rest = bytes.Clone(all[cut:])
	return s.show(all[:cut])
}

// safeCut is where b may be cut so that no value is cut in two: before what may be the beginning of one, and
// after one that is there.
func (k *known) safeCut(b []byte, cut int) int {
	found, open := k.finder.find(b, 0)
	cut = min(cut, open)
	// The last character may yet be printed over.
	from := max(0, len(b)-mostOverprinted)
	_, last := utf8.DecodeLastRune(b)
	tail := b[from : len(b)-last]
	if _, open = k.finder.find(tail, 0); open < len(tail) {
		cut = min(cut, from+open)
	}
	for _, s := range join(found) {
		if s.from < cut && cut < s.to {
			return s.to
		}
	}
	return cut
}

// Close returns what was held back; the text has ended.
func (s *Stream) Close() []byte {
	rest := s.rest
	s.rest = nil
	if s.inKey {
		return nil
	}
	return s.show(rest)
}

func (s *Stream) show(text []byte) []byte {
	if s.Known {
		out, _ := s.Redactor.get().onlyValues().clean(text)
		return out
	}
	if begins := keyBegin().FindAllIndex(text, -1); begins != nil {
		s.inKey = !keyEnd().Match(text[begins[len(begins)-1][1]:])
	}
	return s.Redactor.Bytes(text)
}

// onlyValues knows no shapes.
func (k *known) onlyValues() *known {
	return &known{finder: k.finder, mark: k.mark, only: true}
}
