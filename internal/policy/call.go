package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call is a simple command that is being judged.
type call struct {
	name string   // base name of the program
	args []string // the words after it
	at   int      // its index in the report
}

// call judges a simple command: its assignments, then its words.
func (w *walker) call(c *syntax.CallExpr) {
	if len(c.Args) == 0 {
		for _, a := range c.Assigns {
			w.assign(a)
		}
		return
	}
	var words []string
	for _, arg := range c.Args {
		words = append(words, w.fields(arg)...)
	}
	// The words are expanded before these are set; the command sees them, and what follows does not.
	odd := w.oddIFS
	home, housed := w.vars["HOME"]
	w.exports = true
	for _, a := range c.Assigns {
		w.assign(a)
	}
	w.exports = false
	w.exec(words)
	for _, a := range c.Assigns {
		if a.Name == nil {
			continue
		}
		delete(w.vars, a.Name.Value)
		if a.Name.Value == "IFS" {
			w.oddIFS = odd
		}
		if a.Name.Value == "HOME" && housed {
			w.vars["HOME"] = home
		}
	}
}

// assign judges an assignment, and keeps it.
func (w *walker) assign(a *syntax.Assign) {
	if a.Name == nil {
		w.value(a.Value)
		return
	}
	name := a.Name.Value
	val := w.value(a.Value)
	known := a.Array == nil && a.Index == nil && !a.Append && !matchesAny(computed, name)
	if matchesAny(computed, name) && !isNumber(val) && !a.Naked {
		w.evaluates(name, val)
	}
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			w.value(e.Value)
			w.subscript(e.Index)
		}
	}
	w.subscript(a.Index)
	if a.Naked {
		return
	}
	if w.exports || !shellOnly(name) {
		w.setting(name, val)
	}
	if w.vars[name] = val; !known {
		delete(w.vars, name)
	}
	if name == "IFS" {
		w.oddIFS = true
	}
}

// lose is that a variable gets a value that is not known.
func (w *walker) lose(name string) {
	delete(w.vars, name)
	if !shellOnly(name) {
		w.setting(name, string(markValue))
	}
	if name == "IFS" {
		w.oddIFS = true
	}
}

func (w *walker) declClause(c *syntax.DeclClause) {
	if !slices.ContainsFunc(c.Args, func(a *syntax.Assign) bool { return a.Name != nil }) { // it prints the variables
		w.r.cmds = append(w.r.cmds, command{words: []string{c.Variant.Value}, via: w.via})
	}
	w.exports = c.Variant.Value == "export" || c.Variant.Value == "declare" || c.Variant.Value == "typeset"
	defer func() { w.exports = false }()
	for _, a := range c.Args {
		if a.Naked && a.Name == nil && a.Value != nil {
			w.declared(c.Variant.Value, w.value(a.Value))
			continue
		}
		if w.locals != nil && a.Name != nil {
			w.locals[a.Name.Value] = true
			if a.Naked && c.Variant.Value != "export" && c.Variant.Value != "readonly" {
				delete(w.vars, a.Name.Value) // it is empty in the function
			}
		}
		w.assign(a)
	}
}

// declared judges a word of declare and its kin that the parser takes for a word: a flag, or what is
// quoted.
func (w *walker) declared(variant, word string) {
	name, val, _ := strings.Cut(word, "=")
	switch {
	case unknown(word):
		w.r.add(Ask, askEnv, "Which variable %s sets is known only when it runs.", variant)
		w.forget()
	case strings.HasPrefix(word, "-") && strings.Contains(word, "n") && variant != "export":
		w.r.add(Ask, askEnv, "A variable is made to stand for another one.")
	case strings.HasPrefix(word, "-") && strings.Contains(word, "i"):
		w.r.add(Ask, askRuns, "What an integer variable is given is evaluated, and may run commands.")
	case strings.HasPrefix(word, "-"), strings.HasPrefix(word, "+"):
	case !isName(name):
		w.evaluates(variant, word)
	default:
		w.lose(name)
		w.setting(name, val)
	}
}

// redirections judges what a statement reads and writes besides its words.
func (w *walker) redirections(list []*syntax.Redirect) {
	for _, rd := range list {
		if rd.N != nil && strings.Trim(rd.N.Value, "0123456789") != "" { // {fd}> sets a variable
			w.names(&call{name: "a redirection"}, []string{strings.Trim(rd.N.Value, "{}")})
		}
		input := rd.N == nil || rd.N.Value == "0"
		switch rd.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			if text := w.heredoc(rd); input {
				w.piped, w.fed = true, &text
			}
		case syntax.WordHdoc:
			if text := w.value(rd.Word); input {
				w.piped, w.fed = true, &text
			}
		case syntax.DplIn, syntax.DplOut:
			to := w.value(rd.Word)
			if rd.Op == syntax.DplIn {
				w.piped, w.fed = true, nil
			}
			if to == "-" || to != "" && strings.Trim(to, "0123456789-") == "" {
				continue
			}
			w.redirect(to, Write)
		case syntax.RdrIn, syntax.RdrInOut:
			w.piped, w.fed = true, nil
			if rd.Op == syntax.RdrInOut {
				w.redirect(w.target(rd.Word), Write)
			}
			from := w.target(rd.Word)
			w.redirect(from, Read)
			if from == "/dev/null" && input {
				w.fed = new(string)
			}
		default:
			w.redirect(w.target(rd.Word), Write)
		}
	}
}

