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

// secretName is a name whose value is a secret. People choose passwords, which may be short and words; a token is long and made up.
type secretName struct {
	words    string
	shortest int
	chosen   bool
}

var secretNames = []secretName{
	{"password", 7, true}, {"passwd", 7, true}, {"passphrase", 7, true}, {"pwd", 7, false},
	{"secret", 8, false}, {"token", 8, false}, {"api key", 8, false}, {"access key", 8, false}, {"private key", 8, false}, {"secret key", 8, false}, {"secret key base", 8, false}, {"credential", 8, false},
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
	g, ok := givenAt(b, from, end)
	if !ok {
		return netrc(b, from, end)
	}
	if g.s, g.quoted = value(b, g.at); g.to(b) == '(' && !g.quoted || !n.takes(g, b) {
		return span{}, false
	}
	if n.chosen && g.plain && !g.tag && !g.quoted && ofLine(b, from) {
		g.s.to = wholeWord(b, g.s.to)
	}
	return g.s, true
}

// ofLine reports whether a name begins a line or a word of it, as in a file of settings; in the query of an address it comes after ? or &.
func ofLine(b []byte, from int) bool {
	word := wordStart(b, from)
	return word == 0 || strings.IndexByte(" \t\n\r", b[word-1]) >= 0
}

// wholeWord goes on over signs that part words for a shell and may be in a password, where no space follows them.
func wholeWord(b []byte, at int) int {
	for at+1 < len(b) && strings.IndexByte("&;|,()", b[at]) >= 0 && strings.IndexByte(" \t\r\n\"'`", b[at+1]) < 0 {
		for at++; at < len(b) && strings.IndexByte(" \t\r\n\"'`;,&|()[]{}<>\\", b[at]) < 0; at++ {
		}
	}
	return at
}

// given is a value that a name is given.
type given struct {
	at     int // where it begins
	s      span
	quoted bool
	// plain says that it stands where programs have no names of others: NAME=value of a shell or a file of settings, or between tags.
	plain bool
	tag   bool // between tags
}

// to is the byte after the value, or 0.
func (g given) to(b []byte) byte {
	if g.s.to < len(b) {
		return b[g.s.to]
	}
	return 0
}

// givenAt is where the value of a name begins: after a sign, as that of a flag, or between tags.
func givenAt(b []byte, from, end int) (given, bool) {
	if at, ok := sign(b, end); ok {
		return given{at: at, plain: at == end+1 && b[end] == '=' && alone(b, from)}, true
	}
	if at, ok := flagValue(b, from, end); ok {
		return given{at: at, plain: true}, true
	}
	word := wordStart(b, from)
	return given{at: end + 1, plain: true, tag: true}, end < len(b) && b[end] == '>' && word > 0 && b[word-1] == '<'
}

// alone reports whether the name that ends before a place begins a line or a word of one, and is no argument of a call.
func alone(b []byte, from int) bool {
	word := wordStart(b, from)
	return word == 0 || strings.IndexByte(" \t\n\r\"'`?&;", b[word-1]) >= 0
}

// wordStart is where the word begins that a place is in, with what is joined to it by dots.
func wordStart(b []byte, at int) int {
	for at > 0 && (wordByte(b[at-1]) || b[at-1] == '.') {
		at--
	}
	return at
}

// takes reports whether a value is a secret.
func (n secretName) takes(g given, b []byte) bool {
	v := b[g.s.from:g.s.to]
	switch {
	case g.tag && !bytes.HasPrefix(b[g.s.to:], []byte("</")), len(v) == 0, reference(v), stand(v):
		return false
	case n.chosen && g.plain && chosen(v, g.to(b)):
		return true
	case n.chosen && len(v) >= 6 && number(v):
		return true
	}
	return len(v) >= n.shortest && (secretive(v, g.quoted) || jumbled(v))
}

