package redact

import "bytes"

// maxHeld is how much of a line without an end a Stream holds back.
const maxHeld = 8 << 10

// Stream takes secrets out of a text that comes in pieces. It lets whole lines through, so that a secret cut in two
// by the pieces is found; a line that does not end is let through in parts of 8 KiB. The zero value knows shapes.
type Stream struct {
	Redactor *Redactor
	rest     []byte
	inKey    bool // a private key began and has not ended
}

// Write takes the next piece and returns what may be shown now.
func (s *Stream) Write(piece []byte) []byte {
	all := append(s.rest, piece...)
	if s.inKey {
		end := keyEnd.FindIndex(all)
		if end == nil {
			s.rest = bytes.Clone(all[max(0, len(all)-100):]) // the end itself may be cut in two
			return nil
		}
		all, s.inKey = all[end[1]:], false
	}
	cut := bytes.LastIndexByte(all, '\n') + 1
	if cut == 0 && len(all) > maxHeld {
		cut = len(all)
	}
	s.rest = bytes.Clone(all[cut:])
	return s.show(all[:cut])
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
	if begins := keyBegin.FindAllIndex(text, -1); begins != nil {
		s.inKey = !keyEnd.Match(text[begins[len(begins)-1][1]:])
	}
	return s.Redactor.Bytes(text)
}
