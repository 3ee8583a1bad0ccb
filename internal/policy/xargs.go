package policy

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// xargs runs a command with words that nobody has seen yet. Where they are names that another command has
// found in the workspace, a command that only looks can at worst read those. They must be ended by zero
// bytes: a name may hold blanks and newlines, and "x /etc/shadow" of a folder called "x " would be two.
func xargs(w *walker, c *call) bool {
	inner := operands(c.args, "-I", "-i", "-n", "-P", "-L", "-s", "-d", "-E", "-a", "--max-args", "--max-procs", "--delimiter", "--arg-file", "--replace")
	own := c.args[:len(c.args)-len(inner)]
	w.guard(c, own)
	if len(inner) == 0 {
		inner = []string{"echo"}
	}
	replace := ""
	for i, a := range c.args {
		if strings.HasPrefix(a, "-I") && len(a) > 2 {
			replace = a[2:]
		} else if a == "-I" && i+1 < len(c.args) {
			replace = c.args[i+1]
		}
	}
	value, more := string(markValue), []string{string(markWords)}
	if w.listed != nil && w.looksAt(inner) && byZero(own) {
		value, more = finds(w.listed.roots[0], true), nil
		for _, root := range w.listed.roots {
			more = append(more, finds(root, true))
		}
		if len(w.listed.roots) > 1 && replace != "" {
			value = string(markValue)
		}
	}
	words := slices.Clone(inner)
	if replace == "" {
		words = append(words, more...)
	}
	for i := range words {
		if replace != "" {
			words[i] = strings.ReplaceAll(words[i], replace, value)
		}
	}
	w.plain(c)
	w.nested(c, func() { w.inner(func() { w.piped = true; w.exec(words) }) })
	return false
}

// xargsFlag is a flag of xargs that changes nothing in what the words are, apart from a zero among its
// letters. The value of its last letter may be a word of its own.
var xargsFlag = regexp.MustCompile(`^-(?:([0rt]*)(?:[nPI](.*))?|-null|-no-run-if-empty|-max-(?:args|procs)=[0-9]+)$`)

// byZero reports whether the words of xargs end where zero bytes are.
func byZero(flags []string) bool {
	zero := false
	for i := 0; i < len(flags); i++ {
		m := xargsFlag.FindStringSubmatch(flags[i])
		if m == nil {
			return false
		}
		zero = zero || flags[i] == "--null" || strings.Contains(m[1], "0")
		if m[2] == "" && strings.ContainsAny(flags[i][len(flags[i])-1:], "nPI") {
			i++
		}
	}
	return zero
}

// looksAt reports whether a command only looks, whichever names it is given: none of them can turn into a
// flag that does more. Names that find prints begin with the folder it was given.
func (w *walker) looksAt(words []string) bool {
	l, ok := looking[words[0]]
	if !ok || len(w.funcs[words[0]]) > 0 || l.most != 0 || l.takes == nothing {
		return false
	}
	harmless := l.bad == "" && len(l.longs) == 0 && len(l.words) == 0 && !l.bare && words[0] != "wc"
	return harmless || w.listed.flagless || slices.Contains(words, "--")
}

// names are what a command hands on: some that lie below folders of the workspace, each ended by a zero
// byte.
type names struct {
	roots    []string
	flagless bool // none begins with a dash
}

// lists are the names that the commands between from and to have found in the workspace and print, when they
// do nothing but that: a lister, and after it only what leaves some of the names out.
func (w *walker) lists(from, to int) *names {
	if from == to {
		return nil
	}
	for i, c := range w.r.cmds[from:to] {
		if !c.looks || c.plain || slices.ContainsFunc(c.words, unknown) || i > 0 && !sieves(c.words) {
			return nil
		}
	}
	fed := func(u use) bool {
		return u.redir && u.cmd >= from && u.cmd <= to && !(u.access == Write && harmlessSink(u.path))
	}
	if slices.ContainsFunc(w.r.uses, fed) || len(w.dirs) != 1 {
		return nil
	}
	roots, ok := listed(w.r.cmds[from].words)
	if !ok {
		return nil
	}
	for _, root := range roots {
		if unknown(w.dirs[0]) || !w.p.inWorkspace(w.p.canonical(w.dirs[0], root, w.links)) {
			return nil
		}
	}
	return &names{roots: roots, flagless: w.r.cmds[from].words[0] == "find"}
}

