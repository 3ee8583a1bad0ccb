package builtin

import (
	"fmt"
	"strings"
	"unicode"
)

// title is a call on one line for people, who judge by it: nothing is left out, and what would be
// invisible, or would change how the rest looks, is spelled out.
func title(verb, what string) string {
	var b strings.Builder
	b.WriteString(verb + " ")
	for _, r := range what {
		switch {
		case r == '\n':
			b.WriteString(" ⏎ ")
		case r == '\t':
			b.WriteByte(' ')
		case !unicode.IsPrint(r): // control and format characters, bidirectional ones among them
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
