package policy

import (
	"slices"
	"strings"
)

// matching takes the words of a command apart by a line of the table.
type matching struct {
	w     *walker
	entry *entry
	paths []pathWord // that it reads
	soft  string     // a word that is known only when it runs; what it may be is not on any list
	rest  []string   // the command that a wrapper runs
	given map[string]bool
	at    string // the folder it works in, if it was told
}

// unforeseen reports whether the command reads files that are known only when it runs. A sandbox keeps what it does
// within bounds, and knows nothing of the rules that speak of files.
func (m *matching) unforeseen() bool {
	return m.given["unforeseen"] || m.soft != "" && m.entry.reads() || slices.ContainsFunc(m.paths, func(p pathWord) bool { return unknown(p.word) })
}

// readingKinds are the kinds of words that name files to be read.
var readingKinds = []string{"path", "walk", "rev", "awkfile", "yq"}

// reads reports whether the command can be given files to read.
func (e *entry) reads() bool {
	return slices.ContainsFunc(e.operands, func(o operand) bool { return slices.Contains(readingKinds, o.kind) })
}

// pathWord is a word that names a path to be read.
type pathWord struct {
	word   string
	walk   bool // and all that is below it
	public bool // what is shown of it is not secret, whatever its name says
}

// structural are the kinds that decide how the words after them are read.
var structural = map[string]bool{"sub": true, "cmd": true}

// matched finds the line of the table that a command is on, word by word.
func (w *walker) matched(c *call) (*matching, bool) {
	words := append([]string{c.name}, c.args...)
	for _, e := range entriesFor(words) {
		if e.class == classReach && !w.tellsNothing(c) {
			continue
		}
		m := &matching{w: w, entry: e, given: map[string]bool{}}
		if m.match(words[strings.Count(e.key, " ")+1:]) {
			return m, true
		}
	}
	return nil, false
}

// match reports whether words are what the line says.
func (m *matching) match(args []string) bool {
	e := m.entry
	if e.free {
		return kinds[e.operands[0].kind](m, args)
	}
	var operands []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--" && !e.words:
			return m.operandsMatch(append(operands, args[i+1:]...))
		case !m.flagLike(a):
			if o := m.next(len(operands)); structural[o.kind] {
				return m.follows(o.kind, operands, args[i:])
			}
			operands = append(operands, a)
		default:
			used, ok := m.flag(a, args[i+1:])
			if !ok {
				return false
			}
			i += used
		}
	}
	return m.operandsMatch(operands)
}

// next is the operand that comes after some.
func (m *matching) next(n int) operand {
	for i, o := range m.entry.operands {
		if n == i || n > i && o.many {
			return o
		}
	}
	return operand{}
}

// follows judges a subcommand or a command in the words.
func (m *matching) follows(kind string, before, args []string) bool {
	for i, word := range before {
		if !m.is(m.entry.operands[min(i, len(m.entry.operands)-1)].kind, word) {
			return false
		}
	}
	if kind == "cmd" {
		m.rest = args
		return true
	}
	key := m.entry.key + " " + args[0]
	for _, e := range known()[key] {
		inner := *m
		inner.entry = e
		if e.class == m.entry.class && inner.match(args[1:]) {
			*m = inner
			return true
		}
	}
	return false
}

// flagLike reports whether a word is a flag. One that may turn out to be one is soft: its class is decided without it.
func (m *matching) flagLike(a string) bool {
	if m.w.maybeDash(a) {
		m.soften(a)
		return false
	}
	return len(a) > 1 && a[0] == '-'
}

func (m *matching) soften(word string) {
	if m.soft == "" {
		m.soft = readable(word)
	}
}

// flag takes a flag, and says how many of the words after it are its values.
func (m *matching) flag(a string, after []string) (used int, ok bool) {
	e := m.entry
	if e.numbers && strings.Trim(a[1:], "0123456789") == "" {
		return 0, true
	}
	name, val, attached := strings.Cut(a, "=")
	if strings.HasPrefix(a, "--") && !e.words || e.words && e.options["-"+strings.TrimLeft(name, "-")].known(e, name) {
		if e.words {
			name = "-" + strings.TrimLeft(name, "-")
		}
		o, found := e.options[name]
		if !found {
			return 0, false
		}
		return m.valued(name, o, val, attached, after)
	}
	for i := 1; i < len(a); i++ {
		name := "-" + a[i:i+1]
		o, found := e.options[name]
		switch {
		case !found:
			return 0, false
		case len(o.values) > 0:
			return m.valued(name, o, a[i+1:], i+1 < len(a), after)
		default:
			m.took(name, o)
		}
	}
	return 0, true
}

// known reports whether a word with one dash or two is a flag that is a whole name.
func (o option) known(e *entry, name string) bool {
	_, ok := e.options["-"+strings.TrimLeft(name, "-")]
	return ok
}

func (m *matching) took(name string, o option) {
	m.given[name] = true
	m.given["first"] = m.given["first"] || o.first
	m.given["walk"] = m.given["walk"] || o.walks
}

// valued takes the values of a flag.
func (m *matching) valued(name string, o option, val string, attached bool, after []string) (used int, ok bool) {
	m.took(name, o)
	switch {
	case len(o.values) == 0 || o.optional && !attached:
		return 0, !attached
	case attached:
		return 0, !o.apart && len(o.values) == 1 && m.is(o.values[0], val)
	}
	for i, kind := range o.values {
		if i >= len(after) || !m.is(kind, after[i]) {
			return 0, false
		}
	}
	return len(o.values), true
}

// is reports whether a word is of a kind.
func (m *matching) is(kind, word string) bool {
	if strings.ContainsRune(word, markWords) {
		m.soften(word)
	}
	return kinds[kind](m, []string{word})
}

// operandsMatch reports whether what is left are the operands that the line has.
func (m *matching) operandsMatch(words []string) bool {
	want := m.entry.operands
	if m.given["first"] && len(want) > 0 {
		want = want[1:]
	}
	for len(want) > 0 && len(words) > 0 {
		o := want[0]
		if !o.many {
			want = want[1:]
		}
		if structural[o.kind] || !m.is(o.kind, words[0]) {
			return false
		}
		words = words[1:]
	}
	if len(words) > 0 {
		return false
	}
	if slices.ContainsFunc(want, func(o operand) bool { return !o.many && !o.optional }) && m.soft == "" {
		return false
	}
	if walks := m.given["walk"] || len(want) > 0 && want[0].kind == "walk"; walks && len(m.paths) == 0 {
		m.paths = append(m.paths, pathWord{word: ".", walk: true})
	}
	return m.whole()
}

// whole judges what no word by itself tells.
func (m *matching) whole() bool {
	if rule := wholes[m.entry.key]; rule != nil {
		return rule(m)
	}
	return true
}
