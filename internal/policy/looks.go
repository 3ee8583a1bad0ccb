package policy

import (
	"slices"
	"strings"
)

// takes says which words of a looking command are paths.
type takes int

const (
	files     takes = iota // all that are not flags
	nothing                // none: text, names
	afterText              // all but the first, which is a pattern or an expression
	trees                  // like files; folders are gone through
	textTrees              // like afterText; folders are gone through
)

// look is a command that only looks, apart from some flags.
type look struct {
	takes takes
	bad   string   // letters of flags by which it writes or runs something
	longs []string // long names of such flags
	text  string   // letters of flags that give the text, so that the first word is a path
	walks string   // letters of flags by which folders are gone through
	words []string // parts of words by which it tells or reads something else
	bare  bool     // no flag of it is known: any makes it more than looking
	most  int      // so many paths are read, a further one is written; zero: any number
}

// looking are the commands known to only look.
var looking = map[string]look{
	"ls": {}, "cat": {}, "head": {}, "tail": {}, "wc": {}, "tac": {}, "nl": {}, "od": {}, "hexdump": {bad: "f", longs: []string{"--format-file"}},
	"strings": {}, "stat": {}, "du": {bad: "X", longs: []string{"--files0-from", "--exclude-from"}}, "df": {}, "readlink": {}, "realpath": {},
	"rev": {}, "fold": {}, "fmt": {}, "expand": {}, "unexpand": {}, "paste": {}, "join": {}, "comm": {}, "cmp": {}, "column": {},
	"md5sum": {}, "sha1sum": {}, "sha256sum": {}, "sha512sum": {}, "b2sum": {}, "cksum": {}, "cut": {}, "base64": {}, "base32": {}, "zcat": {},
	"bzcat": {}, "xzcat": {longs: []string{"--files", "--files0"}}, "tsort": {}, "pr": {}, "numfmt": {takes: nothing}, "test": {}, "[": {},
	"lsof": {bare: true}, "nm": {longs: []string{"--plugin"}}, "objdump": {longs: []string{"--plugin"}}, "readelf": {},
	"file": {bad: "Cfm", longs: []string{"--compile", "--files-from", "--magic-file"}},
	"tree": {bad: "oR", longs: []string{"--output", "--fromfile", "--fromtabfile", "--infofile"}}, "xxd": {bad: "r", most: 1}, "uniq": {most: 1},
	"sort":  {bad: "oST", longs: []string{"--output", "--compress-program", "--files0-from", "--temporary-directory"}},
	"diff":  {takes: files, walks: "r", longs: []string{"--to-file", "--from-file", "--exclude-from"}, bad: "X"},
	"diff3": {longs: []string{"--diff-program"}}, "sdiff": {bad: "o", longs: []string{"--output", "--diff-program"}},
	"grep": {takes: afterText, text: "ef", walks: "rR"}, "egrep": {takes: afterText, text: "ef", walks: "rR"},
	"fgrep": {takes: afterText, text: "ef", walks: "rR"}, "zgrep": {takes: afterText, text: "ef"},
	"rg": {takes: textTrees, text: "ef", longs: []string{"--pre", "--pre-glob", "--hostname-bin", "--search-zip"}, bad: "z"},
	"ag": {takes: textTrees, bare: true},
	"jq": {takes: afterText, text: "fLn", longs: []string{"--from-file", "--rawfile", "--slurpfile", "--argfile"}, words: []string{"env", "ENV", "import", "include"}},
	"yq": {takes: afterText, bad: "is", longs: []string{"--inplace", "--split-exp"}, words: []string{"env", "load"}},
	"tr": {takes: nothing}, "echo": {takes: nothing}, "pwd": {takes: nothing}, "true": {takes: nothing}, "false": {takes: nothing},
	":": {takes: nothing}, "whoami": {takes: nothing}, "id": {takes: nothing}, "groups": {takes: nothing}, "uname": {takes: nothing},
	"arch": {takes: nothing}, "nproc": {takes: nothing}, "uptime": {takes: nothing}, "free": {takes: nothing},
	"ps": {takes: nothing, words: []string{"env"}}, "pgrep": {takes: nothing}, "pidof": {takes: nothing},
	"tty": {takes: nothing}, "which": {takes: nothing}, "whereis": {takes: nothing}, "type": {takes: nothing}, "basename": {takes: nothing},
	"dirname": {takes: nothing}, "seq": {takes: nothing}, "sleep": {takes: nothing}, "expr": {takes: nothing}, "cal": {takes: nothing},
	"getconf": {takes: nothing}, "locale": {takes: nothing}, "exit": {takes: nothing}, "return": {takes: nothing}, "break": {takes: nothing},
	"continue": {takes: nothing}, "times": {takes: nothing}, "umask": {takes: nothing}, "ulimit": {takes: nothing}, "lscpu": {takes: nothing},
	"lsblk":    {takes: nothing},
	"date":     {takes: nothing, bad: "sf", longs: []string{"--set", "--file"}},
	"hostname": {takes: nothing, bad: "FbB", longs: []string{"--file", "--boot"}, most: -1}, "yes": {takes: nothing},
	"tokei": {takes: trees, bare: true}, "cloc": {takes: trees, bare: true}, "shellcheck": {bare: true},
}

