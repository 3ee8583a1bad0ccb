// Package redact takes secrets out of bytes: values it was told, and anything shaped like a key (G-9).
//
// The promise: what comes out contains no registered value of MinLength bytes or more, whole, in any place, even one
// that only came together because something between its halves was taken out; neither as it is nor in base64, base32, base85 or hex,
// UTF-16, percent-encoded, quoted-printable, escaped as JSON and shells do it, broken over lines that begin with a mark, spaced out, printed over, or split by characters that nobody sees. Shapes are a second net for secrets nobody registered; they are
// guesses and make no promise. Redacting a text again changes nothing.
package redact

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// MinLength is the shortest value that is looked for. Shorter ones would blot out ordinary words.
const MinLength = 6

// Redactor knows the secrets. The zero value and nil know only shapes. It is safe for concurrent use.
type Redactor struct {
	mu     sync.Mutex
	values [][]byte
	known  atomic.Pointer[known] // of the values; nil until somebody looks for them
}

// known is an immutable set of values and the mark that replaces them.
type known struct {
	finder *finder // nil when there are no values
	mark   []byte
	only   bool // shapes are let through
}

var noValues = &known{mark: []byte(marks[0])}

// New makes a redactor of these values.
func New(values ...string) *Redactor {
	r := &Redactor{}
	r.Add(values...)
	return r
}

// Add registers more values. Space around a value is not part of it; short ones are left out.
func (r *Redactor) Add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range values {
		b := []byte(strings.TrimSpace(v))
		if len(b) >= MinLength && !slices.ContainsFunc(r.values, func(o []byte) bool { return bytes.Equal(o, b) }) {
			r.values = append(r.values, b)
			r.known.Store(nil)
		}
	}
}

func (r *Redactor) get() *known {
	if r == nil {
		return noValues
	}
	if k := r.known.Load(); k != nil {
		return k
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.known.Load(); k != nil {
		return k
	}
	k := noValues
	if len(r.values) > 0 {
		f := newFinder(r.values)
		k = &known{finder: f, mark: markFor(f.all())}
	}
	r.known.Store(k)
	return k
}

// String is s without secrets.
func (r *Redactor) String(s string) string {
	k := r.get()
	b := []byte(s)
	if out, changed := k.clean(b); changed {
		return string(out)
	}
	return s
}

// Bytes is b without secrets: b itself when it holds none, else a new slice.
func (r *Redactor) Bytes(b []byte) []byte {
	out, _ := r.get().clean(b)
	return out
}

// clean replaces secrets until there are none: what is left of a text may have come together anew, and may have a
// shape that it had not before. Each round leaves less that is no mark.
func (k *known) clean(b []byte) (out []byte, changed bool) {
	for out = b; ; changed = true {
		spans := slices.DeleteFunc(k.spans(out), func(s span) bool { return bytes.Equal(out[s.from:s.to], k.mark) })
		if len(spans) == 0 {
			return out, changed
		}
		out = k.replace(out, spans)
	}
}

func (k *known) replace(b []byte, spans []span) []byte {
	out := make([]byte, 0, len(b))
	at := 0
	for _, s := range spans {
		out = append(out, b[at:s.from]...)
		out = append(out, k.mark...)
		at = s.to
	}
	return append(out, b[at:]...)
}

// span is a part of a text that holds a secret.
type span struct{ from, to int }

// spans are the secrets in b, sorted, those that touch joined.
func (k *known) spans(b []byte) []span {
	found, _ := k.finder.find(b, 0)
	if !k.only {
		found = appendShapes(found, b)
		if v := hidden.undo(b); v != nil {
			for _, s := range appendShapes(nil, v.text) {
				found = append(found, span{v.source(s.from), v.end(s.to)})
			}
		}
	}
	return join(found)
}

func join(found []span) []span {
	if len(found) < 2 {
		return found
	}
	slices.SortFunc(found, func(a, b span) int { return a.from - b.from })
	out := found[:1]
	for _, s := range found[1:] {
		last := &out[len(out)-1]
		if s.from <= last.to {
			last.to = max(last.to, s.to)
		} else {
			out = append(out, s)
		}
	}
	return out
}

var marks = []string{"[redacted]", "<redacted>", "{redacted}", "***", "###", "___"}

// markFor finds a mark that can be no part of a value, so that putting it into a text cannot make one.
func markFor(values [][]byte) []byte {
	for _, m := range marks {
		if safeMark([]byte(m), values) {
			return []byte(m)
		}
	}
	for c := range 256 {
		if m := []byte{byte(c)}; safeMark(m, values) {
			return m
		}
	}
	return nil // the values use every byte there is: take secrets out and put nothing in
}

// safeMark: a value that overlaps a mark from outside would hold its first or last byte; one inside it
// would be a part of it.
func safeMark(m []byte, values [][]byte) bool {
	for _, v := range values {
		if bytes.IndexByte(v, m[0]) >= 0 || bytes.IndexByte(v, m[len(m)-1]) >= 0 || bytes.Contains(m, v) {
			return false
		}
	}
	return true
}
