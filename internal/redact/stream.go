package redact

import "bytes"

// maxHeld is how much of a line without an end a Stream holds back.
const maxHeld = 8 << 10

// Stream takes secrets out of a text that comes in pieces. It lets whole lines through, so that a secret cut in two
// by the pieces is found; a line that does not end is let through in parts of 8 KiB. The zero value knows shapes.
type Stream struct {
	Redactor *Redactor
	Known    bool // look for registered values alone, and hold back no more than what may be the beginning of one
	rest     []byte
	inKey    bool // a private key began and has not ended
}

// Write takes the next piece and returns what may be shown now.
func (s *Stream) Write(piece []byte) []byte {
	all := append(s.rest, piece...)
	if s.Known {
		k := s.Redactor.get().onlyValues()
		cut := len(all) - k.begun(all)
		out, _ := k.clean(all[:cut])
		s.rest = bytes.Clone(all[cut:])
		return out
	}
	if s.inKey {
		end := keyEnd().FindIndex(all)
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
	switch {
	case s.inKey:
		return nil
	case s.Known:
		out, _ := s.Redactor.get().onlyValues().clean(rest)
		return out
	}
	return s.show(rest)
}

func (s *Stream) show(text []byte) []byte {
	if begins := keyBegin().FindAllIndex(text, -1); begins != nil {
		s.inKey = !keyEnd().Match(text[begins[len(begins)-1][1]:])
	}
	return s.Redactor.Bytes(text)
}

// begun is how many bytes at the end of b may be the beginning of a value.
func (k *known) begun(b []byte) int {
	most := 0
	for _, v := range k.values {
		for n := min(len(v)-1, len(b)); n > most; n-- {
			if bytes.HasSuffix(b, v[:n]) {
				most = n
			}
		}
	}
	return most
}

// onlyValues knows no shapes.
func (k *known) onlyValues() *known { return &known{values: k.values, mark: k.mark, only: true} }
