package redact

import (
	"bytes"
	"sort"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// view is a text with one level of escapes undone, and where each byte of it came from.
type view struct {
	text  []byte
	jumps []jump
	cut   int // where an escape begins that the text does not end; else the length of what was read
}

// jump says that from a place of the view on, bytes come one by one from a place of what was read.
type jump struct {
	at, from int
	escaped  bool // the byte stands for an escape
}

// source is where the byte at a place of the view came from.
func (v *view) source(at int) int {
	i := sort.Search(len(v.jumps), func(i int) bool { return v.jumps[i].at > at }) - 1
	if i < 0 {
		return at
	}
	return v.jumps[i].from + at - v.jumps[i].at
}

// end is where what was read ends that gave the view up to a place: an escape belongs to it as a whole, what stands for nothing and follows does not.
func (v *view) end(at int) int {
	last := v.source(at - 1)
	if i := sort.Search(len(v.jumps), func(i int) bool { return v.jumps[i].at > at-1 }) - 1; i < 0 || !v.jumps[i].escaped {
		return last + 1
	}
	i := sort.Search(len(v.jumps), func(i int) bool { return v.jumps[i].at >= at })
	for i < len(v.jumps) && v.jumps[i].from <= last {
		i++
	}
	if i < len(v.jumps) && v.source(at) <= last {
		return v.jumps[i].from
	}
	return max(v.source(at), last+1)
}

// escape reads what an escape stands for: nothing when it is none, and open when the text ends within it.
type escape struct {
	next func(b []byte, from int) int // where one may begin; below zero: nowhere
	read func(b []byte, into *[utf8.UTFMax]byte) (n, width int, open bool)
}

// escapes are undone one after the other, and what comes of one is read for the others again.
var escapes = []escape{{begins('%'), readPercent}, {begins('\\'), readBackslash}, {begins('&'), readEntity}, {begins(0x1b), readTerminal}, {begins('='), readPrintable}, {nextOverprinted, readOverprinted}, hidden}

// hidden are the characters that nobody sees.
var hidden = escape{nextUnseen, readUnseen}

// maxDepth is how many levels of escapes are undone: a value in an address, in a JSON text, in a JSON string.
const maxDepth = 3

// undo is b without the escapes of one kind; nil when it has none.
func (e escape) undo(b []byte) *view {
	first := e.next(b, 0)
	if first < 0 {
		return nil
	}
	v := &view{cut: len(b)}
	var into [utf8.UTFMax]byte
	done := 0 // of b
	for at := first; at >= 0; {
		n, width, open := e.read(b[at:], &into)
		if open {
			v.text = append(v.text, b[done:at]...)
			v.cut = at
			return v
		}
		if width == 0 {
			at = e.next(b, at+1)
			continue
		}
		v.text = append(v.text, b[done:at]...)
		for i := range n {
			v.jumps = append(v.jumps, jump{len(v.text), at, true})
			v.text = append(v.text, into[i])
		}
		done = at + width
		v.jumps = append(v.jumps, jump{len(v.text), done, false})
		at = e.next(b, done)
	}
	if len(v.jumps) == 0 {
		return nil
	}
	v.text = append(v.text, b[done:]...)
	return v
}

// begins finds the byte that an escape begins with.
func begins(c byte) func([]byte, int) int {
	return func(b []byte, from int) int {
		if i := bytes.IndexByte(b[from:], c); i >= 0 {
			return from + i
		}
		return -1
	}
}

// readUnseen reads characters that take no room on a screen and stand for nothing: a value that one of them splits looks whole.
func readUnseen(b []byte, _ *[utf8.UTFMax]byte) (n, width int, open bool) {
	if !utf8.FullRune(b) {
		return 0, 0, true
	}
	c, width := utf8.DecodeRune(b)
	if !unseen(c) || width == 1 {
		return 0, 0, false
	}
	return 0, width, false
}

// nextUnseen finds where a character may begin that takes no room. All of them begin with one of these bytes.
func nextUnseen(b []byte, from int) int {
	for i := from; i < len(b); i++ {
		switch b[i] {
		case 0xc2, 0xcd, 0xd8, 0xe1, 0xe2, 0xe3, 0xef, 0xf0, 0xf3:
			return i
		}
	}
	return -1
}

// unseen reports whether a character takes no room: what Unicode has a program ignore that does not know it (joiners, soft hyphens, marks of
// direction, fillers, variation selectors, tags), and what stands for a byte that cannot be shown.
func unseen(c rune) bool {
	return c == utf8.RuneError || unicode.In(c, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Cf)
}

// mostTerminal bounds what is taken for one sequence of a terminal that has not ended.
const mostTerminal = 256

// readTerminal reads the sequences by which programs colour and move. They stand for nothing: what shows output leaves them out, and a value that one of them splits is whole then.
func readTerminal(b []byte, _ *[utf8.UTFMax]byte) (n, width int, open bool) {
	if len(b) == 1 {
		return 0, 0, true
	}
	at := 2
	within := func(from, to byte) {
		for at < len(b) && b[at] >= from && b[at] <= to {
			at++
		}
	}
	switch b[1] {
	case '[':
		within('0', '?')
		within(' ', '/')
		if at < len(b) && b[at] >= '@' && b[at] <= '~' {
			return 0, at + 1, false
		}
	case ']':
		for at < len(b) && b[at] != 0x07 && b[at] != 0x1b {
			at++
		}
		if at < len(b) && b[at] == 0x07 {
			return 0, at + 1, false
		}
		if at+1 < len(b) && b[at+1] == '\\' {
			return 0, at + 2, false
		}
		at = min(len(b), at+1)
	case '(', ')':
		if at < len(b) {
			return 0, at + 1, false
		}
	default:
		return 0, 0, false
	}
	return 0, 0, at >= len(b) && at < mostTerminal
}

func readPercent(b []byte, into *[utf8.UTFMax]byte) (n, width int, open bool) {
	c, digits := readHex(b[1:], 2)
	if digits == 2 {
		into[0] = byte(c)
		return 1, 3, false
	}
	return 0, 0, len(b) == 1+digits
}

// readBackslash reads escapes as JSON, C and shells have them.
func readBackslash(b []byte, into *[utf8.UTFMax]byte) (n, width int, open bool) {
	if len(b) == 1 {
		return 0, 0, true
	}
	switch b[1] {
	case '0', '1', '2', '3':
		if n, width, open = readOctal(b, into); open || width > 0 {
			return n, width, open
		}
		into[0] = b[1]
	case 'x', 'u', 'U':
		want := map[byte]int{'x': 2, 'u': 4, 'U': 8}[b[1]]
		c, digits := readHex(b[2:], want)
		switch {
		case digits < want && len(b) == 2+digits:
			return 0, 0, true
		case digits < want:
			into[0] = b[1]
			return 1, 2, false
		case want == 2:
			into[0] = byte(c)
			return 1, 4, false
		case want == 4 && utf16.IsSurrogate(c):
			return readSurrogates(b, c, into)
		}
		return utf8.EncodeRune(into[:], c), 2 + want, false
	case 'n':
		into[0] = '\n'
	case 't':
		into[0] = '\t'
	case 'r':
		into[0] = '\r'
	case 'b':
		into[0] = '\b'
	case 'f':
		into[0] = '\f'
	default:
		into[0] = b[1]
	}
	return 1, 2, false
}

// readOctal reads three octal digits after a backslash, and after a zero, as echo has it, four. Shells put a backslash before a digit, too: fewer are none.
func readOctal(b []byte, into *[utf8.UTFMax]byte) (n, width int, open bool) {
	most := 4
	if b[1] == '0' {
		most = 5
	}
	c, at := 0, 1
	for ; at < most && at < len(b) && '0' <= b[at] && b[at] <= '7' && c < 32; at++ {
		c = c<<3 | int(b[at]-'0')
	}
	if at == len(b) && at < most && c < 32 {
		return 0, 0, true
	}
	if at < 4 || c > 255 {
		return 0, 0, false
	}
	into[0] = byte(c)
	return 1, at, false
}

// readSurrogates reads two escapes that are one character together.
func readSurrogates(b []byte, first rune, into *[utf8.UTFMax]byte) (n, width int, open bool) {
	rest := b[6:]
	if len(rest) < 2 && bytes.HasPrefix([]byte(`\u`), rest) {
		return 0, 0, true
	}
	second, digits := rune(0), 0
	if bytes.HasPrefix(rest, []byte(`\u`)) {
		second, digits = readHex(rest[2:], 4)
		if digits < 4 && len(rest) == 2+digits {
			return 0, 0, true
		}
	}
	if c := utf16.DecodeRune(first, second); digits == 4 && c != utf8.RuneError {
		return utf8.EncodeRune(into[:], c), 12, false
	}
	return utf8.EncodeRune(into[:], first), 6, false
}

func readHex(b []byte, want int) (c rune, digits int) {
	for digits < want && digits < len(b) {
		d := b[digits]
		switch {
		case '0' <= d && d <= '9':
			d -= '0'
		case 'a' <= d && d <= 'f':
			d -= 'a' - 10
		case 'A' <= d && d <= 'F':
			d -= 'A' - 10
		default:
			return c, digits
		}
		c, digits = c<<4|rune(d), digits+1
	}
	return c, digits
}
