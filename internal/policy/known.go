package policy

import (
	"path"
	"slices"
	"strings"
)

// softRules are the questions that a sandbox answers: what a command does that cannot be foreseen stays within it.
var softRules = []string{askUnknown, askRuns}

// softly runs f, and lets pass what it would have asked about where a sandbox will hold the command.
func (w *walker) softly(f func()) {
	before := len(w.r.findings)
	f()
	if !w.r.sandboxed || len(w.r.findings) <= before {
		return
	}
	kept := w.r.findings[:before:before]
	for _, x := range w.r.findings[before:] {
		if x.verdict == Ask && slices.Contains(softRules, x.rule) {
			w.r.held = true
			continue
		}
		kept = append(kept, x)
	}
	w.r.findings = kept
}

// apply records what a line of the table says of a command.
func (w *walker) apply(c *call, m *matching) {
	switch m.entry.class {
	case classWrap:
		if m.soft != "" {
			w.r.may.shifted(c.args)
		}
		w.reads(c, m)
		w.plain(c)
		w.wrapped(c, m)
	case classBuild:
		w.builds(c)
	default:
		if m.at != "" {
			dirs := w.dirs
			defer func() { w.dirs = dirs }()
			reads := w.r.may.reads
			w.softly(func() { w.touch(m.at, Read, c.at, false, false) })
			w.r.may.reads = reads // it is where git works, not what it shows
			w.enter(m.at)
		}
		w.reads(c, m)
		if m.entry.free && m.entry.class == classHeld {
			w.softly(func() {
				for _, a := range c.args {
					w.mentions(a)
				}
			})
			if m.entry.operands[0].kind == "plain" {
				w.strange(*c, c.args, mayShow)
			}
		}
		w.r.cmds[c.at].looks = true
		reaches := m.entry.class == classReach // and asks git which repository it is in
		w.r.reaches, w.r.cmds[c.at].reaches = w.r.reaches || reaches, reaches
		w.r.mixed = w.r.mixed || !reaches && m.entry.class != classText
		if m.entry.class == classHeld || (reaches || strings.HasPrefix(m.entry.key, "git")) && !w.ownRepository(m.entry.key) {
			w.needsHold(c.at)
		}
	}
}

// needsHold is that a command is known to look only where a sandbox makes sure of it.
func (w *walker) needsHold(at int) {
	if w.r.sandboxed {
		w.r.held = true
		return
	}
	w.r.cmds[at].looks = false
}

// reads judges the paths that a known command reads.
func (w *walker) reads(c *call, m *matching) {
	w.r.may.reads = w.r.may.reads || m.unforeseen()
	w.softly(func() {
		if m.soft != "" {
			w.r.add(Ask, askUnknown, "%s is given %s, which is known only when it runs.", c.name, shorten(m.soft))
		}
		for _, p := range m.paths {
			before := len(w.r.uses)
			w.touch(p.word, Read, c.at, false, false)
			if p.public {
				w.published(before)
			}
			if p.walk {
				w.below(p.word, c)
			}
			if strings.ContainsRune(p.word, markBelow) {
				w.r.add(Ask, askUnknown, "What %s is given may be links to files elsewhere.", c.name)
			}
		}
	})
}

// published takes the suspicion of secrets from what was read since: where it lies still counts.
func (w *walker) published(since int) {
	for i := range w.r.uses[since:] {
		u := &w.r.uses[since+i]
		u.secret, u.outside = false, !w.p.mayRead(u.path) && !harmlessSink(u.path)
	}
}

// builds judges a build or a test: the floor holds for its words, and a sandbox for the rest.
func (w *walker) builds(c *call) {
	w.r.cmds[c.at].builds = true
	w.softly(func() {
		for _, a := range c.args {
			w.mentions(a)
		}
		if w.fed != nil {
			w.mentions(*w.fed)
		}
		if h := handlerOf(c.name); h != nil {
			h(w, c)
		} else {
			w.judgeArgs(*c)
		}
		cmd := &w.r.cmds[c.at]
		cmd.looks, cmd.plain, cmd.edits = false, false, cmd.edits && !strings.Contains(cmd.words[0], "/")
	})
}

// ownRepository reports whether git works on the repository of the workspace. The settings of another one may make it
// run anything, and files that make one may be in any folder, also in one of the workspace.
func (w *walker) ownRepository(key string) bool {
	if key == "git" || key == "git version" || key == "git help" {
		return true
	}
	elsewhere := func(d string) bool { return d != w.p.place.Workspace }
	return !slices.ContainsFunc(w.dirs, elsewhere) && w.p.gitAt(w.p.place.Workspace).Top
}

// enter goes to the folder that git is told to work in.
func (w *walker) enter(dir string) {
	if !certain(dir) {
		w.dirs = []string{string(markValue)}
		return
	}
	w.dirs = w.each(dir)
}

// wrapped judges the command that another one runs.
func (w *walker) wrapped(c *call, m *matching) {
	words := m.rest
	if c.name == "xargs" {
		words = xargsWords(c.args, m.rest)
		w.nested(c, func() { w.inner(func() { w.piped = true; w.exec(words) }) })
		return
	}
	w.nested(c, func() { w.exec(words) })
}

