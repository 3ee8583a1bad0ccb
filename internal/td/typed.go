package td

import (
	"fmt"
	"reflect"
	"strings"
)

// ShellWord makes s one word of a shell, for lines that a person is to type or to paste. Whatever stands in such a line and is not taskdaemon's own passes here: what a model called
// an option, a branch or a file must not become a command.
func ShellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("-_./:=@%+,", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Words are several words of a line that is to be typed, which are taskdaemon's own or were quoted already.
type Words string

// Typed is a line that is to be typed: each text among args becomes one word of a shell, but for Words.
func Typed(format string, args ...any) string {
	words := make([]any, len(args))
	for i, arg := range args {
		words[i] = arg
		if _, own := arg.(Words); !own && reflect.ValueOf(arg).Kind() == reflect.String {
			words[i] = ShellWord(reflect.ValueOf(arg).String())
		}
	}
	return fmt.Sprintf(format, words...)
}

// MergeLine is what a person types to merge something into a branch of theirs, wherever HEAD stands by then. A merge without the branch's name would go into
// whatever happens to be checked out. top is the checkout that has the branch, or else one that can.
func MergeLine(top, branch, what string, options ...Words) string {
	merge := Words("merge")
	for _, o := range options {
		merge += " " + o
	}
	return Typed("git -C %s switch %s && git -C %s %s %s", top, branch, top, merge, what)
}
