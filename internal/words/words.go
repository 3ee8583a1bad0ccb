// Package words cuts text into the words it is searched by, the same way everywhere: learnings and
// skills are found by them.
//
// Text is Unicode; code counts as text: parseConfigFile, parse_config_file and internal/parse/config.go
// are found by "parse" and "config", and the two spellings of the name by each other. Scripts written
// without spaces are cut into pairs of characters. A token cut again gives itself.
package words

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxToken is the longest token, in bytes; what is longer is a checksum or noise, and is left out.
const maxToken = 64

// Token is one word of a text and where it stands, in bytes.
type Token struct {
	Text       string // lower case, without a plural's ending
	Start, End int
	// Whole marks a compound name as one word. It stands at the same place as its parts.
	Whole bool
}

// Each calls yield for every token of text in order, until yield returns false.
func Each(text string, yield func(Token) bool) {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		if !joins(r) || r == '_' {
			at += size
			continue
		}
		end := at
		for end < len(text) {
			r, size := utf8.DecodeRuneInString(text[end:])
			if !joins(r) {
				break
			}
			end += size
		}
		if !run(text, at, end, yield) {
			return
		}
		at = end
	}
}

// joins reports whether r may stand inside a name.
func joins(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.M, r)
}

// unspaced reports whether r belongs to a script that puts no spaces between words.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// run yields the tokens of text[from:to], which is one name.
func run(text string, from, to int, yield func(Token) bool) bool {
	parts := split(text, from, to)
	if len(parts) > 1 && to-from <= 2*maxToken {
		var whole strings.Builder
		spaced := true
		for _, p := range parts {
			whole.WriteString(text[p.from:p.to])
			spaced = spaced && !p.unspaced
		}
		if spaced && !emit(whole.String(), from, to, true, yield) {
			return false
		}
	}
	for _, p := range parts {
		if p.unspaced {
			if !pairs(text, p.from, p.to, yield) {
				return false
			}
		} else if !emit(text[p.from:p.to], p.from, p.to, false, yield) {
			return false
		}
	}
	return true
}

type part struct {
	from, to int
	unspaced bool
}

// split cuts a name where its case changes (fooBar, HTTPServer), at underscores, and where the script
// begins or ceases to use spaces.
func split(text string, from, to int) []part {
	var parts []part
	start := from
	cut := func(at int, un bool) {
		if at > start {
			parts = append(parts, part{start, at, un})
		}
		start = at
	}
	var before rune // the one before this
	for i, r := range text[from:to] {
		at := from + i
		next := rune(0)
		if after := at + utf8.RuneLen(r); after < to && utf8.RuneLen(r) > 0 {
			next, _ = utf8.DecodeRuneInString(text[after:to])
		}
		switch {
		case r == '_':
			cut(at, unspaced(before))
			start = at + 1
		case before == 0 || before == '_':
		case unicode.Is(unicode.M, r):
			continue // a mark belongs to the letter before it
		case unspaced(r) != unspaced(before):
			cut(at, unspaced(before))
		case unicode.IsUpper(r) && !unicode.IsUpper(before),
			unicode.IsUpper(r) && unicode.IsUpper(before) && unicode.IsLower(next):
			cut(at, false)
		}
		before = r
	}
	cut(to, unspaced(before))
	return parts
}

// pairs yields each two neighbouring characters, or the one there is.
func pairs(text string, from, to int, yield func(Token) bool) bool {
	var starts []int
	for i := range text[from:to] {
		starts = append(starts, from+i)
	}
	starts = append(starts, to)
	if len(starts) == 2 {
		return emit(text[from:to], from, to, false, yield)
	}
	for i := 0; i+2 < len(starts); i++ {
		if !emit(text[starts[i]:starts[i+2]], starts[i], starts[i+2], false, yield) {
			return false
		}
	}
	return true
}

func emit(word string, start, end int, whole bool, yield func(Token) bool) bool {
	if word = stem(fold(word)); word == "" || len(word) > maxToken {
		return true
	}
	return yield(Token{word, start, end, whole})
}

// fold is word in the one case that every spelling of it has in common.
func fold(word string) string {
	if isLower(word) {
		return word
	}
	return strings.Map(func(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }, word)
}

func isLower(word string) bool {
	for i := range len(word) {
		if c := word[i]; c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			return false
		}
	}
	return true
}

// stem takes an English plural's ending off, so that "parser expects" finds "parsers expect".
func stem(w string) string {
	if len(w) < 4 || w[len(w)-1] != 's' || !isLower(w) {
		return w
	}
	for _, end := range []string{"sses", "xes", "ches", "shes"} {
		if strings.HasSuffix(w, end) {
			return w[:len(w)-2]
		}
	}
	switch {
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		return w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
		return w
	}
	return w[:len(w)-1]
}

// Terms are the distinct tokens of text that say something, in the order they first appear, at most max.
func Terms(text string, max int) []string {
	var terms []string
	seen := map[string]bool{}
	Each(text, func(t Token) bool {
		if !seen[t.Text] && !stop[t.Text] && (len(t.Text) > 1 || t.Text[0] >= utf8.RuneSelf) {
			seen[t.Text] = true
			terms = append(terms, t.Text)
		}
		return len(terms) < max
	})
	return terms
}

// Set is the terms of text, sorted.
func Set(text string, max int) []string {
	terms := Terms(text, max)
	slices.Sort(terms)
	return terms
}

// Shared counts what two sets have in common.
func Shared(a, b []string) int {
	n := 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch strings.Compare(a[i], b[j]) {
		case -1:
			i++
		case 1:
			j++
		default:
			n, i, j = n+1, i+1, j+1
		}
	}
	return n
}

// stop are the words that say nothing about what a text is about, as they look after stem.
var stop = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`a about after all also an and any are as at be been before but by can could did do
		does doing done for from get got had has have how if in into is it its itself just let make me more must my no
		not now of on only or other our out over please should so some such task than that the their them then there
		these they this those to too up use used using very was we were what when where which while who why will with
		would yes you your i he she his her us don t s re ve ll`) {
		m[stem(w)] = true
	}
	return m
}()
