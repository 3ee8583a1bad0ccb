package notify

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sequences are what terminals obey. They are taken out whole so that no rest of them is left to read;
// that none is obeyed does not hang on this pattern, but on the characters that line lets through.
var sequences = regexp.MustCompile(`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]` + // colours and movement
	`|(?:\x1b[\]PX^_]|[\x{9d}\x{90}\x{98}\x{9e}\x{9f}])[^\x07\x1b\x{9c}]*(?:\x07|\x1b\\|\x{9c}|$)` + // titles, strings
	`|\x1b[ -/]*[0-~]`)

// line makes s one line of at most n printable characters. Space, and what separates like it, becomes a
// single space; what cannot be printed is left out; what is too long ends in an ellipsis.
func line(s string, n int) string {
	s = sequences.ReplaceAllString(strings.ToValidUTF8(s, ""), "")
	out := make([]rune, 0, min(len(s), n+1))
	gap := false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			gap = len(out) > 0
			continue
		case r == utf8.RuneError || !unicode.IsPrint(r): // format characters, those that turn the reading among them
			continue
		}
		if gap {
			out = append(out, ' ')
			gap = false
		}
		if out = append(out, r); len(out) > n {
			return strings.TrimRight(string(out[:n-1]), " ") + "…"
		}
	}
	return string(out)
}
