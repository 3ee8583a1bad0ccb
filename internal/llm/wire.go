package llm

import (
	"hash/maphash"

	"taskdaemon/internal/td"
)

// Wire keeps the messages of a growing conversation in a provider's encoding, so that each call only
// encodes what is new and the bytes before it cannot change.
//
// Bytes once handed out are never written again: a transport may still be sending an earlier call's
// body while the next one is encoded. A Wire belongs to one run and is not safe for concurrent use.
type Wire struct {
	buf  []byte
	ends []int  // of each encoded message
	last uint64 // fingerprint of the newest one
}

// Extend encodes messages that are not in the buffer yet and returns all of them, joined by commas.
// A conversation that got shorter is encoded anew; a newest message that was added to since is encoded
// again. Messages before that are trusted not to have changed: after a rewrite, call Reset.
func (w *Wire) Extend(messages []td.Message, encode func(dst []byte, m td.Message) ([]byte, error)) ([]byte, error) {
	n := len(w.ends)
	switch {
	case n > len(messages):
		w.Reset()
	case n > 0 && fingerprint(messages[n-1]) != w.last:
		w.ends = w.ends[:n-1]
		at := 0
		if n > 1 {
			at = w.ends[n-2]
		}
		w.buf = w.buf[:at:at]
	}
	for i := len(w.ends); i < len(messages); i++ {
		at := len(w.buf)
		dst := w.buf
		if at > 0 {
			dst = append(dst, ',')
		}
		dst, err := encode(dst, messages[i])
		if err != nil {
			return nil, err
		}
		w.buf, w.ends = dst, append(w.ends, len(dst))
		w.last = fingerprint(messages[i])
	}
	return w.buf, nil
}

// End is where message i ends in what Extend returned.
func (w *Wire) End(i int) int { return w.ends[i] }

// Reset forgets everything: the conversation was rewritten.
func (w *Wire) Reset() { w.buf, w.ends = nil, nil }

var fingerprintSeed = maphash.MakeSeed()

func fingerprint(m td.Message) uint64 {
	var h maphash.Hash
	h.SetSeed(fingerprintSeed)
	field := func(s string) {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
	}
	field(string(m.Role))
	for _, b := range m.Blocks {
		field(string(b.Type))
		field(b.Text)
		field(b.Signature)
		field(b.Data)
		field(b.ID)
		field(b.Name)
		_, _ = h.Write(b.Input)
		if b.IsError {
			field("error")
		}
	}
	return h.Sum64()
}
