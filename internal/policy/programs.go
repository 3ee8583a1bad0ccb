package policy

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// find looks, unless it is told to do something with what it finds.
func find(w *walker, c *call) bool {
	var roots []string
	args := c.args
	for len(args) > 0 && (args[0] == "-H" || args[0] == "-L" || args[0] == "-P" || strings.HasPrefix(args[0], "-O") || args[0] == "-D") {
		if args[0] == "-D" {
			args = args[min(1, len(args)):]
		}
		args = args[min(1, len(args)):]
	}
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") && args[0] != "(" && args[0] != "!" && args[0] != ")" {
		if maybeFlag(args[0]) {
			w.r.add(Ask, askUnknown, "What find is told by %s is known only when it runs.", readable(args[0]))
		}
		roots = append(roots, args[0])
		args = args[1:]
	}
	if len(roots) == 0 {
		roots = []string{"."}
	}
	for _, root := range roots {
		w.touch(root, Read, c.at, false, false) // names alone are no secret: what is below is not read
	}
	looks, filtered := true, false
	negated := slices.ContainsFunc(args, func(a string) bool { return a == "!" || a == "-not" || a == "-o" || a == "-or" || a == "," })
	for i := 0; i < len(args); i++ {
		a := args[i]
		filtered = filtered && !negated
		if unknown(a) && maybeFlag(a) {
			w.r.add(Ask, askUnknown, "What find is told by %s is known only when it runs.", readable(a))
		}
		switch a {
		case "-exec", "-execdir", "-ok", "-okdir":
			end := slices.IndexFunc(args[i:], func(s string) bool { return s == ";" || s == "+" })
			if end < 0 {
				w.r.add(Ask, askUnparsed, "find %s has no end.", a)
				return false
			}
			inner := args[i+1 : i+end]
			w.plain(c)
			for _, root := range roots {
				w.nested(c, func() { w.inner(func() { w.exec(found(inner, root, filtered)) }) })
			}
			i += end
		case "-delete":
			looks = false
			for _, root := range roots {
				w.touch(finds(root, filtered), Write, c.at, false, true)
			}
		case "-fprint", "-fprint0", "-fls", "-fprintf":
			looks = false
			if i+1 < len(args) {
				w.touch(args[i+1], Write, c.at, false, false)
			}
		case "-files0-from":
			w.r.add(Ask, askUnknown, "Where find looks is known only when it runs.")
		case "-name", "-iname", "-path", "-ipath", "-regex", "-iregex":
			filtered = i+1 < len(args) && strings.Trim(args[i+1], ".*/\x02") != ""
		case "-newer", "-mtime", "-mmin", "-size", "-empty":
			filtered = true
		}
	}
	return looks
}

// found puts what find finds below a root into the words of a command.
func found(words []string, root string, filtered bool) []string {
	out := slices.Clone(words)
	for i := range out {
		if i == 0 && strings.Contains(out[i], "{}") {
			out[i] = string(markValue)
			continue
		}
		out[i] = strings.ReplaceAll(out[i], "{}", finds(root, filtered))
	}
	return out
}

// finds is the path of what find finds below a root: all of it, or, when it is filtered, some.
func finds(root string, filtered bool) string {
	all := strings.TrimSuffix(root, "/") + "/" + string(markBelow)
	if filtered {
		return all + "/" + string(markOne) + string(markMany)
	}
	return all
}

// below asks when a folder is gone through in which something is kept.
func (w *walker) below(root string, c *call) {
	if !unknown(root) {
		w.touch(finds(root, false), Read, c.at, false, false)
	}
}

func fd(w *walker, c *call) bool {
	for i, a := range c.args {
		if a == "-x" || a == "--exec" || a == "-X" || a == "--exec-batch" {
			w.plain(c)
			w.nested(c, func() { w.inner(func() { w.exec(append(slices.Clone(c.args[i+1:]), string(markValue))) }) })
			return false
		}
	}
	if flag(c.args, "xX", "--exec", "--exec-batch") {
		w.r.add(Ask, askRuns, "%s runs a command on what it finds.", c.name)
	}
	w.guard(c, c.args)
	for _, a := range positional(c.args) {
		w.touch(a, Read, c.at, false, false)
	}
	return true
}

// quotedIn are the strings in a program.
func quotedIn(prog string) []string {
	var out []string
	for i, part := range strings.Split(prog, `"`) {
		if i%2 == 1 && len(out) < 8 {
			out = append(out, part)
		}
	}
	return out
}

// sourceIfCommand judges a text for the floor only: it may be a command.
func (w *walker) sourceIfCommand(text string) {
	before := len(w.r.cmds)
	asks := len(w.r.findings)
	w.source(text)
	w.r.cmds = w.r.cmds[:before]
	kept := w.r.findings[:asks]
	for _, f := range w.r.findings[asks:] {
		if f.verdict == Deny {
			kept = append(kept, f)
		}
	}
	w.r.findings = kept
}

// sedLooks matches scripts that only print, delete and replace lines of what sed shows. Others may run
// commands or write files: e and w are commands of sed, and flags of s.
var sedLooks = sync.OnceValue(sedPattern)