// sieves reports whether a command prints some of the names it reads, as they are: it takes them by the zero
// bytes, too.
func sieves(words []string) bool {
	args := words[1:]
	switch words[0] {
	case "grep", "egrep", "fgrep":
		return len(positional(args)) == 1 && onlyFlags(args, "vizwxFE") && flag(args, "z")
	case "head", "tail", "sort", "uniq":
		return flag(args, "z") && !slices.ContainsFunc(args, func(a string) bool { return !sieveFlag.MatchString(a) })
	}
	return false
}

// sieveFlag is a flag of a sieve, or the number that belongs to one.
var sieveFlag = regexp.MustCompile(`^([-+]?[0-9]+|-[nruVfz]+[0-9]*)$`)

// listed are the folders that a command lists names of, each with a zero byte after it, if that is what it does.
func listed(words []string) (roots []string, ok bool) {
	args := words[1:]
	switch words[0] {
	case "find":
		for _, a := range args {
			if strings.HasPrefix(a, "-") && !slices.Contains(findTests, a) && strings.Trim(a[1:], "0123456789") != "" {
				return nil, false
			}
		}
		for len(args) > 0 && !strings.HasPrefix(args[0], "-") && args[0] != "(" && args[0] != "!" {
			roots, args = append(roots, args[0]), args[1:]
		}
		ok = slices.Contains(words, "-print0") && !slices.Contains(words, "-print")
	case "fd", "fdfind": // of what follows the text is not told apart from folders
		roots = append(positional(args), ".")
		ok = flag(args, "0", "--print0") && onlyFlags(args, "eHIgst0", "--extension", "--type", "--hidden", "--glob", "--print0")
	case "rg":
		roots = append(positional(args), ".")
		ok = flag(args, "l", "--files-with-matches", "--files") && flag(args, "0", "--null") &&
			onlyFlags(args, "lingtwFsS0", "--files", "--files-with-matches", "--null", "--hidden", "--type", "--glob")
	case "git":
		if len(args) == 0 || args[0] != "ls-files" {
			return nil, false
		}
		roots, ok = append(positional(args[1:]), "."), onlyFlags(args[1:], "cdmoz", "--cached", "--deleted", "--modified", "--others", "--exclude-standard")
		ok = ok && flag(args, "z") && !slices.ContainsFunc(roots, func(r string) bool { return strings.HasPrefix(r, ":") })
	}
	if len(roots) == 0 {
		roots = []string{"."}
	}
	for i, r := range roots {
		if !certain(r) { // names that match a glob lie in the folder before it
			roots[i] = path.Dir(r[:strings.IndexAny(r, "\x02\x03\x04")] + "x")
		}
	}
	if slices.Contains(roots, ".") {
		roots = slices.DeleteFunc(roots, func(r string) bool { return r != "." && !path.IsAbs(r) && !strings.Contains(r, "..") })
	}
	return slices.Compact(roots), ok
}

// findTests are the words of find that choose, and print names as they are.
var findTests = []string{
	"-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-regextype", "-type", "-maxdepth", "-mindepth", "-newer", "-mtime", "-mmin",
	"-ctime", "-cmin", "-atime", "-amin", "-size", "-empty", "-perm", "-user", "-group", "-prune", "-print", "-print0", "-not", "-o", "-or", "-a", "-and",
	"-xdev", "-mount", "-depth", "-true", "-false", "-executable", "-readable", "-writable", "-H", "-P",
}
