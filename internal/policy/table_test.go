package policy

import (
	"slices"
	"strings"
	"testing"
)

// The table can be read, and no line of it lets a command that is not held take words that nobody listed.
func TestTable(t *testing.T) {
	table, err := parseTable(commandTable)
	if err != nil {
		t.Fatal(err)
	}
	judging := []string{"any", "version", "versions", "tarlist"}
	harmless := []string{"echo", "true", "false", ":", "expr", "exit", "return", "break", "continue", "umask", "ulimit"}
	for key, entries := range table {
		for _, e := range entries {
			if e.class > classLook && e.class != classReach {
				continue
			}
			if e.free && (!slices.Contains(judging, e.operands[0].kind) || e.operands[0].kind == "any" && !slices.Contains(harmless, key)) {
				t.Errorf("%s: any words, unconfined", key)
			}
		}
	}
	for _, text := range []string{"[look]\nx : -a=nothing : none", "[look]\nx : a : none", "[look]\nx : : nothing", "[odd]", "x : : none", "[look]\nx"} {
		if _, err := parseTable(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// Flags are taken apart exactly: a shortened, clustered or attached one is on the list, or the command is not.
func TestMatcher(t *testing.T) {
	p := linesPolicy(t)
	for command, want := range map[string]bool{
		"head -n5 f": true, "head -qn 5 f": true, "head --lines=5 f": true, "head --lines 5 f": true, "head --line=5 f": false,
		"head -5 f": true, "head -n": false, "head -x f": false, "grep -e x -- -f": true, "grep -- -f": true, "grep": false,
		"sort -k2 -t, f": true, "sort -kof f": true, "sort -uo f": false, "git log -n5": true, "git log --onelin": false,
		"find . -name x -type f": true, "find . -nam x": false, "go doc -all fmt": true, "go doc --all fmt": true,
		"jq --arg a b . f": true, "jq --arg a": false, "./ls": false, "bin/git status": false, "/usr/bin/git status": true, "/ws/ls": false,
		"git stash": false, "git branch x": false, "git branch --list x": true, "tar tvf a": true, "tar tvfI a b": false,
		"bash": false, "node": false, "node --version": true, "node --version x": false,
	} {
		d := p.Decide(Action{Tool: "Bash", Command: command, Mode: ModeAsk})
		if got := d.Verdict == Allow; got != want {
			t.Errorf("%s: %s (%s), want allowed %v", command, d.Verdict, d.Why, want)
		}
	}
}

func FuzzTable(f *testing.F) {
	f.Add("[look]\nls : -la --all : path*")
	f.Add("[wrap]\nnice : -n=text -# : cmd")
	f.Add("A = -b\n[build]\nmake : ... : build")
	f.Fuzz(func(t *testing.T, text string) {
		if table, err := parseTable(text); err == nil && strings.Contains(text, "[look]") && table == nil {
			t.Error("no table and no error")
		}
	})
}
