package webfetch

import (
	"strings"
	"unicode"
)

// clean takes out of a stranger's text what people would not see and a model would read or a terminal
// obey: control characters, marks that turn the direction of reading, invisible letters. What scripts
// need to be written, joiners among it, stays.
func clean(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r' || r == '\u2028' || r == '\u2029' || r == '\u0085':
			return '\n'
		case unicode.Is(invisible, r):
			return -1
		}
		return r
	}, s)
}

// invisible are the characters that clean takes out.
var invisible = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x0000, Hi: 0x001f, Stride: 1}, // control characters
		{Lo: 0x007f, Hi: 0x009f, Stride: 1},
		{Lo: 0x00ad, Hi: 0x00ad, Stride: 1}, // soft hyphen
		{Lo: 0x061c, Hi: 0x061c, Stride: 1}, // direction of reading
		{Lo: 0x180e, Hi: 0x180e, Stride: 1},
		{Lo: 0x200b, Hi: 0x200b, Stride: 1}, // no width
		{Lo: 0x200e, Hi: 0x200f, Stride: 1}, // direction of reading
		{Lo: 0x202a, Hi: 0x202e, Stride: 1},
		{Lo: 0x2060, Hi: 0x206f, Stride: 1}, // no width, direction, deprecated formats
		{Lo: 0xf002, Hi: 0xf004, Stride: 1}, // private use: marks of the converter and of prune.go
		{Lo: 0xfeff, Hi: 0xfeff, Stride: 1}, // byte order mark
		{Lo: 0xfff9, Hi: 0xfffb, Stride: 1}, // annotations
	},
	R32: []unicode.Range32{
		{Lo: 0x1d173, Hi: 0x1d17a, Stride: 1}, // musical formats
		{Lo: 0xe0000, Hi: 0xe0fff, Stride: 1}, // tags: a hidden alphabet
	},
	LatinOffset: 3,
}