// netrc is the password of a line or a paragraph like "machine x login y password z".
func netrc(b []byte, from, end int) (span, bool) {
	if end >= len(b) || b[end] != ' ' && b[end] != '\t' || from == 0 || wordByte(b[from-1]) {
		return span{}, false
	}
	words := bytes.Fields(b[max(0, from-netrcReach):from])
	n := len(words)
	if n < 3 || string(words[n-2]) != "login" || string(words[n-3]) != "default" && (n < 4 || string(words[n-4]) != "machine") {
		return span{}, false
	}
	s := span{end + 1, end + 1}
	for s.to < len(b) && strings.IndexByte(" \t\r\n", b[s.to]) < 0 {
		s.to++
	}
	return s, s.to > s.from && !stand(b[s.from:s.to])
}

// netrcReach is how far before a password its machine may be.
const netrcReach = 300

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
	word := wordStart(b, from)
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

// reference reports whether a value is a place, a pattern or something that is put in later.
func reference(v []byte) bool {
	return strings.IndexByte("$%<{[/.!*~@#", v[0]) >= 0 || bytes.Contains(v, []byte("://")) || bytes.ContainsAny(v, " \t${}<>")
}

// standIns are what people write where a secret would stand, and values that mean that there is none.
var standIns = strings.Fields(`none null nil true false undefined empty default string str text bytes byte char varchar value secret password passwd passphrase pass pwd token
	key hash required optional invalid hidden redacted masked changeme change_me example sample dummy placeholder todo prompt stdin file
	plain plaintext basic login input field label error never always hunter sha256 sha512 sha384 base64 bcrypt argon2 scrypt`)

// stand reports whether a value stands in for a secret.
func stand(v []byte) bool {
	low := strings.ToLower(string(v))
	if slices.Contains(standIns, strings.Trim(low, ".:!?")) || strings.Trim(low, "x") == "" || strings.Trim(low, "*.-_") == "" {
		return true
	}
	return slices.ContainsFunc([]string{"your", "changeme", "placeholder", "xxxx"}, func(part string) bool { return strings.Contains(low, part) })
}

// chosen reports whether a value may be a password that somebody chose: a word or more, without what tells a name of code. after is the
// byte that follows it.
func chosen(v []byte, after byte) bool {
	if len(v) < 5 || strings.IndexByte(",)([:", after) >= 0 && after != 0 {
		return false
	}
	letters, digits, upper := 0, 0, 0
	for _, c := range v {
		switch {
		case '0' <= c && c <= '9':
			digits++
		case 'A' <= c && c <= 'Z':
			upper++
			letters++
		case 'a' <= c && c <= 'z':
			letters++
		default:
			return false // secretive knows more of those
		}
	}
	return digits > 0 && letters > 0 && len(v) >= 6 || digits == 0 && (upper == 0 || upper == letters || upper == 1 && v[0] < 'a')
}

func number(v []byte) bool { return len(bytes.Trim(v, "0123456789")) == 0 }

// jumbled reports whether a row of letters is no word and no name of several: it changes between small and capital letters every two or three
// letters, has many letters that are rare, or hardly a vowel.
func jumbled(v []byte) bool {
	parts, rare, row, longest := 1, 0, 0, 0
	for i, c := range v {
		low := c | 0x20
		if low < 'a' || low > 'z' {
			return false
		}
		if i > 0 && c < 'a' && v[i-1] >= 'a' {
			parts++
		}
		if strings.IndexByte("jqxzv", low) >= 0 {
			rare++
		}
		if row++; strings.IndexByte("aeiouy", low) >= 0 {
			row = 0
		}
		longest = max(longest, row)
	}
	return len(v) >= 8 && (parts >= 4 && len(v) < 3*parts || longest >= 6 || rare >= 3 && 4*rare >= len(v))
}

// secretive reports whether a value looks made up and not like a word or a name.
func secretive(v []byte, quoted bool) bool {
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
