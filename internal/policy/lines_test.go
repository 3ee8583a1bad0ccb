package policy

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// line is a command of the corpus, and what it is: looks, build, danger, or work, which is all that an agent types in a worktree of its own. They happen in the workspace /ws of a person
// whose home is /home/u.
type line struct{ at, class, command string }

func lines(t testing.TB) []line {
	t.Helper()
	names, err := filepath.Glob("testdata/corpus/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []line
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		read := bufio.NewScanner(f)
		for read.Scan() {
			text := read.Text()
			if text == "" || strings.HasPrefix(text, "#") {
				continue
			}
			class, command, ok := strings.Cut(text, "\t")
			if !ok || !slices.Contains([]string{"looks", "build", "work", "danger"}, class) {
				t.Fatalf("%s: %q is not a class, a tab and a command", name, text)
			}
			if strings.Contains(command, "EOF") {
				command = strings.ReplaceAll(command, `\n`, "\n")
			}
			out = append(out, line{filepath.Base(name), class, command})
		}
		if err := read.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// linesPolicy judges the corpus: a workspace with a repository, without links and odd names.
func linesPolicy(t testing.TB, rules ...Rule) *Policy {
	t.Helper()
	p, err := New(Place{
		Workspace: "/ws", Home: "/home/u", State: "/home/u/.local/state/taskdaemon", Own: []string{"/home/u/.config/taskdaemon"},
		Temp: []string{"/tmp", "/var/tmp"}, Glob: func(string) ([]string, bool) { return nil, true },
		Git: func(dir string) Git { return Git{Top: dir == "/ws"} },
	}, rules)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestLines holds the goal: nothing dangerous runs unconfined unasked, and at most three of a hundred harmless commands
// are asked about where a sandbox can hold them.
func TestLines(t *testing.T) {
	p := linesPolicy(t)
	counts, asked := map[string]int{}, map[string]int{}
	for _, l := range lines(t) {
		counts[l.class]++
		if d := p.Decide(Action{Tool: "Bash", Command: l.command, Mode: ModeAuto}); d.Confined != Unconfined {
			t.Errorf("%s: without a sandbox it counts as held: %s", l.at, l.command)
		}
		if l.class == "danger" {
			for _, mode := range []Mode{ModePlan, ModeAsk, ModeAcceptEdits} {
				for _, sandboxed := range []bool{false, true} {
					d := p.Decide(Action{Tool: "Bash", Command: l.command, Mode: mode, Sandboxed: sandboxed, Apart: true})
					if mode == ModeAcceptEdits && d.Rule == "mode "+string(ModeAcceptEdits) {
						continue // edits of files of the workspace are what this mode accepts
					}
					if d.Verdict == Allow && (d.Confined == Unconfined || d.Confined == HeldToService) {
						t.Errorf("%s: in mode %s, sandbox %v, unasked and unconfined: %s (%s)", l.at, mode, sandboxed, l.command, d.Rule)
					}
				}
			}
			continue
		}
		if d := p.Decide(Action{Tool: "Bash", Command: l.command, Mode: ModeAcceptEdits, Sandboxed: true, Apart: l.class == "work"}); d.Verdict != Allow {
			asked[l.class]++
			t.Logf("%s: %s: %s (%s: %s)", l.at, d.Verdict, l.command, d.Rule, d.Why)
		}
		if d := p.Decide(Action{Tool: "Bash", Command: l.command, Mode: ModePlan, Sandboxed: true}); l.class == "looks" && d.Verdict == Allow && d.Confined != HeldToLooking {
			t.Errorf("%s: in plan mode it runs with %q: %s", l.at, d.Confined, l.command)
		}
	}
	total := counts["danger"]
	for _, class := range []string{"looks", "build", "work"} {
		t.Logf("%d of %d %s are asked about", asked[class], counts[class], class)
		if total += counts[class]; asked[class]*100 > counts[class]*3 {
			t.Errorf("%d of %d of class %s are asked about, more than 3 %%", asked[class], counts[class], class)
		}
	}
	if t.Logf("%d are dangerous", counts["danger"]); total < 1500 {
		t.Errorf("the corpus has %d lines, want at least 1500", total)
	}
}
