package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
)

// needle is the longest beginning of a form that the automaton looks for; the rest is compared when it is found. It
// keeps the tables small for values such as private keys.
const needle = 48

// form is one way to write a known value.
type form struct {
	whole []byte
	gaps  bool // encoded: gaps within it do not count
}

func (f form) head() []byte { return f.whole[:min(len(f.whole), needle)] }

// formsOf are the ways to write a value that differ from it by more than escapes: those are undone by views.
func formsOf(v []byte) []form {
	out := []form{{whole: v}}
	add := func(b []byte, gaps bool) {
		if len(b) >= MinLength {
			out = append(out, form{b, gaps})
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
	lower := []byte(hex.EncodeToString(v))
	add(lower, true)
	if upper := bytes.ToUpper(lower); !bytes.Equal(upper, lower) {
		add(upper, true)
	}
	for shift := range 3 {
		std := base64At(v, shift)
		add(std, true)
		if safe := urlAlphabet(std); !bytes.Equal(safe, std) {
			add(safe, true)
		}
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
