package policy

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// find judges one that does something with what it finds. Without that it must be on the table.
func find(w *walker, c *call) bool {
	var own []string
	var runs [][]string
	deletes := false
	for i := 0; i < len(c.args); i++ {
		switch a := c.args[i]; a {
		case "-exec", "-execdir", "-ok", "-okdir":
			end := slices.IndexFunc(c.args[i:], func(s string) bool { return s == ";" || s == "+" })
			if end < 0 {
				w.r.add(Ask, askUnparsed, "find %s has no end.", a)
				return false
			}
			runs = append(runs, c.args[i+1:i+end])
			i += end
		case "-delete":
			deletes = true
		case "-fprint", "-fprint0", "-fls", "-fprintf":
			if i+1 < len(c.args) {
				w.touch(c.args[i+1], Write, c.at, false, false)
			}
			own = append(own, a)
		default:
			own = append(own, a)
		}
	}
	m, ok := w.matched(&call{name: "find", args: own})
	if !ok {
		w.judgeArgs(*c)
	} else {
		w.reads(c, m)
	}
	roots := findRoots(own)
	filtered := findFilters(own)
	if ok && len(runs) > 0 && !deletes {
		w.plain(c)
		if m.entry.class == classHeld {
			w.needsHold(c.at)
		}
	}
	w.r.cmds[c.at].local = ok && deletes
	for _, root := range roots {
		if deletes {
			w.touch(finds(root, filtered), Write, c.at, false, true)
		}
		for _, words := range runs {
			w.nested(c, func() { w.inner(func() { w.exec(found(words, root, filtered)) }) })
		}
	}
	return false
}

// findRoots are the folders that find goes through.
func findRoots(args []string) []string {
	var roots []string
	for _, a := range args {
		switch {
		case a == "-H" || a == "-L" || a == "-P":
			continue
		case strings.HasPrefix(a, "-") || a == "(" || a == "!":
		default:
			roots = append(roots, a)
			continue
		}
		break
	}
	if len(roots) == 0 {
		return []string{"."}
	}
	return roots
}

// findFilters reports whether find surely leaves something out.
func findFilters(args []string) bool {
	filtered := false
	for i, a := range args {
		switch a {
		case "!", "-not", "-o", "-or", ",":
			return false
		case "-name", "-iname", "-path", "-ipath", "-regex", "-iregex":
			filtered = filtered || i+1 < len(args) && strings.Trim(args[i+1], ".*/\x02") != ""
		case "-newer", "-mtime", "-mmin", "-size", "-empty":
			filtered = true
		}
	}
	return filtered
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
		if a != "-x" && a != "--exec" && a != "-X" && a != "--exec-batch" {
			continue
		}
		m, ok := w.matched(&call{name: "fd", args: c.args[:i]})
		if ok && m.entry.class <= classLook {
			w.reads(c, m)
			w.plain(c)
		}
		w.nested(c, func() { w.inner(func() { w.exec(append(slices.Clone(c.args[i+1:]), string(markValue))) }) })
		return false
	}
	if flag(c.args, "xX", "--exec", "--exec-batch") {
		w.r.add(Ask, askRuns, "%s runs a command on what it finds.", c.name)
	}
	w.judgeArgs(*c)
	return false
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
	may := w.r.may
	w.source(text)
	w.r.may = may
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

// sed judges one that is not known to look: it changes files in place, or its script may run or write something.
func sed(w *walker, c *call) bool {
	inPlace := flag(c.args, "i", "--in-place")
	if flag(c.args, "f", "--file") {
		w.r.add(Ask, askRuns, "sed runs a script that is not in the command.")
	}
	w.guard(c, c.args)
	scripts, files := sedWords(c.args)
	for _, script := range scripts {
		w.sedScript(script)
	}
	access := Read
	if inPlace {
		access = Write
	}
	for _, file := range files {
		w.touch(file, access, c.at, false, false)
	}
	if inPlace && len(files) > 0 {
		w.sedEdited(c, files)
	}
	return false
}

// sedWords are the scripts among the words of a sed and the files, read as sed reads them: flags may be joined, shortened, and stand behind files.
func sedWords(args []string) (scripts, files []string) {
	given := false // by a flag: else the first word that is none is the script
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			files = append(files, args[i+1:]...)
			break
		}
		if len(a) < 2 || a[0] != '-' {
			files = append(files, a)
			continue
		}
		letter, value, has := sedFlag(a)
		if letter == 0 {
			continue
		}
		if !has && i+1 < len(args) {
			i++
			value = args[i]
		}
		given = given || letter != 'l'
		if letter == 'e' {
			scripts = append(scripts, value)
		}
	}
	if !given && len(files) > 0 {
		return files[:1], files[1:]
	}
	return scripts, files
}

// sedFlag is the flag of a word that takes a value (e, f or l), and the value where it is in the same word; 0: none of them does.
func sedFlag(word string) (letter byte, value string, has bool) {
	if name, value, has := strings.Cut(word, "="); strings.HasPrefix(name, "--") {
		for letter, long := range map[byte]string{'e': "--expression", 'f': "--file", 'l': "--line-length"} {
			if len(name) > 2 && strings.HasPrefix(long, name) {
				return letter, value, has
			}
		}
		return 0, "", false
	}
	at := strings.IndexAny(word, "efli")
	if at < 0 || word[at] == 'i' { // what follows is the end of a name
		return 0, "", false
	}
	return word[at], word[at+1:], at+1 < len(word)
}

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
	if flag(c.args, "P", "--absolute-names") {
		w.r.add(Ask, askUnknown, "tar may write outside the folder it unpacks in.")
	}
	w.judgeArgs(*c)
	w.tarDirs(c)
	return false
}
