package window

import (
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"
)

// cut is text with its middle left out, at no more than so many tokens, or as it is when it has no more. Whole
// lines are kept where they fit; where a line is longer than all there is room for, a part of it.
func cut(text string, tokens int) string {
	if cost(text) <= tokens*parts {
		return text
	}
	// What is left of the room after the mark itself, half for each end.
	room := max(tokens-Tokens(omitted(len(text), "characters"))-2, 0) * parts / 2
	head, tail := headOf(text, room), tailOf(text, room)
	from, to := len(head), max(len(text)-len(tail), len(head))
	wholeFrom := strings.LastIndexByte(text[:from], '\n') + 1
	wholeTo := to
	if nl := strings.IndexByte(text[to:], '\n'); nl >= 0 {
		wholeTo = to + nl + 1
	}
	// A line that would take most of an end with it is cut itself.
	if wholeFrom >= from/2 && wholeTo-to <= (len(text)-to)/2 && wholeTo > wholeFrom {
		lines := strings.Count(text[wholeFrom:wholeTo], "\n")
		if !strings.HasSuffix(text[wholeFrom:wholeTo], "\n") {
			lines++
		}
		return text[:wholeFrom] + omitted(lines, "lines") + "\n" + text[wholeTo:]
	}
	return text[:from] + "\n" + omitted(utf8.RuneCountInString(text[from:to]), "characters") + "\n" + text[to:]
}

func omitted(n int, what string) string { return fmt.Sprintf("[truncated, %d %s omitted]", n, what) }

// headOf is the longest beginning of text that costs no more than room.
func headOf(text string, room int) string {
	sum, before := 0, newline
	for i := range len(text) {
		c := classOf[text[i]]
		if sum += int(costs[before<<4|c]); sum > room {
			return text[:runeStart(text, i)]
		}
		before = c
	}
	return text
}

// tailOf is the longest end of text that costs no more than room.
func tailOf(text string, room int) string {
	// No byte costs less than a tenth of a token, so the end is within that many bytes.
	from := max(len(text)-room/10-1, 0)
	at := from + sort.Search(len(text)-from, func(i int) bool { return cost(text[from+i:]) <= room })
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return text[at:]
}

// runeStart is where the character that text[i] is part of begins.
func runeStart(text string, i int) int {
	for j := i; j > max(i-utf8.UTFMax, 0); j-- {
		if utf8.RuneStart(text[j]) {
			return j
		}
	}
	return i
}
