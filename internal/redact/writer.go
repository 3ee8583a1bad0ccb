package redact

import (
	"bytes"
	"fmt"
	"io"
)

// maxHeld bounds what a Writer keeps back for the sake of shapes: a longer run without a space is let
// go. Registered values are caught however long they are.
const maxHeld = 16 << 10

// Writer redacts what is written through it, also a secret that comes in several pieces: it keeps back
// the end of the text for as long as that might be the start of a secret. Close lets the rest go.
type Writer struct {
	to   io.Writer
	from *Redactor
	held []byte
	err  error
}

// Writer makes a writer that redacts on the way to w.
func (r *Redactor) Writer(w io.Writer) *Writer { return &Writer{to: w, from: r} }

// Write takes all of p, or fails for good with the error of the writer below.
func (w *Writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.held = append(w.held, p...)
	k := w.from.get()
	spans := k.spans(w.held)
	cut := k.safeCut(w.held, spans)
	if err := w.pass(k, cut, spans); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes what was kept back. It does not close the writer below.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	k := w.from.get()
	out, _ := k.clean(w.held)
	w.held = nil
	return w.send(out)
}

func (w *Writer) pass(k *known, cut int, spans []span) error {
	if cut == 0 {
		return nil
	}
	for i, s := range spans {
		if s.from >= cut {
			spans = spans[:i]
			break
		}
	}
	out := k.replace(w.held[:cut], spans)
	w.held = append(w.held[:0], w.held[cut:]...)
	return w.send(out)
}

func (w *Writer) send(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	if _, err := w.to.Write(out); err != nil {
		w.err = fmt.Errorf("write redacted text: %w", err)
	}
	return w.err
}

// safeCut is how much of b can go: nothing after it changes what is secret before it.
func (k *known) safeCut(b []byte, spans []span) int {
	if len(k.mark) == 0 {
		return 0 // only the whole text can be judged
	}
	cut := len(b) - shapeTail(b)
	for _, v := range k.values {
		cut = min(cut, len(b)-valueTail(b, v))
	}
	for i := len(spans) - 1; i >= 0; i-- {
		if spans[i].from < cut && cut < spans[i].to {
			cut = spans[i].from
		}
	}
	return cut
}

// valueTail is the length of the longest end of b that v may go on from.
func valueTail(b, v []byte) int {
	for n := min(len(v)-1, len(b)); n > 0; n-- {
		if bytes.HasSuffix(b, v[:n]) {
			return n
		}
	}
	return 0
}

// shapeTail is the length of the end of b that may be an unfinished shape: an open private key, or the
// last word, with the word before it when that announces a token.
func shapeTail(b []byte) int {
	if i := openKey(b); i >= 0 && len(b)-i <= maxHeld {
		return len(b) - i
	}
	word := wordStart(b, len(b))
	gap := word
	for gap > 0 && (b[gap-1] == ' ' || b[gap-1] == '\t') {
		gap--
	}
	if gap < word || word == len(b) {
		if before := wordStart(b, gap); announces(b[before:gap]) {
			word = before
		}
	}
	if len(b)-word > maxHeld {
		return 0
	}
	return len(b) - word
}

// openKey is where a private key starts that has not ended, or may start; -1 if there is none.
func openKey(b []byte) int {
	i := bytes.LastIndex(b, []byte("-----BEGIN "))
	if i < 0 || keyEnd.Match(b[i:]) {
		return -1
	}
	if begin := keyBegin.FindIndex(b[i:]); begin != nil && begin[0] == 0 || !bytes.ContainsRune(b[i:], '\n') {
		return i
	}
	return -1
}

func wordStart(b []byte, end int) int {
	return bytes.LastIndexAny(b[:end], " \t\r\n") + 1
}

func announces(word []byte) bool {
	for _, s := range []string{"bearer", "basic", "-----begin"} {
		if len(word) >= len(s) && bytes.EqualFold(word[len(word)-len(s):], []byte(s)) {
			return true
		}
	}
	return false
}