func sedPattern() *regexp.Regexp {
	const address = `(?:\d+|\$|/(?:[^/\\\n\[]|\\.|\[\^?\]?[^\]/\n]*\])*/I?)`
	replaces := ""
	for _, d := range []string{"/", `\|`, "#", ",", "@", ":", "_", "%", "!"} {
		// A bracket must close before the delimiter: sed takes one inside brackets for a character.
		text := `(?:[^` + d + `\\\n\[]|\\.|\[\^?\]?[^\]` + d + `\n]*\])*`
		replaces += `|[sy]` + d + text + d + text + d + `[gpiIM0-9]*`
	}
	one := `\s*(?:` + address + `(?:,(?:` + address + `|[+~]\d+))?\s*!?\s*)?(?:[pdqPDhHgGxnN=l]\d*` + replaces + `)?\s*`
	return regexp.MustCompile(`^` + one + `(?:[;\n]` + one + `)*$`)
}

func sed(w *walker, c *call) bool {
	looks := true
	inPlace := flag(c.args, "i", "--in-place")
	if flag(c.args, "f", "--file") {
		w.r.add(Ask, askRuns, "sed runs a script that is not in the command.")
	}
	w.guard(c, c.args)
	pos := positional(without(c.args, sedTakes...)) // scripts that flags give are no files
	scripts := 1
	for i, a := range c.args {
		switch {
		case slices.Contains(sedTakes, a):
			scripts = 0
			if i+1 < len(c.args) {
				w.sedScript(c.args[i+1])
			}
		case strings.HasPrefix(a, "-e") || strings.HasPrefix(a, "--expression="):
			scripts = 0
			w.sedScript(strings.TrimPrefix(strings.TrimPrefix(a, "--expression="), "-e"))
		}
	}
	for i, a := range pos {
		switch {
		case i == 0 && scripts == 1:
			w.sedScript(a)
		case inPlace:
			looks = false
			w.touch(a, Write, c.at, false, false)
		default:
			w.touch(a, Read, c.at, false, false)
		}
	}
	if inPlace && len(pos) > scripts {
		w.sedEdited(c, pos[scripts:])
	}
	return looks && !inPlace
}

// sedTakes are flags whose value, a script, is the next word.
var sedTakes = []string{"-e", "--expression", "-ne", "-Ee", "-re"}

func (w *walker) sedScript(s string) {
	if !sedLooks().MatchString(s) {
		w.r.add(Ask, askRuns, "The script %q may run commands or write files.", shorten(readable(s)))
		for i, r := range s {
			switch r {
			case 'e':
				w.inner(func() { w.sourceIfCommand(s[i+1:]) })
			case 'w', 'r', 'W', 'R':
				w.suspect(strings.TrimSpace(s[i+1:]), Write)
			}
		}
	}
}

// tarDirs judges the words in the folders that -C goes to.
func (w *walker) tarDirs(c *call) {
	for i, a := range c.args {
		dir, ok := strings.CutPrefix(a, "--directory=")
		if (a == "-C" || a == "--directory") && i+1 < len(c.args) {
			dir, ok = c.args[i+1], true
		}
		if !ok {
			continue
		}
		w.inner(func() {
			cd(w, &call{name: "cd", args: []string{dir}, at: c.at})
			w.dirs = w.dirs[:1]
			w.judgeArgs(*c)
		})
	}
}

// tar can be told to run commands in many ways.
func tar(w *walker, c *call) bool {
	w.guard(c, c.args)
	for i, a := range c.args {
		name, val, ok := strings.Cut(a, "=")
		runs := false
		for _, l := range []string{"--to-command", "--checkpoint-action", "--use-compress-program", "--rsh-command", "--rmt-command", "--info-script", "--new-volume-script"} {
			runs = runs || len(name) > 4 && strings.HasPrefix(l, name)
		}
		if strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.ContainsAny(a, "IF") {
			runs = true
			if !ok && i+1 < len(c.args) {
				val = c.args[i+1]
			}
		}
		if !runs {
			continue
		}
		if !ok && val == "" && i+1 < len(c.args) {
			val = c.args[i+1]
		}
		w.r.add(Ask, askRuns, "%s %s runs a command.", c.name, shorten(readable(a)))
		w.nested(c, func() { w.inner(func() { w.source(strings.TrimPrefix(val, "exec=")) }) })
	}
	first := ""
	if len(c.args) > 0 {
		first = c.args[0]
	}
	list := flag(c.args, "t", "--list") || first != "" && first[0] != '-' && strings.Contains(first, "t")
	extracts := flag(c.args, "xcruAd", "--extract", "--get", "--create", "--append", "--update", "--delete", "--catenate", "--concatenate") || first != "" && first[0] != '-' && strings.ContainsAny(first, "xcruAd")
	if flag(c.args, "P", "--absolute-names") && extracts {
		w.r.add(Ask, askUnknown, "tar may write outside the folder it unpacks in.")
	}
	for i, a := range positional(c.args) {
		switch {
		case i == 0 && first == a:
		case list && !extracts:
			w.touch(a, Read, c.at, false, false)
		}
	}
	w.judgeArgs(*c)
	w.tarDirs(c)
	return list && !extracts
}
