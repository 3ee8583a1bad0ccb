package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// plainText is s with nothing in it that acts on a terminal: it cannot move the cursor, change colours, set
// the title, or make what is shown differ from what is there. Lines and tabs stay; other control
// characters become their pictures, broken UTF-8 the replacement character.
func plainText(s string) string {
	if isClean(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteRune(utf8.RuneError)
		case r == '\r' && strings.HasPrefix(s[i:], "\r\n"):
			// the line ends with the \n that follows
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r < 0x20:
			b.WriteRune('␀' + r)
		case r == 0x7f:
			b.WriteRune('␡')
		case isDangerous(r):
			b.WriteRune('�')
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

func isClean(s string) bool {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || r < 0x20 && r != '\n' && r != '\t' || r == 0x7f || isDangerous(r) {
			return false
		}
		i += n
	}
	return true
}

// isDangerous: the C1 controls, among them an escape in one byte; marks that turn the direction of
// writing, with which text can show in another order than it runs; line separators; what takes no room, with which two names that look alike are not the same.
func isDangerous(r rune) bool {
	return r >= 0x80 && (r <= 0x9f || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point))
}

// margin begins the lines of what a model, a tool or a person's prompt said, wherever taskdaemon's own lines stand beside them: without it such text could pass for a question, or for what
// to type next.
const margin = "  │ "

// quoted is plain text that follows words of taskdaemon's own: all lines but the first have a margin.
func quoted(s string) string {
	return strings.ReplaceAll(strings.TrimRight(plainText(s), "\n"), "\n", "\n"+margin)
}

// quotedWhole is plain text that stands by itself: all lines have a margin.
func quotedWhole(s string) string { return margin + quoted(s) }

// spelledOut is JSON in which the characters that act on a terminal, all of them in strings, are escaped.
func spelledOut(s string) string {
	if isClean(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r == 0x7f || isDangerous(r) {
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// plainLine is s on one line, at most width characters long.
func plainLine(s string, width int) string {
	s = strings.Join(strings.Fields(plainText(s)), " ")
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	r := []rune(s)
	return strings.TrimRight(string(r[:width-1]), " ") + "…"
}

// mostTyped bounds a line that is to be typed: cut off it is of no use, and two of the longest paths fit.
const mostTyped = 10_000

// plainClip keeps the beginning and the end of long text.
func plainClip(s string, head, tail int) []string {
	lines := strings.Split(strings.TrimRight(plainText(s), "\n"), "\n")
	if len(lines) <= head+tail+1 {
		return lines
	}
	out := append([]string{}, lines[:head]...)
	out = append(out, fmt.Sprintf("… %d lines left out …", len(lines)-head-tail))
	return append(out, lines[len(lines)-tail:]...)
}
