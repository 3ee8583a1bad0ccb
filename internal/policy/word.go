package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// A resolved word is a string. What is known only when the command runs is kept in it as a mark: control
// characters, which a command that is judged at all cannot contain.
const (
	markValue  = '\x00' // some text within this word: "$x"
	markWords  = '\x01' // some text that may be several words, or none: $x
	markMany   = '\x02' // any text within one part of a path: *
	markOne    = '\x03' // one character within one part of a path: ?
	markNumber = '\x05' // before markValue: that text is a number
	markBelow  = '\x04' // any path below the folder before it, found by walking: find's {}
)

// unknown reports whether the word holds text that cannot be foreseen at all.
func unknown(word string) bool { return strings.ContainsAny(word, "\x00\x01") }

// globbed reports whether the word stands for names that exist when it runs.
func globbed(word string) bool { return strings.ContainsAny(word, "\x02\x03\x04") }

// certain reports whether the word is exactly what the command will get.
func certain(word string) bool { return !unknown(word) && !globbed(word) }

// readable replaces the marks by what a person would write.
func readable(word string) string { return asWritten.Replace(word) }

var asWritten = strings.NewReplacer("\x00", "$…", "\x01", "$…", "\x02", "*", "\x03", "?", "\x04", "**", "\x05", "")

// hidden reports whether source contains characters that are used as marks, or that a terminal does not
// show as they are.
func hidden(source string) bool {
	return strings.ContainsFunc(source, func(r rune) bool {
		switch {
		case r == '\n' || r == '\t':
			return false
		case r < ' ' || r == 0x7f || r == '\uFFFD':
			return true
		case r >= 0x80 && r <= 0x9f, r == 0xad, r == 0x34f, r == 0x61c, r == 0x180e, r == 0xfeff:
			return true
		case r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f:
			return true
		case r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0000 && r <= 0xe0fff, r == 0x3164, r == 0x115f, r == 0x1160:
			return true
		}
		return false
	})
}

const maxWords = 256 // that one word may become

// fields expands a word as the shell would: braces, tilde, variables, splitting.
func (w *walker) fields(word *syntax.Word) []string {
	var out []string
	copied := &syntax.Word{Parts: slices.Clone(word.Parts)}
	if !syntax.SplitBraces(copied) {
		return w.expand(copied)
	}
	for one, err := range expand.BracesSeq(nil, copied) {
		if err != nil || len(out) >= maxWords || !w.left.take(wordCost+16*len(one.Parts)) {
			return []string{string(markWords)}
		}
		out = append(out, w.expand(one)...)
	}
	return out
}

// value expands a word that stays one word: an assignment, the target of a redirection, a here-document.
func (w *walker) value(word *syntax.Word) string {
	if word == nil {
		return ""
	}
	b := builder{left: w.left, quotedAll: true}
	w.parts(&b, word.Parts, false)
	return b.joined()
}

// expand expands a word without braces.
func (w *walker) expand(word *syntax.Word) []string {
	b := builder{left: w.left, odd: w.oddIFS}
	w.parts(&b, word.Parts, false)
	return b.done()
}

// builder puts fields together.
type builder struct {
	left      *budget
	fields    []string
	cur       strings.Builder
	open      bool // there is a field, even if it is empty
	long      bool // the field is too long to be followed
	quotedAll bool // nothing is split
	odd       bool // IFS is not the usual one: an unquoted value may split anywhere
}

func (b *builder) add(s string) {
	b.open = true
	switch {
	case b.long:
	case b.cur.Len()+len(s) > maxValue || !b.left.take(len(s)):
		b.cur.Reset()
		b.cur.WriteByte(markWords) // it may be anything
		b.long = true
	default:
		b.cur.WriteString(s)
	}
}

func (b *builder) end() {
	if b.open && (b.left.take(wordCost) || len(b.fields) == 0) {
		b.fields = append(b.fields, b.cur.String())
	}
	b.cur.Reset()
	b.open, b.long = false, false
}

// spread adds the value of an unquoted expansion, which the shell splits at blanks.
func (b *builder) spread(s string) {
	switch {
	case b.quotedAll:
		b.add(s)
		return
	case b.odd && s != "", b.left.spent():
		b.add(string(markWords))
		return
	}
	for i, part := range strings.FieldsFunc(" "+s+" ", func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' }) {
		if i > 0 || strings.HasPrefix(s, " ") || strings.HasPrefix(s, "\t") || strings.HasPrefix(s, "\n") {
			b.end()
		}
		b.add(globMarks(part))
	}
	if s != "" && strings.ContainsAny(s[len(s)-1:], " \t\n") {
		b.end()
	}
}

func (b *builder) done() []string {
	b.end()
	return b.fields
}

func (b *builder) joined() string { return strings.Join(b.done(), " ") }

// globMarks turns the glob characters of an unquoted value into marks.
func globMarks(s string) string {
	if !strings.ContainsAny(s, "*?[") {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '*':
			out.WriteByte(markMany)
		case '?':
			out.WriteByte(markOne)
		case '[':
			if end := strings.IndexByte(s[i:], ']'); end > 1 {
				out.WriteByte(markOne)
				i += end
				continue
			}
			out.WriteByte(c)
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

func (w *walker) parts(b *builder, parts []syntax.WordPart, quoted bool) {
	for i, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			w.literal(b, p.Value, quoted, i == 0 && !quoted && len(b.fields) == 0 && !b.open)
		case *syntax.SglQuoted:
			b.add(single(p))
		case *syntax.DblQuoted:
			b.add("")
			w.parts(b, p.Parts, true)
		case *syntax.ParamExp:
			w.param(b, p, quoted)
		case *syntax.CmdSubst:
			w.inner(func() { w.stmts(p.Stmts) })
			b.mark(quoted)
		case *syntax.ProcSubst:
			w.inner(func() { w.stmts(p.Stmts) })
			b.add("/dev/fd/63") // a pipe; what goes through it is judged by its own commands
		case *syntax.ArithmExp:
			w.arithm(p.X)
			b.add(someNumber)
		case *syntax.ExtGlob:
			b.add(string(markMany))
		default:
			b.mark(quoted)
		}
	}
}

