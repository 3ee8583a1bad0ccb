package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// may is what an action may do besides what is known of it: what a sandbox lets pass though nobody can foresee it, and the words of programs that
// nothing is known of. It denies nothing and allows nothing. Where a deny or ask rule speaks of such things, somebody is asked.
type may struct {
	reads, writes bool // files that are known only when it runs
	runs          bool // commands that are
	guesses       []guess
	texts         []string // words that may be a command, or hold one
	hosts         []string // words that may be a host, or hold one
	looked        int      // folders that were looked into
}

// guess is a word that may be a path.
type guess struct {
	path   string
	reads  bool // what it names may be read
	writes bool // what it names may be changed
	whole  bool // if it is a folder, all that is below it is meant
	words  bool // it is likely to be something else: only a whole name counts
}

// What a command may do with the words that it is given.
type suspicion int

const (
	mayTouch suspicion = iota // nothing is known of it: it may read and change what they name, and run them
	mayShow                   // it changes nothing
	mayBuild                  // a build or a test: what it reads and writes by itself is its own; what it is told to read counts
)

const (
	maxParts   = 64 // parts of one word that are taken for paths
	maxLooked  = 64 // folders that are looked into for one decision
	maxUnknown = 4 << 10
)

// strange notes the words of a command of which nobody knows what it does with them.
func (w *walker) strange(c call, args []string, as suspicion) {
	m := &w.r.may
	text := strings.Join(args, " ")
	switch as {
	case mayTouch:
		text = strings.ReplaceAll(text, string(markValue), string(markWords)) // it may be a text with commands
	case mayBuild:
		text = readable(text)
	}
	m.text(text)
	for _, a := range args {
		if unknown(a) {
			m.reads, m.writes = true, m.writes || as == mayTouch
		}
		for _, part := range w.wordParts(a) {
			w.guess(part, guess{reads: true, writes: as == mayTouch, whole: as == mayTouch, words: as == mayBuild && !runsFiles(w.r.cmds[c.at], c.name)})
		}
		if as != mayBuild {
			w.stray(c, a)
		}
	}
}

// text notes words that may be a command, or hold one.
func (m *may) text(words string) {
	switch {
	case words == "" || slices.Contains(m.texts, words):
	case len(m.texts) >= maxUses:
		m.runs = true
	default:
		m.texts = append(m.texts, words)
	}
}

// shifted notes the words of a wrapper of which one is known only when it runs: if that is a flag, the command may begin at another word.
func (m *may) shifted(args []string) {
	m.text(strings.ReplaceAll(strings.Join(args, " "), string(markValue), "$…"))
}

// runsFiles reports whether a build is a program or script of the workspace: its words are more likely to be files than names of things to do.
func runsFiles(c command, name string) bool {
	if slices.Contains([]string{"make", "gmake", "ninja", "just", "go"}, name) {
		return false
	}
	return handlerOf(name) != nil || strings.Contains(c.words[0], "/")
}

// guess notes a word that may be a path.
func (w *walker) guess(word string, g guess) {
	if g.words && !globbed(word) && !strings.ContainsAny(word, "./") {
		return
	}
	m := &w.r.may
	for _, dir := range w.dirs {
		if unknown(dir) && !strings.HasPrefix(word, "/") || !w.left.take(wordCost) || len(m.guesses) >= maxUses {
			m.reads, m.writes = m.reads || g.reads, m.writes || g.writes
			return
		}
		g.path = w.p.canonical(dir, word, w.links)
		if !slices.Contains(m.guesses, g) {
			m.guesses = append(m.guesses, g)
		}
	}
}

// stray notes words that name a secret or an existing place outside the workspace: nobody knows what is done with them, and the least is that they are read.
func (w *walker) stray(c call, word string) {
	for _, cand := range w.candidates(word) {
		for _, dir := range w.dirs {
			if unknown(dir) && !strings.HasPrefix(cand, "/") {
				continue
			}
			u := use{path: w.p.canonical(dir, cand, w.links), access: Read, cmd: c.at, guessed: true}
			u.secret = sensitive(u.path)
			u.outside = u.secret || !w.p.mayRead(u.path) && !harmlessSink(u.path) && w.exists(u.path)
			if u.outside && !slices.Contains(w.r.uses, u) && len(w.r.uses) < maxUses {
				w.r.uses = append(w.r.uses, u)
			}
		}
	}
}

// exists reports whether there is something at a path; where nobody can tell, there may be.
func (w *walker) exists(at string) bool {
	names, ok := w.globs(at)
	return !ok || len(names) > 0
}

// wordParts are the parts of a word that may be paths.
func (w *walker) wordParts(word string) []string {
	out := w.candidates(word)
	for _, part := range strings.FieldsFunc(word, func(r rune) bool { return strings.ContainsRune(" \t\n=:,;@|&<>(){}[]\"'`", r) }) {
		if i := strings.IndexAny(part, "\x00\x01"); i >= 0 {
			part = part[:strings.LastIndexByte(part[:i], '/')+1]
		}
		if len(out) < maxParts && part != "" && !strings.HasPrefix(part, "-") && !slices.Contains(out, part) {
			out = append(out, part)
		}
	}
	return out
}