// target is the file of a redirection: its globs are expanded.
func (w *walker) target(word *syntax.Word) string {
	if fs := w.fields(word); len(fs) == 1 {
		return fs[0]
	}
	return string(markValue)
}

func (w *walker) redirect(to string, access Access) {
	if rest, ok := strings.CutPrefix(to, "/dev/tcp/"); ok || strings.HasPrefix(to, "/dev/udp/") {
		host, _, _ := strings.Cut(strings.TrimPrefix(rest, "/dev/udp/"), "/")
		w.r.host(readable(host))
		w.r.add(Ask, askUnknown, "It opens a connection to %s.", readable(host))
		return
	}
	w.touch(to, access, len(w.r.cmds), true, false)
}

// heredoc is the text of a here-document. With a quoted delimiter nothing in it is expanded.
func (w *walker) heredoc(rd *syntax.Redirect) string {
	if rd.Hdoc == nil {
		return ""
	}
	quoted := slices.ContainsFunc(rd.Word.Parts, func(p syntax.WordPart) bool {
		lit, ok := p.(*syntax.Lit)
		return !ok || strings.Contains(lit.Value, `\`)
	})
	b := builder{left: w.left, quotedAll: true}
	if !quoted {
		w.parts(&b, rd.Hdoc.Parts, true)
		return b.joined()
	}
	for _, p := range rd.Hdoc.Parts {
		if lit, ok := p.(*syntax.Lit); ok {
			b.add(lit.Value)
		}
	}
	return b.joined()
}

// touch judges the use of a path that a word names.
func (w *walker) touch(word string, access Access, cmd int, redir, destroys bool) {
	if word == "" {
		return
	}
	if unknown(word) {
		w.r.unforeseen("The path %s is known only when it runs.", readable(word))
		w.blind(access)
		i := strings.IndexAny(word, "\x00\x01")
		slash := strings.LastIndexByte(word[:i], '/')
		if slash < 0 {
			return
		}
		word, destroys = word[:slash+1], false // what it begins with is known
	}
	if access == Read && globbed(word) && !strings.ContainsRune(word, markBelow) {
		w.leads(word, access, cmd, redir)
	}
	for i, dir := range w.dirs {
		if unknown(dir) && !strings.HasPrefix(word, "/") {
			w.r.unforeseen("The folder in which %s lies is known only when it runs.", readable(word))
			w.blind(access)
			continue
		}
		at := w.p.canonical(dir, word, w.links)
		w.p.judgePath(w.r, use{path: at, access: access, redir: redir, destroys: destroys, cmd: cmd}, i > 0)
		if strings.HasPrefix(word, "/") {
			break
		}
	}
}

// blind notes that files are read or written that are known only when it runs.
func (w *walker) blind(access Access) {
	w.r.may.reads, w.r.may.writes = w.r.may.reads || access == Read, w.r.may.writes || access == Write
}

// suspect judges a word of a command nobody knows: if it is or contains the path of something that is
// kept, it is denied.
func (w *walker) suspect(word string, access Access) {
	for _, cand := range w.candidates(word) {
		for i, dir := range w.dirs {
			if unknown(dir) && !strings.HasPrefix(cand, "/") {
				continue
			}
			at := w.p.canonical(dir, cand, w.links)
			f, ok := w.p.floorPath(at, access, false)
			if !ok {
				w.holdsHome(at)
				continue
			}
			if i > 0 || f.rule == floorDisk {
				f.verdict = Ask
			}
			w.r.add(f.verdict, f.rule, "%s", f.why)
		}
	}
}

// holdsHome asks when a command is given a whole home, or what is around it: with it, all credentials.
func (w *walker) holdsHome(at string) {
	if home := w.p.place.Home; home != w.p.place.Workspace && above(at, home) != no {
		w.r.add(Ask, floorCredentials, "%s holds a home, with the credentials in it.", readable(at))
	}
}

// candidates are the paths that may be in a word: the word, the value of a flag, the parts of a list.
func (w *walker) candidates(word string) []string {
	out := []string{}
	add := func(s string) {
		s = strings.TrimPrefix(strings.TrimPrefix(s, "@"), "file://")
		if rest, ok := strings.CutPrefix(s, "~/"); ok {
			s = w.p.place.Home + "/" + rest
		}
		if i := strings.IndexAny(s, "\x00\x01"); i >= 0 {
			s = s[:strings.LastIndexByte(s[:i], '/')+1]
		}
		if s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	if !strings.HasPrefix(word, "-") {
		add(word)
	} else if !strings.HasPrefix(word, "--") && len(word) > 2 {
		add(word[2:])
	}
	if _, val, ok := strings.Cut(word, "="); ok {
		add(val)
	}
	for _, sep := range []string{"=", ":", ",", "@", "file://", `"`, "'"} {
		for i, part := range strings.Split(word, sep) {
			if i < 8 && (strings.HasPrefix(part, "/") || strings.HasPrefix(part, "~/") || strings.Contains(part, "/.")) {
				add(part)
			}
		}
	}
	return out
}
