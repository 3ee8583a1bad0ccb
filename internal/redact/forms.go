package redact

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"net/url"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// needle is the longest beginning of a form that the automaton looks for; the rest is compared when it is found. It
// keeps the tables small for values such as private keys.
const (
	needle       = 48
	nestedNeedle = 24 // of rare forms: there are many of those
)

// form is one way to write a known value.
type form struct {
	whole []byte
	gaps  bool // encoded: gaps within it do not count
	any   bool // it may have any character, those of marks, too
	most  int  // of it that is looked for
}

func (f form) head() []byte { return f.whole[:min(len(f.whole), f.most)] }

// maxTrim is how many bytes at the beginning of a rare form are not looked for: they hold two bytes of the value at most.
const maxTrim = 3

// rareForm is the form of what is encoded twice, or as few programs do it. It is looked for from a byte on that ordinary text seldom has: there are many of these forms, and
// each byte that begins one slows the search.
func rareForm(b []byte) form {
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
	if joined := bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return -1
		}
		return r
	}, v); len(joined) < len(v) && utf8.Valid(v) {
		add(joined, false) // as it is found where lines are joined
	}
	digits := hexed(v)
	for _, b := range slices.Concat(digits, based(v)) {
		add(b, true)
	}
	for _, b := range digits {
		add(inArray(b), true)
	}
	for _, b := range based32(v) {
		if len(b) >= MinLength {
			out = append(out, rareForm(b))
		}
	}
	for _, b := range based85(v) {
		b = slices.DeleteFunc(b, func(c byte) bool { return gap[c] }) // which the search passes over
		if len(b) >= MinLength {
			f := rareForm(b)
			f.any = true
			out = append(out, f)
		}
	}
	for _, b := range nested(v) {
		out = append(out, rareForm(b))
	}
	for _, wide := range utf16Of(v) {
		add(wide, false)
		for _, b := range append(based(wide), hexed(wide)...) {
			out = append(out, rareForm(b))
		}
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

// based32 are the ways to write bytes in base32, in capitals and small letters.
func based32(v []byte) (out [][]byte) {
	for shift := range 5 {
		padded := append(make([]byte, shift), v...)
		text := []byte(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(padded))
		text = text[(8*shift+4)/5 : 8*len(padded)/5] // as base64At
		out = append(out, text, bytes.ToLower(text))
	}
	return out
}

// The alphabets of base85: Adobe's, which is ASCII85, that of git and Python, and that of ZeroMQ.
const (
	adobe85  = "!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstu"
	git85    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
	zeromq85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)

// based85 are the ways to write bytes in base85. Four bytes make five characters, each of which depends on all four: of a value that stands within other data only whole fours
// are looked for.
func based85(v []byte) (out [][]byte) {
	for _, alphabet := range []string{adobe85, git85, zeromq85} {
		out = append(out, base85(v, alphabet))
		for from := range 4 {
			if from < len(v) {
				out = append(out, base85(v[from:from+(len(v)-from)/4*4], alphabet))
			}
		}
	}
	return out
}

func base85(v []byte, alphabet string) (out []byte) {
	for group := range slices.Chunk(v, 4) {
		var four [4]byte
		copy(four[:], group)
		n := binary.BigEndian.Uint32(four[:])
		var five [5]byte
		for i := range five {
			five[4-i] = alphabet[n%85]
			n /= 85
		}
		out = append(out, five[:len(group)+1]...)
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

// utf16Of are the two orders of bytes in which UTF-16 has a text.
func utf16Of(v []byte) (out [][]byte) {
	units := utf16.Encode([]rune(string(v)))
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		var b []byte
		for _, u := range units {
			b = order.AppendUint16(b, u)
		}
		out = append(out, b)
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