// mightTouch reports whether an action may do what a rule is about.
func (p *Policy) mightTouch(c compiled, r *report) bool {
	files, runs := r.implied()
	switch c.kind {
	case kindCommand:
		return runs || r.may.runs || slices.ContainsFunc(r.cmds, func(cmd command) bool { return cmd.mightBe(c.arg) }) ||
			slices.ContainsFunc(r.may.texts, func(text string) bool { return holdsCommand(c.arg, text) })
	case kindRead, kindWrite:
		if files || c.kind == kindRead && r.may.reads || c.kind == kindWrite && r.may.writes {
			return true
		}
		return slices.ContainsFunc(r.may.guesses, func(g guess) bool {
			return (c.kind == kindRead && g.reads || c.kind == kindWrite && g.writes) && (c.arg != "" || !g.words) && p.mightName(c.arg, g, r)
		})
	case kindHost:
		return slices.ContainsFunc(r.may.hosts, func(h string) bool { return holdsHost(c.arg, h) })
	}
	return false
}

// implied is what the questions that a sandbox answered leave open.
func (r *report) implied() (files, runs bool) {
	for _, f := range r.findings {
		if f.verdict != Ask || f.exact {
			continue
		}
		files = files || slices.Contains([]string{askUnknown, askEnv, askRuns}, f.rule)
		runs = runs || f.rule == askEnv || f.rule == askRuns
	}
	return files, runs
}

// mightName reports whether a word may be what a pattern names, or a folder with that in it.
func (p *Policy) mightName(pattern string, g guess, r *report) bool {
	if matchesPath(pattern, g.path) || globbed(g.path) && couldName(pattern, use{path: g.path}) {
		return true
	}
	return g.whole && p.mightHold(pattern, g.path, r)
}

// mightHold reports whether a folder may hold what a pattern names.
func (p *Policy) mightHold(pattern, dir string, r *report) bool {
	fixed, _ := doublestar.SplitPattern(pattern)
	if above(dir, fixed) != no {
		return true
	}
	want := segments(pattern)
	for i, name := range segments(dir) {
		if i >= len(want) {
			return false
		}
		if want[i] == "**" {
			return p.holdsFiles(dir, r)
		}
		if ok := doublestar.MatchUnvalidated(want[i], name); !ok && !(globbed(name) && globMatches(name, want[i])) {
			return false
		}
	}
	return p.holdsFiles(dir, r)
}

// holdsFiles reports whether a path is a folder with something in it; where nobody can tell, it may be.
func (p *Policy) holdsFiles(dir string, r *report) bool {
	if r.may.looked++; r.may.looked > maxLooked || p.place.Glob == nil {
		return true
	}
	names, ok := p.place.Glob(globPattern(dir) + "/*")
	return !ok || len(names) > 0
}

// mightBe reports whether a command of which some words are known only when it runs may be one that a pattern names.
func (c command) mightBe(pattern string) bool {
	return !certain(c.text()) && slices.ContainsFunc(c.forms(), func(s string) bool { return meetsCommand(pattern, s) })
}

func meetsCommand(pattern, text string) bool {
	if p, ok := strings.CutSuffix(pattern, " *"); ok && meets(p, text) {
		return true
	}
	return meets(pattern, text)
}

// betweenCommands is what may stand around a command in a text, as blanks.
var betweenCommands = strings.NewReplacer(";", " ", "|", " ", "&", " ", "\n", " ", "\t", " ", "(", " ", ")", " ", "{", " ", "}", " ", `"`, " ", "'", " ", "`", " ", "=", " ", "$", " ")

// holdsCommand reports whether a command that a pattern names may be among words.
func holdsCommand(pattern, text string) bool {
	pattern = "* " + strings.TrimSuffix(pattern, " *") + " *"
	plain := strings.Fields(betweenCommands.Replace(text))
	bases := make([]string, len(plain))
	for i, word := range plain {
		bases[i] = path.Base(word)
	}
	for _, t := range []string{text, strings.Join(plain, " "), strings.Join(bases, " ")} {
		if meets(pattern, " "+t+" ") {
			return true
		}
	}
	return false
}

// meets reports whether a text that may hold marks can be what a pattern says, in which * stands for anything.
func meets(pattern, text string) bool {
	if certain(text) {
		return wild(pattern, text)
	}
	if len(text) > maxUnknown {
		return true
	}
	at := make([]bool, len(pattern)+1) // where in the pattern the text may have come to
	at[0] = true
	skip := func() {
		for i := range len(pattern) {
			at[i+1] = at[i+1] || at[i] && pattern[i] == '*'
		}
	}
	skip()
	for _, c := range []byte(text) {
		switch c {
		case markNumber:
			continue
		case markWords, markBelow, markValue, markMany, markOne: // some text; but for the first two within a word
			for i := range len(pattern) {
				at[i+1] = at[i+1] || at[i] && (c == markWords || c == markBelow || pattern[i] != ' ')
			}
		default:
			for i := len(pattern); i > 0; i-- {
				at[i] = at[i-1] && pattern[i-1] == c || i < len(pattern) && pattern[i] == '*' && at[i]
			}
			at[0] = at[0] && pattern != "" && pattern[0] == '*'
		}
		skip()
	}
	return at[len(pattern)]
}