// mark adds text that is not known.
func (b *builder) mark(quoted bool) {
	if quoted || b.quotedAll {
		b.add(string(markValue))
		return
	}
	b.add(string(markWords))
}

// single is the text of a single-quoted string, with the escapes of $'…' undone.
func single(q *syntax.SglQuoted) string {
	if !q.Dollar {
		return q.Value
	}
	text, _, err := expand.Format(nil, q.Value, nil)
	if err != nil || hidden(text) {
		return string(markValue)
	}
	return text
}

// literal adds unquoted or double-quoted text: backslashes are undone, globs become marks.
func (w *walker) literal(b *builder, s string, quoted, first bool) {
	if first && strings.HasPrefix(s, "~") {
		user, rest, slash := strings.Cut(s[1:], "/")
		if slash {
			rest = "/" + rest
		}
		if home, ok := w.homeOf(user); ok {
			b.add(home)
			s = rest
		}
	}
	var out strings.Builder
	glob := !quoted && !b.quotedAll
	plain := s
	for i := 0; i < len(plain); i++ {
		c := plain[i]
		switch {
		case c == '\\' && i+1 < len(plain) && (!quoted || strings.IndexByte("$`\"\\\n", plain[i+1]) >= 0):
			i++
			if plain[i] != '\n' {
				out.WriteByte(plain[i])
			}
		case glob && c == '*':
			out.WriteByte(markMany)
		case glob && c == '?':
			out.WriteByte(markOne)
		case glob && c == '[':
			if end := strings.IndexByte(plain[i:], ']'); end > 1 {
				out.WriteByte(markOne)
				i += end
				continue
			}
			if i+1 < len(plain) { // the bracket may close in a later part of the word
				out.WriteByte(markMany)
				continue
			}
			out.WriteByte(c)
		default:
			out.WriteByte(c)
		}
	}
	b.add(out.String())
}

// homeOf is the home folder that a tilde stands for.
func (w *walker) homeOf(user string) (string, bool) {
	switch {
	case strings.ContainsAny(user, "\\*?[$"):
		return "", false
	case user == "":
		home, ok := w.vars["HOME"]
		if !ok || unknown(home) {
			return string(markValue), true
		}
		return home, true
	case user == "+":
		if len(w.dirs) > 1 {
			return string(markValue), true
		}
		return w.dirs[0], true
	case user == "-":
		return string(markValue), true
	case user == "root":
		return "/root", true
	}
	return "/home/" + user, true
}

// param adds the value of a variable.
func (w *walker) param(b *builder, p *syntax.ParamExp, quoted bool) {
	if p.Exp != nil && p.Exp.Word != nil {
		defer w.value(p.Exp.Word) // commands in it run, too
	}
	if p.Repl != nil {
		w.value(p.Repl.Orig)
		w.value(p.Repl.With)
	}
	if p.Index != nil {
		w.subscript(p.Index)
	}
	if p.Slice != nil {
		w.arithm(p.Slice.Offset)
		w.arithm(p.Slice.Length)
	}
	if p.Exp != nil && p.Exp.Op == syntax.OtherParamOps && p.Param != nil {
		w.evaluates("an expansion", p.Param.Value)
	}
	if p.Excl && p.Param != nil && p.Names == 0 && p.Index == nil && !isName(w.vars[p.Param.Value]) {
		w.evaluates("an indirect expansion", p.Param.Value)
	}
	if p.Length && p.Param != nil || p.Param != nil && slices.Contains([]string{"?", "#", "$"}, p.Param.Value) && p.Exp == nil && p.Slice == nil && p.Repl == nil && !p.Excl {
		b.add(someNumber)
		return
	}
	if p.Exp != nil && (p.Exp.Op == syntax.ErrorUnset || p.Exp.Op == syntax.ErrorUnsetOrNull) {
		w.r.chosen = true // the shell ends here if there is no value
	}
	odd := p.Excl || p.Length || p.Width || p.IsSet || p.NestedParam != nil || p.Index != nil || p.Slice != nil ||
		p.Repl != nil || p.Names != 0 || p.Param == nil || len(p.Modifiers) > 0
	if odd {
		b.mark(quoted)
		return
	}
	val, ok := w.vars[p.Param.Value]
	if p.Exp != nil && (p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull) && !ok {
		w.lose(p.Param.Value)
	}
	if p.Exp != nil {
		val, ok = w.expansion(p.Exp, val, ok)
	}
	switch {
	case !ok:
		b.mark(quoted)
	case quoted:
		b.add(val)
	default:
		b.spread(val)
	}
}

// expansion knows ${x:-word} and its kin of a variable that is known; the rest is not known.
func (w *walker) expansion(e *syntax.Expansion, val string, ok bool) (string, bool) {
	if !ok || unknown(val) {
		return "", false
	}
	switch e.Op {
	case syntax.DefaultUnset, syntax.AssignUnset, syntax.ErrorUnset:
		return val, true
	case syntax.DefaultUnsetOrNull, syntax.AssignUnsetOrNull, syntax.ErrorUnsetOrNull:
		return val, val != ""
	}
	return "", false
}
