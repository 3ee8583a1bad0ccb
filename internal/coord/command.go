package coord

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// simple are the simple commands of shell source, each as its words, as far as these are written out: what
// only the shell would know is left as it stands. Leases are no guard rail: a command hidden well enough
// runs without one.
func simple(source string) (out [][]string) {
	if source == "" {
		return nil
	}
	file, err := syntax.NewParser().Parse(strings.NewReader(source), "")
	if err != nil {
		return [][]string{strings.Fields(source)}
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		call, is := n.(*syntax.CallExpr)
		if !is {
			return true
		}
		var words []string
		for _, w := range call.Args {
			words = append(words, literal(source, w))
		}
		if words = unwrap(words); len(words) > 0 {
			out = append(out, words)
		}
		return true
	})
	return out
}

// literal is a word as it would be read if nothing in it depended on the shell's state.
func literal(source string, w *syntax.Word) string {
	var b strings.Builder
	var part func(p syntax.WordPart)
	part = func(p syntax.WordPart) {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(p.Value, `\`, ""))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				part(q)
			}
		default:
			size := uint(len(source))
			b.WriteString(source[min(p.Pos().Offset(), size):min(p.End().Offset(), size)])
		}
	}
	for _, p := range w.Parts {
		part(p)
	}
	return b.String()
}

// unwrap takes away what only runs another command, with its flags and settings.
func unwrap(words []string) []string {
	for len(words) > 1 && slices.Contains(wrappers, path.Base(words[0])) {
		words = words[1:]
		for len(words) > 1 && (strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=")) {
			words = words[1:]
		}
	}
	return words
}

var wrappers = []string{"env", "nice", "nohup", "time", "command", "exec", "ionice", "sudo"}

// looking are the commands of git that change nothing that two tasks could get into each other's way over.
var looking = []string{
	"status", "log", "diff", "show", "rev-parse", "ls-files", "ls-tree", "blame", "grep", "describe", "cat-file",
	"rev-list", "shortlog", "merge-base", "for-each-ref", "show-ref", "name-rev", "whatchanged", "help", "version",
	"check-ignore", "check-attr", "var", "ls-remote", "diff-tree", "diff-files", "diff-index", "count-objects", "fsck",
}

// valued are the flags of git itself that take the next word.
var valued = []string{"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"}

// writesRepo reports whether the command is one of git that may change the repository.
func writesRepo(words []string) bool {
	if len(words) == 0 || path.Base(words[0]) != "git" {
		return false
	}
	for i := 1; i < len(words); i++ {
		switch w := words[i]; {
		case slices.Contains(valued, w):
			i++
		case !strings.HasPrefix(w, "-"):
			return !slices.Contains(looking, w)
		}
	}
	return false
}
