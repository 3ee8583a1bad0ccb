package policy

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// programs are the folders whose programs are what their names say.
var programs = []string{"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin", "/usr/local/go/bin"}

// away reports whether a command may run outside of the workspace.
func (w *walker) away() bool {
	top := w.p.place.Workspace
	return slices.ContainsFunc(w.dirs, func(d string) bool { return d != top && !strings.HasPrefix(d, strings.TrimSuffix(top, "/")+"/") })
}

// hasInput reports whether a command is given something to read.
func (w *walker) hasInput() bool { return w.piped && (w.fed == nil || *w.fed != "") }

// exec judges a command by its resolved words.
func (w *walker) exec(words []string) {
	if len(words) == 0 {
		return
	}
	c := call{args: words[1:], at: len(w.r.cmds)}
	w.r.cmds = append(w.r.cmds, command{words: words, via: w.via, input: w.fed, fed: w.hasInput(), away: w.away()})
	first := words[0]
	switch {
	case first == "":
		w.r.add(Ask, askUnknown, "The name of a command is empty.")
		return
	case !certain(first):
		w.r.add(Ask, askUnknown, "Which program %s is, is known only when it runs.", readable(first))
		w.judgeArgs(c)
		return
	case strings.ContainsFunc(first, func(r rune) bool { return r > 0x7e || r <= ' ' }):
		w.r.add(Ask, askHidden, "The command %q is written with characters that look like others.", first)
		return
	}
	c.name = path.Base(first)
	w.r.chosen = w.r.chosen || c.name == "set" || c.name == "trap" || c.name == "shopt" // set -e ends at what fails
	if strings.Contains(first, "/") {
		// It may be a link of the workspace to a program elsewhere, as .venv/bin/python is: a sandbox holds that as well.
		if w.inWorkspace(first) || w.inWorkspace(path.Dir(first)) || w.inTemp(first) {
			w.builds(&c) // a program of the workspace
			return
		}
		w.run(c, slices.Contains(programs, path.Dir(first)))
		return
	}
	if len(w.funcs[first]) > 0 {
		sure := len(w.funcs[first]) == 1 && w.maybe == 0
		w.r.cmds[c.at].looks, w.r.cmds[c.at].plain = sure, sure
		w.invoke(first, c.args)
		if sure {
			return
		}
	}
	w.run(c, true)
}

// run judges a program by its name. Own says that the program is the one its name promises: only then it is looked up in
// the table. Another one of that name is held to the same floor.
func (w *walker) run(c call, own bool) {
	if own {
		if m, ok := w.matched(&c); ok {
			w.apply(&c, m)
			return
		}
	}
	w.r.cmds[c.at].local = slices.Contains(localPrograms, c.name)
	looks := false
	if h := handlerOf(c.name); h != nil {
		looks = h(w, &c)
	} else {
		w.judgeArgs(c)
	}
	cmd := &w.r.cmds[c.at]
	cmd.looks = cmd.looks || looks && own && builtins[c.name]
	cmd.edits, cmd.local, cmd.offline = cmd.edits && own, cmd.local && own, own && (cmd.offline || stranger(c.name))
}

// judgeArgs judges the words of a command nobody knows.
func (w *walker) judgeArgs(c call) {
	as := mayTouch
	if w.r.cmds[c.at].builds {
		as = mayBuild
	}
	w.strange(c, c.args, as)
	for _, a := range c.args {
		if unknown(a) {
			w.r.unforeseen("%s is given %s, which is known only when it runs.", readable(c.name), shorten(readable(a)))
		}
		w.suspect(a, Write)
	}
}

// nested runs f with the name of the command through which it runs.
func (w *walker) nested(c *call, f func()) {
	via, funcs := w.via, w.funcs
	w.via = c.name
	if c.name != "eval" && c.name != "trap" { // other commands do not see the functions of this shell
		w.funcs = map[string][]*syntax.Stmt{}
		defer func() { w.funcs = funcs }()
	}
	if w.depth < maxDepth {
		w.depth++
		f()
		w.depth--
	} else {
		w.r.add(Ask, askUnparsed, "Commands are nested too deeply to be judged.")
	}
	w.via = via
}

// plain marks a command that is nothing but the one it runs: a rule for that one is enough.
func (w *walker) plain(c *call) {
	w.r.cmds[c.at].plain, w.r.cmds[c.at].looks = true, true
}

// flag reports whether args contain a flag: a letter in any group of letters, or a long name, which may be
// shortened or have a value.
func flag(args []string, letters string, longs ...string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		if len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.ContainsAny(a[1:], letters) {
			return true
		}
		if !strings.HasPrefix(a, "--") {
			continue
		}
		name, _, _ := strings.Cut(a, "=")
		for _, l := range longs {
			if strings.HasPrefix(l, name) && len(name) > 2 || name == l {
				return true
			}
		}
	}
	return false
}

// positional are the words that are not flags. Values of flags are among them: to take one for a path is
// harmless.
func positional(args []string) []string {
	var out []string
	rest := false
	for _, a := range args {
		switch {
		case rest || a == "" || a[0] != '-' || a == "-":
			out = append(out, a)
		case a == "--":
			rest = true
		}
	}
	return out
}

// operands skips flags, with the values of those that take one as a word of their own, and gives the rest
// as it is.
func operands(args []string, valued ...string) []string {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			return args[i+1:]
		case slices.Contains(valued, a):
			i++
		case len(a) < 2 || a[0] != '-':
			return args[i:]
		}
	}
	return nil
}

// without leaves out flags whose value is a word of its own, and the values.
func without(args []string, valued ...string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		if slices.Contains(valued, args[i]) {
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}

// maybeFlag reports whether a word may turn out to be a flag.
func maybeFlag(word string) bool {
	return strings.ContainsRune(word, markWords) || word != "" && strings.ContainsRune("\x00\x02\x03", rune(word[0]))
}
