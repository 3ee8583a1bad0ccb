package policy

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// repeat writes a text of numbers: each of n copies has its own.
func repeat(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// A command is judged in the daemon: whatever it says, judging it takes little memory and time.
func TestJudgingIsBounded(t *testing.T) {
	double := strings.Repeat("a=$a$a; ", 22)
	numbers := repeat(22, "a=$a$a; #%d\n")
	for name, command := range map[string]string{
		"doubled":          "a=xx; " + double + "cat $a",
		"doubled lines":    "a=xx; " + numbers + "cat $a",
		"doubled quoted":   "a=xx; " + strings.Repeat(`a="$a$a"; `, 22) + `cat "$a"`,
		"doubled exported": "A=xx; " + strings.Repeat("export A=$A$A; ", 22) + "cat $A",
		"doubled in loop":  "a=xx; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do a=$a$a; cat $a; done",
		"doubled by call":  "a=xx; f() { a=$a$a; }; " + strings.Repeat("f; ", 22) + "cat $a",
		"doubled default":  "a=xx; " + strings.Repeat("a=${a:-x}${a:-x}; ", 22) + "cat $a",
		"doubled document": "a=xx; " + strings.Repeat("a=$a$a; ", 16) + "cat <<E\n" + strings.Repeat("$a", 2000) + "\nE",
		"many words":       "a='" + strings.Repeat("x ", 2000) + "'; cat " + strings.Repeat("$a ", 8000),
		"many braces":      "a='" + strings.Repeat("x ", 2000) + "'; cat " + strings.Repeat("{$a,$a}", 1000),
		"empty braces":     "a=; cat " + strings.Repeat("{$a,$a}", 30),
		"many empty words": "a=; cat " + strings.Repeat(strings.Repeat("{$a,$a}", 14)+" ", 400),
		"sequences":        "cat " + strings.Repeat("{1..200}{1..200} ", 2000),
		"long sequence":    "cat {" + strings.Repeat("0", 30000) + "1..300}",
		"array":            "a=xx; " + double + "b=(" + strings.Repeat("$a ", 2000) + "); cat ${b[@]}",
		"format":           "a=$'%1000000000d'; printf '%1000000000d' 1; cat $a",
		"many paths":       "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do cat " + repeat(9000, "f%d ") + "; done",
		"many findings":    "cat " + repeat(6000, "f%d$x "),
		"many variables":   repeat(6000, "v%d= ") + "; " + strings.Repeat("$(:)", 1900),
		"many branches":    repeat(5000, "v%d= ") + "; " + strings.Repeat(":&&", 1900) + ":",
		"deep path":        "cat " + strings.Repeat("a/", 30000),
		"deep list":        "mytool " + strings.Repeat("/a:", 20000),
		"long list":        strings.Repeat(":&&", 15000) + ":",
		"long tests":       strings.Repeat("[[ a ]]||", 5000) + ":",
		"many sources":     "a='" + strings.Repeat(": ", 15000) + "'; " + strings.Repeat(`eval "$a"; `, 1900),
		"many guesses":     "mytool " + repeat(9000, "f%d "),
		"many suspects":    "mytool " + strings.Repeat("a=b:c,d ", 7000),
		"many texts":       repeat(1900, "mytool a%d $x; "),
		"long texts":       strings.Repeat("mytool "+strings.Repeat("a ", 1500)+"$x; ", 20),
		"many globs":       "cat " + strings.Repeat("*/* ", 9000),
		"nested loops":     strings.Repeat("while :; do ", 500) + repeat(8000, "f%d ") + strings.Repeat("; done", 500),
		"nested functions": strings.Repeat("f() { ", 2000) + ":" + strings.Repeat(" & }", 2000),
		"nested brackets":  strings.Repeat("( ", 15000) + ":" + strings.Repeat(" )", 15000),
		"arithmetic":       "echo $((" + strings.Repeat("(", 20000) + "1" + strings.Repeat(")", 20000) + "))",
	} {
		p := linesPolicy(t, rule("deny Read(**/secret.txt)"), rule("deny Write(infra/**)"), rule("deny Bash(git push * x)"), rule("ask WebFetch(*.example)"))
		for _, sandboxed := range []bool{false, true} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			d := p.Decide(Action{Tool: "Bash", Command: command, Mode: ModeAcceptEdits, Sandboxed: sandboxed, Apart: sandboxed})
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 128 || took > time.Minute { // only what grows without end gets there
				t.Errorf("%s: %d MiB and %v to judge it", name, used, took)
			}
			if len(d.Why) > 4096 {
				t.Errorf("%s: the reason is %d bytes long", name, len(d.Why))
			}
		}
	}
}

// A text that grew too long to be followed is one that is known only when it runs: nothing is concluded from it.
func TestLongValuesAreUnknown(t *testing.T) {
	long := "a=/; " + strings.Repeat("a=$a$a; ", 17)
	for _, command := range []string{long + "touch $a", long + "$a", long + "bash -c $a", long + `bash -c "ls $a"`, long + `gh pr view "$a"`} {
		p := linesPolicy(t)
		if d := p.Decide(Action{Tool: "Bash", Command: command, Mode: ModeAcceptEdits, Sandboxed: true}); d.Verdict == Allow && d.Confined == Unconfined {
			t.Errorf("%s: %s by %s", command[len(long):], d.Verdict, d.Rule)
		}
	}
}

// A path may come from a tool as well, and be as long as its call.
func TestLongPathsAreCheap(t *testing.T) {
	p := linesPolicy(t)
	start := time.Now()
	d := p.Decide(Action{Tool: "Read", Paths: []PathUse{{Path: "/ws/" + strings.Repeat("a/", 200000), Access: Read}}, Looks: true})
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("%v to judge a long path", took)
	}
	if len(d.Why) > 4096 {
		t.Errorf("the reason is %d bytes long", len(d.Why))
	}
	detour := "/ws/" + strings.Repeat("a/../", 2000) + "../home/u/.ssh/id_rsa"
	if d := p.Decide(Action{Tool: "Read", Paths: []PathUse{{Path: detour, Access: Read}}, Looks: true}); d.Verdict != Deny {
		t.Errorf("a detour to credentials: %s", d.Verdict)
	}
}
