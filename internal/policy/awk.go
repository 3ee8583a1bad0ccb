package policy

import (
	"regexp"
	"slices"
	"strings"
)

// awkRuns are the ways of a program of awk to run a command or to read what it is not given, wherever they
// stand: strings and comments are not told apart from the rest here. An @ calls a function by a name that
// is put together; by ARGV it reads files that the command does not name.
var awkRuns = regexp.MustCompile(`\bsystem\b|\bgetline\b|@|ENVIRON|\bARG[VC]\b|\bPROCINFO\b|\bSYMTAB\b|\bFUNCTAB\b`)

// awk judges a program of awk that is not known to look: it is asked about, and its strings may be commands.
func awk(w *walker, c *call) bool {
	w.r.add(Ask, askRuns, "The program of %s may run commands or write files.", c.name)
	for _, a := range c.args {
		w.mentions(a)
		for _, q := range quotedIn(a) {
			w.nested(c, func() { w.inner(func() { w.sourceIfCommand(q) }) })
		}
	}
	w.judgeArgs(*c)
	return false
}

// awkWrites reports whether a program of awk may write a file or run a command by a pipe: a > that belongs to a print, outside of
// brackets, or a single |. In patterns and strings they are text, and everywhere else a > compares. What cannot be read for sure counts as
// writing.
func awkWrites(prog string) bool {
	pipes := strings.Contains(strings.ReplaceAll(prog, "||", ""), "|")
	if !pipes && !(strings.Contains(prog, ">") && strings.Contains(prog, "print")) {
		return false
	}
	s := awkScanner{rest: prog}
	depth, printing := 0, -1 // printing: the depth of the print that is being read
	for {
		tok := s.next()
		switch tok {
		case "":
			return s.unsure
		case "print", "printf":
			printing = depth
		case "(", "[":
			depth++
		case ")", "]":
			depth--
		case ";", "}":
			printing = -1
		case "|":
			if !strings.HasPrefix(s.rest, "|") {
				return true
			}
			s.rest = s.rest[1:]
		case ">":
			if printing >= 0 && depth <= printing {
				return true
			}
		}
	}
}

// awkScanner takes a program of awk apart as far as that is needed to know what is text and what is not.
type awkScanner struct {
	rest   string
	last   string // the token before
	unsure bool
}

// awkBeforePattern are words after which a slash begins a pattern. After other words it divides.
var awkBeforePattern = []string{"print", "printf", "return", "in", "else", "do", "exit", "case"}

var (
	awkText    = regexp.MustCompile(`^"(?:[^"\\\n]|\\[^\n])*"`)
	awkPattern = regexp.MustCompile(`^/(?:[^/\\\n\[]|\\[^\n])+/`)
	awkWord    = regexp.MustCompile(`^(?:[A-Za-z_][A-Za-z0-9_]*|[0-9][0-9A-Za-z.]*|\.[0-9]+)`)
)

// next is the next token: a word, a sign, or "text" for a string or pattern. It is empty at the end and where
// the scanner is no longer sure.
func (s *awkScanner) next() string {
	s.rest = strings.TrimLeft(s.rest, " \t")
	if s.rest == "" || s.unsure {
		return ""
	}
	take := func(n int, tok string) string {
		s.rest, s.last = s.rest[n:], tok
		return tok
	}
	switch c := s.rest[0]; {
	case c == '#':
		end := strings.IndexByte(s.rest, '\n')
		if end < 0 {
			end = len(s.rest)
		}
		s.rest = s.rest[end:]
		return s.next()
	case c == '"':
		if m := awkText.FindString(s.rest); m != "" {
			return take(len(m), "text")
		}
	case c == '/' && s.divides():
		return take(1, "/")
	case c == '/' && s.begins():
		if m := awkPattern.FindString(s.rest); m != "" {
			return take(len(m), "text")
		}
	case c == '/' || c == '\\' || c == '\'' || c == '`' || c > '~':
	default:
		if m := awkWord.FindString(s.rest); m != "" {
			return take(len(m), m)
		}
		return take(1, s.rest[:1])
	}
	s.unsure = true
	return ""
}

// divides reports whether a slash here surely divides.
func (s *awkScanner) divides() bool {
	return s.last == "text" || s.last == "]" || awkWord.MatchString(s.last) && !slices.Contains(awkBeforePattern, s.last) && s.last != "length"
}

// begins reports whether a slash here surely begins a pattern. After a closing bracket, after ++ and after
// length, which needs no brackets, it may do either.
func (s *awkScanner) begins() bool {
	return s.last == "" || slices.Contains(awkBeforePattern, s.last) || strings.Contains("{};,(!~&|\n=<>?:", s.last)
}
