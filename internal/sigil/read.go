package sigil

import "strings"

// tag is one tag of a sigil outside of code.
type tag struct {
	name       string
	start, end int // in bytes of the text
	closing    bool
	empty      bool // it closes itself
	broken     bool // it begins like a tag and does not end like one
	attrs      map[string]string
	mate       int // the index of the tag that closes it, or -1
}

// reader finds the tags of a text. It goes by lines, because code blocks do; what lies between blank lines and code
// blocks is a paragraph, beyond which neither inline code nor a tag reaches.
type reader struct {
	text   string
	tags   []tag
	hidden bool // a code block that never ends hides tags
	shoved bool // so does one that is one by its indent alone
	looked int  // bytes that were looked at: tests prove by it that the work is bounded
}

func (r *reader) read() {
	var fence string // that the present code block ends with
	opened := 0      // where the code block began
	from := 0        // where the present paragraph began
	var above lines
	for at := 0; at < len(r.text); {
		end := r.lineEnd(at)
		line := r.text[at:end]
		r.looked += len(line)
		mark, rest := fenceOf(line)
		was := above.code
		if fence == "" {
			above.see(line)
		}
		if was && !above.code || above.code && !was {
			r.part(from, at, was)
			from = at
		}
		switch {
		case fence != "":
			if closes(fence, mark, rest) {
				fence = ""
				from = end - len(rest) // a closing tag may stand behind
			}
		case opens(mark, rest):
			r.part(from, at, above.code)
			fence, opened, above = mark, at, lines{list: above.list}
		case above.blank:
			r.part(from, at, above.code)
			from = end
		}
		at = end
	}
	if fence == "" {
		r.part(from, len(r.text), above.code)
		return
	}
	for i := opened; i < len(r.text) && !r.hidden; i++ {
		r.looked++
		_, _, r.hidden = nameAt(r.text[i:])
	}
}

// lines is what matters of the lines that were read for what the next one is.
type lines struct {
	blank bool // the last one is
	list  bool // they are of a list, where an indent makes no code
	code  bool // they are code, because they are indented and stand behind a blank line
}

func (l *lines) see(line string) {
	text := strings.TrimLeft(line, " \t>")
	deep := strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")
	blank := strings.TrimSpace(line) == ""
	switch {
	case blank:
	case withoutBullet(text) != text && !l.code && !deep:
		l.list = true
	case l.blank && line[0] != ' ' && line[0] != '\t':
		l.list = false
	}
	if !blank {
		l.code = deep && !l.list && (l.code || l.blank)
	}
	l.blank = blank
}

// part finds the tags of a part of the text, which may be code by its indent. Of that the tags are left that close what was
// opened before it: agents put them behind the last line of a block.
func (r *reader) part(from, to int, code bool) {
	before := len(r.tags)
	r.paragraph(from, to)
	if !code {
		return
	}
	block := r.tags[before:]
	match(block)
	closed := map[int]bool{}
	for i, t := range block {
		if t.mate >= 0 {
			closed[t.mate] = true
		}
		r.shoved = r.shoved || !t.closing && !t.broken
		if block[i].mate = -1; t.closing && !t.broken && !closed[i] {
			r.tags[before] = t
			before++
		}
	}
	r.tags = r.tags[:before]
}

// lineEnd is the index behind the line that begins at from, its break included.
func (r *reader) lineEnd(from int) int {
	i := strings.IndexByte(r.text[from:], '\n')
	if i < 0 {
		return len(r.text)
	}
	return from + i + 1
}

// fenceOf is the run of backticks or tildes that a line begins with, behind the marks of quotes and lists, and what
// follows it; mark is empty when there is no such run of three.
func fenceOf(line string) (mark, rest string) {
	line = strings.TrimLeft(line, " \t>")
	line = strings.TrimLeft(withoutBullet(line), " \t>")
	if line == "" || line[0] != '`' && line[0] != '~' {
		return "", ""
	}
	rest = strings.TrimLeft(line, line[:1])
	if mark = line[:len(line)-len(rest)]; len(mark) < 3 {
		return "", ""
	}
	return mark, rest
}

// withoutBullet takes the mark of a list item from the beginning of a line.
func withoutBullet(line string) string {
	digits := strings.TrimLeft(line, "0123456789")
	rest := digits
	switch {
	case digits == "":
	case len(digits) < len(line) && (digits[0] == '.' || digits[0] == ')'), len(digits) == len(line) && strings.IndexByte("-*+", digits[0]) >= 0:
		rest = digits[1:]
	}
	if rest != digits && (strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "\t")) {
		return rest
	}
	return line
}

