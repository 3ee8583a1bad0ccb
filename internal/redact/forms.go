package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
)

// needle is the longest beginning of a form that the automaton looks for; the rest is compared when it is found. It
// keeps the tables small for values such as private keys.
const (
	needle       = 48
	nestedNeedle = 24 // of what is encoded twice: there are many of those
)

// form is one way to write a known value.
type form struct {
	whole []byte
	gaps  bool // encoded: gaps within it do not count
	most  int  // of it that is looked for
}

func (f form) head() []byte { return f.whole[:min(len(f.whole), f.most)] }

// maxTrim is how many bytes at the beginning of what is encoded twice are not looked for: they hold less than two of the value.
const maxTrim = 3

// nestedForm is the form of what is encoded twice. It is looked for from a byte on that ordinary text seldom has: there are many of these forms, and
// each byte that begins one slows the search.
func nestedForm(b []byte) form {
	from := 0
	if len(b) >= 4*maxTrim {
		from = max(0, bytes.IndexFunc(b[:maxTrim+1], func(r rune) bool { return r < 'a' || r > 'z' }))
	}
	return form{whole: b[from:], gaps: true, most: nestedNeedle}
}

// formsOf are the ways to write a value that differ from it by more than escapes: those are undone by views.
func formsOf(v []byte) []form {
	out := []form{{whole: v, most: needle}}
	add := func(b []byte, gaps bool) {
		if len(b) >= MinLength {
			out = append(out, form{whole: b, gaps: gaps, most: needle})
		}
	}
	if bytes.IndexByte(v, ' ') >= 0 {
		add(bytes.ReplaceAll(v, []byte(" "), []byte("+")), false) // in the query of an address
	}
	for _, quoted := range []string{`'\''`, `'"'"'`} {
		if bytes.IndexByte(v, '\'') >= 0 {
			add(bytes.ReplaceAll(v, []byte("'"), []byte(quoted)), false) // in single quotes of a shell
		}
	}
	digits := hexed(v)
	for _, b := range slices.Concat(digits, based(v)) {
		add(b, true)
	}
	for _, b := range digits {
		add(inArray(b), true)
	}
	for _, b := range nested(v) {
		out = append(out, nestedForm(b))
	}
	return out
}

// based are the ways to write bytes in base64.
func based(v []byte) (out [][]byte) {
	for shift := range 3 {
		std := base64At(v, shift)
		out = append(out, std)
		if safe := urlAlphabet(std); !bytes.Equal(safe, std) {
			out = append(out, safe)
		}
	}
	return out
}

// hexed is hex in small letters, and in capitals if that is not the same.
func hexed(v []byte) [][]byte {
	lower := []byte(hex.EncodeToString(v))
	if upper := bytes.ToUpper(lower); !bytes.Equal(upper, lower) {
		return [][]byte{lower, upper}
	}
	return [][]byte{lower}
}

// nested are the ways to write what is encoded already, hex in small letters only, also when it was made fit for an address in between. What hangs on what stands around it
// is left out at each level, so that little is left of a short value: that is not looked for.
func nested(v []byte) (out [][]byte) {
	for _, b := range append(based(v), hexed(v)[0]) {
		inner := [][]byte{b}
		if bytes.ContainsAny(b, "+/") {
			inner = append(inner, []byte(url.QueryEscape(string(b))))
		}
		for _, b := range inner {
			for _, twice := range append(based(b), hexed(b)[0]) {
				if len(twice) >= nestedLeast {
					out = append(out, twice)
				}
			}
		}
	}
	return out
}

// nestedLeast is the shortest part of a value encoded twice that is looked for.
const nestedLeast = 8

// inArray is hex as a program has it in a list: 0x73, 0x65. The commas are gaps.
func inArray(digits []byte) []byte {
	var out []byte
	for pair := range slices.Chunk(digits, 2) {
		out = append(append(out, "0x"...), pair...)
	}
	return out
}

// base64At is what base64 makes of a value that stands shift bytes (modulo three) into the data, without the
// characters at both ends that depend on its neighbours.
func base64At(v []byte, shift int) []byte {
	padded := append(make([]byte, shift), v...)
	text := make([]byte, base64.RawStdEncoding.EncodedLen(len(padded)))
	base64.RawStdEncoding.Encode(text, padded)
	return text[(8*shift+5)/6 : 8*len(padded)/6]
}

func urlAlphabet(b []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("+"), []byte("-")), []byte("/"), []byte("_"))
}
