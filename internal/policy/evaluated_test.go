package policy

import (
	"fmt"
	"strings"
	"testing"
)

// evaluators are the places at which the shell evaluates a word that is quoted: a subscript in it is
// expanded, and the commands in that run.
var evaluators = []string{
	"jobs -x %s", "x=%s; echo $((x))", "x=%s; echo $(($x))", "x=%s; (( x ))", "x=%s; (( x += 1 ))", "x=%s; let x", "x=%s; let y=x", "let %s", "let y=%s",
	"x=%s; for ((i=0; i<x; i++)); do ls; done", "x=%s; echo ${y:x}", "x=%s; echo ${y:0:x}", "x=%s; echo ${y[x]}", "x=%s; y[x]=1", "x=%s; y=([x]=1)", "x=%s; echo ${!x}", "x=%s; echo ${x@P}",
	"[ -v %s ]", "test -v %s", "[ a = b -o -v %s ]", "[[ -v %s ]]", "[[ -R %s ]]", "[[ %s -eq 0 ]]", "[[ 0 -ne %s ]]", "[[ 0 -lt %s ]]", "[[ 0 -le %s ]]", "[[ 0 -gt %s ]]", "[[ 0 -ge %s ]]", "x=%s; [[ x -eq 0 ]]",
	"printf -v %s y", "printf -v%s y", "read %s", "read -r %s", "read -a %s", "read -p y %s", "read -n1 %s", "read -d '' -t 5 %s", "read y %s", "mapfile %s", "readarray -t %s", "getopts a %s", "unset %s", "unset -v %s", "wait -p %s", "wait -n -p %s",
	"declare %s=1", "typeset %s=1", "declare -i y=%s", "declare -i y; y=%s", "declare -n y=%s", "RANDOM=%s", "OPTIND=%s", "HISTCMD=%s", "BASHPID+=%s",
	"f() { echo $(($1)); }; f %s", "x=1; x=%s eval 'echo $((x))'", "for x in 1 %s; do echo $((x)); done", "x=1; if ls; then x=%s; fi; echo $((x))", "x=%s; (( 0 && (x=1) )); echo $((x))", "x=1; while ls; do echo $((x)); x=%s; done",
	"x=1; f() { x=%s; }; f; echo $((x))", "x=%s; f() { local x=1; }; f; echo $((x))",
}

func FuzzEvaluated(f *testing.F) {
	for _, s := range []string{"touch y", "ls", "", "echo 1", "'", "x]=$(", "\n", "a b", "1"} {
		f.Add(s)
	}
	p, err := New(place(), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, command string) {
		for _, operand := range []string{"a[$(" + command + ")]", "a[`" + command + "`]", "1+a[$(" + command + ")]"} {
			word := "'" + strings.ReplaceAll(operand, "'", `'\''`) + "'"
			for _, form := range evaluators {
				d := p.Decide(Action{Tool: "Bash", Command: fmt.Sprintf(form, word), Mode: ModeAuto, Sandboxed: true})
				if d.Looks || d.Verdict == Allow {
					t.Errorf("%s: %s by %s: the shell runs what is in the brackets", fmt.Sprintf(form, word), d.Verdict, d.Rule)
				}
			}
		}
	})
}
