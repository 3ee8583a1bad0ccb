package policy

import (
	"slices"
	"strings"
)

// xargs is one with flags that are not on the table. What it runs is judged all the same.
func xargs(w *walker, c *call) bool {
	inner := operands(c.args, "-I", "-i", "-n", "-P", "-L", "-s", "-d", "-E", "-a", "--max-args", "--max-procs", "--delimiter", "--arg-file", "--replace")
	w.guard(c, c.args[:len(c.args)-len(inner)])
	if len(inner) == 0 { // it runs echo, with what a file has
		for i, a := range c.args {
			switch {
			case (a == "-a" || a == "--arg-file") && i+1 < len(c.args):
				w.touch(c.args[i+1], Read, c.at, false, false)
			case strings.HasPrefix(a, "--arg-file="):
				w.touch(a[len("--arg-file="):], Read, c.at, false, false)
			case strings.HasPrefix(a, "-a") && len(a) > 2:
				w.touch(a[2:], Read, c.at, false, false)
			}
		}
		return false
	}
	w.nested(c, func() { w.inner(func() { w.piped = true; w.exec(xargsWords(c.args, inner)) }) })
	return false
}

// xargsWords are the words of the command that xargs runs: others follow that are known only when it runs.
func xargsWords(args, inner []string) []string {
	replace := ""
	own := args[:len(args)-len(inner)]
	for i, a := range own {
		switch {
		case a == "-I" && i+1 < len(own):
			replace = own[i+1]
		case strings.HasPrefix(a, "-I"):
			replace = a[2:]
		case a == "--replace":
			replace = "{}"
		case strings.HasPrefix(a, "--replace="):
			replace = a[len("--replace="):]
		}
	}
	words := slices.Clone(inner)
	if replace == "" {
		return append(words, string(markWords))
	}
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], replace, string(markValue))
	}
	return words
}
