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

// spread are the ways to write a value in pieces: over lines that begin with a mark or a number, and letter by letter. Each is looked at in the text itself and in what one escape of it stands for.
var spread = []escape{{begins('\n'), readMarkedBreak}, {begins('\n'), readNumber}, {nextSpaced, readSpaced}}

// spreadDepth is up to which level.
const spreadDepth = 2

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

// readMarkedBreak reads the end of a line with what the next one begins with where text is quoted (>), a comment (#, //, *, ;), a difference (+, -) or a table (|).
func readMarkedBreak(b []byte, _ *[utf8.UTFMax]byte) (n, width int, open bool) {
	at := 1 + leading(b[1:], " \t")
	mark := leading(b[at:], "+-")
	switch {
	case mark > 0:
		at++
	case leading(b[at:], ">") > 0:
		for quoted := 1; quoted > 0; {
			at += leading(b[at:], ">")
			at += min(1, leading(b[at:], " "))
			quoted = leading(b[at:], ">")
		}
	default:
		if mark = leading(b[at:], "#/*;|"); mark == 0 {
			return 0, 0, false
		}
		at += mark
		at += min(1, leading(b[at:], " \t"))
	}
	return 0, at, false
}

// readNumber reads the end of a line with the number of the next one (3:), which leaves the end of the line.
func readNumber(b []byte, into *[utf8.UTFMax]byte) (n, width int, open bool) {
	at := 1 + leading(b[1:], " \t")
	digits := leading(b[at:], "0123456789")
	at += digits
	switch {
	case digits == 0 || digits > mostDigits:
		return 0, 0, false
	case at == len(b):
		return 0, 0, true
	case leading(b[at:], ".)") > 0:
		at++
		at += min(1, leading(b[at:], " "))
	case leading(b[at:], ":-|\t") > 0:
		at++
	default:
		return 0, 0, false
	}
	into[0] = '\n'
	return 1, at, false
}

// mostDigits bounds the number of a line.
const mostDigits = 20

// leading is how many bytes of a set b begins with.
func leading(b []byte, set string) int {
	return len(b) - len(bytes.TrimLeft(b, set))
}

// nextSpaced finds a blank or tab of at least three that stand at every second place.
func nextSpaced(b []byte, from int) int {
	for i := from; i < len(b); i++ {
		if c := b[i]; c != ' ' && c != '\t' {
			continue
		}
		row := 1
		for at := i + 2; row < leastSpaced; at += 2 {
			if at < len(b) && b[at] != b[i] || at == len(b) && b[at-1] == '\n' {
				break
			}
			row++ // behind the end there may be another
		}
		for at := i - 2; row < leastSpaced && at >= 0 && b[at] == b[i]; at -= 2 {
			row++
		}
		if row == leastSpaced {
			return i
		}
	}
	return -1
}

const leastSpaced = 3

// readSpaced reads what stands between letters that are spaced out.
func readSpaced([]byte, *[utf8.UTFMax]byte) (n, width int, open bool) { return 0, 1, false }

// nextOverprinted finds a character that is followed by a backspace: what comes then is printed over it.
func nextOverprinted(b []byte, from int) int {
	for i := from; i < len(b); {
		at := bytes.IndexByte(b[i:], '\b')
		if at < 0 {
			return -1
		}
		at += i
		if _, n := utf8.DecodeLastRune(b[from:at]); n > 0 && b[at-1] != '\b' {
			return at - n
		}
		i = at + 1
	}
	return -1
}

func readOverprinted(b []byte, _ *[utf8.UTFMax]byte) (n, width int, open bool) {
	_, width = utf8.DecodeRune(b)
	return 0, width + 1, false
}

// readPrintable reads an escape of quoted-printable, as mails have it, and the end of a line that goes on.
func readPrintable(b []byte, into *[utf8.UTFMax]byte) (n, width int, open bool) {
	for _, end := range []string{"\n", "\r\n"} {
		if bytes.HasPrefix(b[1:], []byte(end)) {
			return 0, 1 + len(end), false
		}
	}
	return readPercent(b, into)
}