// opens reports whether a line opens a code block. ```x``` is inline code, and a tag is no language.
func opens(mark, rest string) bool {
	return mark != "" && !strings.ContainsRune(rest, '<') && (mark[0] == '~' || !strings.ContainsRune(rest, '`'))
}

// closes reports whether a line ends the code block that fence opened. Agents put the closing tag of a sigil right
// behind it.
func closes(fence, mark, rest string) bool {
	if !strings.HasPrefix(mark, fence) {
		return false
	}
	_, closing, ok := nameAt(rest)
	return strings.TrimSpace(rest) == "" || ok && closing
}

// paragraph finds the tags of a part of the text.
func (r *reader) paragraph(from, to int) {
	if from >= to {
		return
	}
	spans := r.spans(from, to)
	for at := from; at < to; {
		r.looked++
		switch r.text[at] {
		case '\\': // the next character means itself
			at += 2
		case '`':
			for len(spans) > 0 && spans[0].start < at {
				spans = spans[1:]
			}
			if len(spans) > 0 && spans[0].start == at {
				at = spans[0].end
			} else {
				at++
			}
		case '<':
			t := r.tagAt(at, to)
			if t.name != "" {
				r.tags = append(r.tags, t)
			}
			at = t.end
		default:
			at++
		}
	}
}

// span is inline code that a run of backticks at start would open, or that run alone when none of its length follows.
type span struct{ start, end int }

// spans are the runs of backticks of a paragraph. Each looks for its partner once, from behind.
func (r *reader) spans(from, to int) []span {
	var runs []span
	for at := from; at < to; at++ {
		r.looked++
		if r.text[at] != '`' {
			continue
		}
		start := at
		for at < to && r.text[at] == '`' {
			r.looked++
			at++
		}
		runs = append(runs, span{start, at})
	}
	next := map[int]int{} // the nearest run of a length, by where it ends
	for i := len(runs) - 1; i >= 0; i-- {
		length, end := runs[i].end-runs[i].start, runs[i].end
		if partner, ok := next[length]; ok {
			runs[i].end = partner
		}
		next[length] = end
	}
	return runs
}

// nameAt is the name of the sigil whose tag, opening or closing, begins the text.
func nameAt(text string) (name string, closing, ok bool) {
	rest, ok := strings.CutPrefix(text, "<")
	if !ok {
		return "", false, false
	}
	rest, closing = strings.CutPrefix(rest, "/")
	for _, name := range names {
		if after, ok := strings.CutPrefix(rest, name); ok && after != "" && strings.IndexByte(" \t\r\n/>", after[0]) >= 0 {
			return name, closing, true
		}
	}
	return "", false, false
}

// tagAt reads the tag that may begin at a '<'. It never looks beyond the beginning of the next one, so that no byte is
// looked at for more than one tag.
func (r *reader) tagAt(at, to int) tag {
	name, closing, ok := nameAt(r.text[at:to])
	t := tag{name: name, start: at, end: at + 1, closing: closing, broken: true, mate: -1}
	if !ok {
		return t
	}
	i := at + len("<") + len(name)
	if closing {
		i++
	}
	t.end = i
	for {
		i = r.skipSpace(i, to)
		switch {
		case i < to && r.text[i] == '>':
			t.end, t.broken = i+1, false
			return t
		case !closing && strings.HasPrefix(r.text[i:to], "/>"):
			t.end, t.broken, t.empty = i+2, false, true
			return t
		case closing || i == to:
			return t
		}
		key, value, end, ok := r.attribute(i, to)
		if !ok {
			return t
		}
		if t.attrs == nil {
			t.attrs = map[string]string{}
		}
		t.attrs[key] = value
		i = end
	}
}

func (r *reader) skipSpace(i, to int) int {
	for i < to && strings.IndexByte(" \t\r\n", r.text[i]) >= 0 {
		r.looked++
		i++
	}
	return i
}

// attribute reads key="value" or key='value'. A value may hold anything but its own quote and the beginning of a sigil.
func (r *reader) attribute(i, to int) (key, value string, end int, ok bool) {
	from := i
	for i < to && 'a' <= r.text[i] && r.text[i] <= 'z' {
		r.looked++
		i++
	}
	key = r.text[from:i]
	if key == "" || i+1 >= to || r.text[i] != '=' || r.text[i+1] != '"' && r.text[i+1] != '\'' {
		return "", "", 0, false
	}
	quote := r.text[i+1]
	i += 2
	from = i
	for ; i < to && r.text[i] != quote; i++ {
		r.looked++
		if _, _, sigil := nameAt(r.text[i:to]); sigil {
			return "", "", 0, false
		}
	}
	if i >= to {
		return "", "", 0, false
	}
	return key, r.text[from:i], i + 1, true
}
