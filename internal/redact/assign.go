package redact

import (
	"bytes"
	"slices"
	"strings"
)

// assignments are names of secrets that are followed by a value: password=…, "api_key": "…", --token ….
var assignments = func() (out []shape) {
	for _, name := range secretNames {
		out = append(out, shape{hints: spellings(name.words), read: name.read})
	}
	return out
}()

// secretName is a name whose value is a secret. Of words a password may be short; a token is long.
type secretName struct {
	words    string
	shortest int
}

var secretNames = []secretName{
	{"password", 7}, {"passwd", 7}, {"passphrase", 7}, {"pwd", 7},
	{"secret", 8}, {"token", 8}, {"api key", 8}, {"access key", 8}, {"private key", 8}, {"secret key", 8}, {"secret key base", 8}, {"credential", 8},
}

// notSecret are words before a name that make it something else.
var notSecret = []string{"page", "next", "cancellation", "continuation", "sync", "csrf", "design", "stop"}

// spellings are the ways to write a name: api_key, API_KEY, api-key, Api-Key, apikey, apiKey, ApiKey.
func spellings(name string) (out []string) {
	words := strings.Fields(name)
	titled := make([]string, len(words))
	for i, w := range words {
		titled[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	for _, by := range []string{"_", "-", ""} {
		plain := strings.Join(words, by)
		out = append(out, plain, strings.ToUpper(plain), strings.Join(titled, by), words[0]+by+strings.Join(titled[1:], by))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// read is the secret that a name is given, if it looks like one and not like code that fetches it.
func (n secretName) read(b []byte, from, end int) (span, bool) {
	before := bytes.ToLower(bytes.TrimRight(b[max(0, from-16):from], "_-"))
	for _, w := range notSecret {
		if bytes.HasSuffix(before, []byte(w)) {
			return span{}, false
		}
	}
	at, ok := sign(b, end)
	if !ok {
		if at, ok = flagValue(b, from, end); !ok {
			return span{}, false
		}
	}
	s, quoted := value(b, at)
	v := b[s.from:s.to]
	if len(v) < n.shortest || !quoted && s.to < len(b) && b[s.to] == '(' || !secretive(v, quoted) {
		return span{}, false
	}
	return s, true
}

// sign is where the value of a name that ends at a place begins: after =, :, := or =>, with the quote that ends the name
// and spaces around.
func sign(b []byte, at int) (int, bool) {
	skip := func(any string) {
		for at < len(b) && strings.IndexByte(any, b[at]) >= 0 {
			at++
		}
	}
	if at < len(b) && b[at] == '\\' {
		at++ // of a quote in a JSON string
	}
	if at < len(b) && (b[at] == '"' || b[at] == '\'') {
		at++
	}
	skip(" \t")
	was := at
	skip(":=")
	if at-was == 0 || at-was > 2 || bytes.Equal(b[was:at], []byte("==")) || bytes.Equal(b[was:at], []byte("::")) {
		return 0, false
	}
	if at < len(b) && b[at] == '>' {
		at++
	}
	skip(" \t")
	return at, true
}

// flagValue is where the value of --name begins.
func flagValue(b []byte, from, end int) (int, bool) {
	word := from
	for word > 0 && wordByte(b[word-1]) {
		word--
	}
	return end + 1, bytes.HasPrefix(b[word:], []byte("--")) && end+1 < len(b) && b[end] == ' ' && b[end+1] != '-'
}

// value is the word or the quoted string that begins at a place.
func value(b []byte, at int) (s span, quoted bool) {
	if at < len(b) && b[at] == '\\' {
		at++
	}
	if at < len(b) && (b[at] == '"' || b[at] == '\'' || b[at] == '`') {
		if n := bytes.IndexAny(b[at+1:], string(b[at])+"\n"); n >= 0 && b[at+1+n] == b[at] {
			to := at + 1 + n
			if to > at+1 && b[to-1] == '\\' {
				to--
			}
			return span{at + 1, to}, true
		}
		return span{at, at}, false
	}
	to := at
	for to < len(b) && strings.IndexByte(" \t\r\n\"'`;,&|()[]{}<>\\", b[to]) < 0 {
		to++
	}
	return span{at, to}, false
}

// secretive reports whether a value looks made up and not like a word, a name, a place or a reference to one.
func secretive(v []byte, quoted bool) bool {
	if strings.IndexByte("$%<{[/.!*~@#", v[0]) >= 0 || bytes.Contains(v, []byte("://")) || bytes.ContainsAny(v, " \t${}<>") {
		return false
	}
	var lower, upper, digit, other int
	for _, c := range v {
		switch {
		case 'a' <= c && c <= 'z':
			lower++
		case 'A' <= c && c <= 'Z':
			upper++
		case '0' <= c && c <= '9':
			digit++
		default:
			other++
		}
	}
	switch {
	case lower+upper == 0: // a number, a date, a row of signs
		return false
	case lower == 0 && bytes.IndexByte(v, '_') >= 0: // the name of a variable
		return false
	case !quoted && names(v): // code
		return false
	case digit > 0:
		return true
	}
	return lower > 0 && upper > 1 && len(v) >= 20 || other > 0 && bytes.ContainsAny(v, "!@#^*+=?") && lower+upper > 3
}

// names reports whether a value is a chain of names, like user.password or config->token, of which none looks made up.
func names(v []byte) bool {
	if !bytes.ContainsAny(v, ".:") && !bytes.Contains(v, []byte("->")) {
		return false
	}
	for part := range bytes.FieldsFuncSeq(v, func(r rune) bool { return strings.ContainsRune(".:->", r) }) {
		if len(part) > 20 || '0' <= part[0] && part[0] <= '9' {
			return false
		}
	}
	return true
}