// handlerOf is what judges a program that is not on the table, or more of one that is.
func handlerOf(name string) handler {
	if h, ok := handlers[name]; ok {
		return h
	}
	for prefix, h := range handlersByPrefix {
		if strings.HasPrefix(name, prefix) {
			return h
		}
	}
	return nil
}

// maybeDash reports whether a word that is known only when it runs may begin with a dash. The names that a glob stands
// for are looked up.
func (w *walker) maybeDash(word string) bool {
	if !maybeFlag(word) {
		return false
	}
	if unknown(word) || word == "" {
		return true
	}
	names, ok := w.globs(word)
	return !ok || slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(path.Base(n), "-") })
}

// globs are the paths that a word with globs stands for now; false where nobody can tell.
func (w *walker) globs(word string) ([]string, bool) {
	if !w.left.take(globCost) || w.p.place.Glob == nil || len(w.dirs) == 0 || strings.ContainsRune(word, markBelow) {
		return nil, false
	}
	var out []string
	for _, dir := range w.dirs {
		if !strings.HasPrefix(word, "/") {
			if unknown(dir) {
				return nil, false
			}
			names, ok := w.p.place.Glob(globPattern(dir + "/" + word))
			if !ok {
				return nil, false
			}
			out = append(out, names...)
			continue
		}
		names, ok := w.p.place.Glob(globPattern(word))
		return append(out, names...), ok
	}
	return out, true
}

// globPattern writes a word with marks as a pattern in which all else stands for itself.
func globPattern(word string) string { return globPatterns.Replace(word) }

var globPatterns = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "{", `\{`, "\x02", "*", "\x03", "?")

// leads judges what a word with globs leads to now: a name of it may be a link to anywhere.
func (w *walker) leads(word string, access Access, cmd int, redir bool) {
	names, ok := w.globs(word)
	if !ok {
		w.r.unforeseen("Which files %s stands for is known only when it runs.", readable(word))
		w.blind(access)
		return
	}
	for _, name := range names {
		if at := w.p.canonical("/", name, w.links); at != path.Clean(name) {
			w.p.judgePath(w.r, use{path: at, access: access, redir: redir, cmd: cmd}, false)
		}
	}
}

// calmVariables may be set for any command: they change how things look, and nothing else.
var calmVariables = []string{
	"LC_*", "LANG", "IFS", "LANGUAGE", "TZ", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES", "CI", "TERM",
	"GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "CARGO_TERM_COLOR", "RUST_BACKTRACE", "DEBIAN_FRONTEND",
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE",
}

// calm reports whether a variable changes nothing of what a command does. A value that is not known may do more than
// its name says: terminals are described in files.
func calm(name, val string) bool {
	switch name {
	case "PAGER", "GIT_PAGER", "MANPAGER":
		return val == "" || val == "cat"
	case "GIT_EDITOR", "EDITOR":
		return slices.Contains([]string{"", "true", ":"}, val)
	}
	return matchesAny(calmVariables, name) && !strings.ContainsAny(val, "/\x00\x01")
}

// shellOnly reports whether a variable that is not exported stays in the shell: a name with small letters is none that
// programs get from the environment, but for a few.
func shellOnly(name string) bool {
	if slices.Contains([]string{"IFS", "PWD", "OLDPWD", "REPLY", "OPTARG", "OPTIND"}, name) || len(name) == 1 {
		return true
	}
	return name == strings.ToLower(name) && !strings.HasSuffix(name, "_proxy") && !strings.HasPrefix(name, "npm_")
}

// setting judges that a variable is given to commands: of one that is not known to be calm nobody knows what it does.
func (w *walker) setting(name, val string) {
	if calm(name, val) {
		return
	}
	if w.r.steered == "" {
		w.r.steered = name + "=" + shorten(readable(val))
	}
	w.r.blind = w.r.blind || unknown(val)
	w.r.may.text(readable(val))
	for _, part := range w.wordParts(val) {
		w.guess(part, guess{reads: true, words: true})
	}
	if w.r.sandboxed {
		w.r.held = true
	} else {
		w.r.varied = name
	}
}

// steers judges a variable that is not known to be calm: it may decide which programs run, and what is known of a command by its name holds no more. Builds and tests run programs of the
// workspace anyway, so that a sandbox holds them all the same, and what stands beside them.
func (w *walker) steers() {
	if w.r.steered == "" {
		return
	}
	held := func(_ int, c command) bool {
		return c.plain || w.r.sandboxed && !c.reaches && (c.builds || c.looks || c.edits || c.local)
	}
	if !w.r.all(held) || !slices.ContainsFunc(w.r.cmds, func(c command) bool { return c.builds }) {
		w.r.note(finding{verdict: Ask, rule: askEnv, why: w.r.steered + " may change which programs run, or how.", exact: !w.r.blind})
		return
	}
	for i := range w.r.cmds {
		if c := &w.r.cmds[i]; !c.plain && !c.local {
			c.looks, c.edits, c.builds = false, false, true
		}
	}
}