// judge judges the words of a looking command, and reports whether it looks.
func (l look) judge(w *walker, c *call) bool {
	risky := l.bad != "" || l.bare || len(l.words) > 0 || len(l.longs) > 0
	for _, a := range c.args {
		if maybeFlag(a) && risky {
			w.r.add(Ask, askUnknown, "%s is given %s, which may be a flag.", c.name, shorten(readable(a)))
		}
	}
	looks := !flag(c.args, l.bad, l.longs...) && !l.more(c)
	if !looks {
		w.judgeArgs(*c)
		for _, a := range positional(c.args) {
			w.touch(a, Write, c.at, false, false)
		}
		return false
	}
	w.flagValues(c)
	paths := positional(c.args)
	if l.takes == nothing {
		return l.most == 0 || len(paths) == 0
	}
	if c.name == "[" || c.name == "test" {
		w.tested(c)
		paths = operandsOfTest(paths)
	}
	if (l.takes == afterText || l.takes == textTrees) && !flag(c.args, l.text, "--regexp", "--file") && len(paths) > 0 {
		if strings.ContainsRune(paths[0], markWords) {
			w.r.add(Ask, askUnknown, "%s is given %s, which is known only when it runs.", c.name, shorten(readable(paths[0])))
		}
		paths = paths[1:]
	}
	if l.most > 0 && len(paths) > l.most {
		for _, a := range paths[l.most:] {
			w.touch(a, Write, c.at, false, false)
		}
		looks = false
	}
	deep := l.takes == trees || l.takes == textTrees || l.walks != "" && flag(c.args, l.walks, "--recursive", "--dereference-recursive")
	if deep && len(paths) == 0 {
		paths = []string{"."}
	}
	for _, a := range paths {
		w.touch(a, Read, c.at, false, false)
		if deep {
			w.below(a, c)
		}
	}
	return looks
}

// more reports whether words of a command make it more than looking, by what it is.
func (l look) more(c *call) bool {
	for i, a := range c.args {
		if l.bare && len(a) > 1 && a[0] == '-' || slices.ContainsFunc(l.words, func(s string) bool { return strings.Contains(a, s) }) {
			return true
		}
		plain := a != "" && a[0] != '-'
		valued := i > 0 && len(c.args[i-1]) > 1 && c.args[i-1][0] == '-'
		switch {
		case c.name == "ps" && plain && strings.Contains(a, "e"): // without a dash it shows environments
			if !valued || !strings.ContainsAny(c.args[i-1][len(c.args[i-1])-1:], "oOCuUpgGts") {
				return true
			}
		case c.name == "wc" && strings.HasPrefix(a, "--f"): // --files0-from; a glob is no reason to ask
			return true
		case c.name == "date" && plain && a[0] != '+' && !valued: // it sets the clock
			return true
		}
	}
	return false
}

// flagValues judges values of flags, which may be paths, too: --file=x, -fx.
func (w *walker) flagValues(c *call) {
	for _, a := range c.args {
		if !strings.HasPrefix(a, "-") {
			continue
		}
		for _, cand := range w.candidates(a) {
			if strings.Contains(cand, "/") || sensitive(cand) {
				w.touch(cand, Read, c.at, false, false)
			}
		}
	}
}

// operandsOfTest are the words of a test that may be paths.
func operandsOfTest(words []string) []string {
	var out []string
	for _, a := range words {
		switch a {
		case "]", "=", "==", "!=", "!", "(", ")", "<", ">":
		default:
			if strings.Contains(a, "/") && certain(a) {
				out = append(out, a)
			}
		}
	}
	return out
}
