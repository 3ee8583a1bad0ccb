package redact

import (
	"bytes"
	"unicode/utf8"
)

// entities are the names under which HTML and XML have the characters that mean something to them.
var entities = map[string]byte{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\'', "sol": '/', "plus": '+', "equals": '=', "num": '#', "dollar": '$', "percnt": '%', "excl": '!', "commat": '@', "colon": ':', "period": '.', "lowbar": '_', "ast": '*'}

// mostEntity is the longest that is read, with both ends.
const mostEntity = 12

// readEntity reads a character as HTML has it: &lt; &#60; &#x3c;
func readEntity(b []byte, into *[utf8.UTFMax]byte) (n, width int, open bool) {
	end := bytes.IndexByte(b[:min(len(b), mostEntity)], ';')
	if end < 0 {
		word := bytes.TrimLeftFunc(b[1:], func(r rune) bool { return r == '#' || r < 0x80 && isWord(byte(r)) })
		return 0, 0, len(b) < mostEntity && len(word) == 0
	}
	name := b[1:end]
	if c, is := entities[string(name)]; is {
		into[0] = c
		return 1, end + 1, false
	}
	if len(name) < 2 || name[0] != '#' {
		return 0, 0, false
	}
	c, digits, want := rune(0), 0, len(name)-1
	if name[1] == 'x' || name[1] == 'X' {
		want--
		c, digits = readHex(name[2:], want)
	} else {
		for ; digits < want && '0' <= name[1+digits] && name[1+digits] <= '9'; digits++ {
			c = c*10 + rune(name[1+digits]-'0')
		}
	}
	if digits < want || want == 0 || c <= 0 || c > utf8.MaxRune {
		return 0, 0, false
	}
	return utf8.EncodeRune(into[:], c), end + 1, false
}

func isWord(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// breaks are the ends of lines, with what indents the next one: a value that was wrapped is whole without them.
var breaks = []escape{{begins('\r'), readBreak}, {begins('\n'), readBreak}}

// breaksDepth is up to which level lines are joined: most text has many.
const breaksDepth = 2

func readBreak(b []byte, _ *[utf8.UTFMax]byte) (n, width int, open bool) {
	width = 1
	if b[0] == '\r' && len(b) > 1 && b[1] == '\n' {
		width = 2
	}
	for width < len(b) && (b[width] == ' ' || b[width] == '\t') {
		width++
	}
	return 0, width, false
}
