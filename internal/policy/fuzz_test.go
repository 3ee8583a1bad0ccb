package policy

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzDecide(f *testing.F) {
	for _, e := range corpus(f) {
		f.Add(e.action.Command, string(e.action.Mode))
	}
	p, err := New(place(), nil)
	if err != nil {
		f.Fatal(err)
	}
	everything, err := New(place(), []Rule{{Verdict: Allow, Match: "Bash"}, {Verdict: Allow, Match: "Read"}, {Verdict: Allow, Match: "Write"}, {Verdict: Allow, Match: "WebFetch"}})
	if err != nil {
		f.Fatal(err)
	}
	stricter, err := New(place(), []Rule{rule("deny Read(**/a)"), rule("deny Write(src/**)"), rule("deny Bash(git push *)"), rule("ask WebFetch(*.example)")})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, command, mode string) {
		if command == "" {
			return
		}
		a := Action{Tool: "Bash", Command: command, Mode: Mode(mode), Sandboxed: true}
		apart := a
		apart.Apart = true
		if free, held := p.Decide(apart), stricter.Decide(apart); rank(held.Verdict) < rank(free.Verdict) {
			t.Errorf("%q: %s, and with rules against it %s", command, free.Verdict, held.Verdict)
		}
		d := p.Decide(a)
		loose := everything.Decide(a)
		if d.Fixed && loose.Verdict == Allow {
			t.Errorf("%q: fixed as %s (%s), and a rule allows it", command, d.Verdict, d.Why)
		}
		if d.Verdict == Deny && d.Floor && !loose.Floor {
			t.Errorf("%q: rules lift the floor", command)
		}
		if d.Verdict == Allow && d.Confined == Unconfined && !d.Looks {
			t.Errorf("%q changes something, and runs unconfined unasked (%s)", command, d.Rule)
		}
		if d.Why == "" || d.Rule == "" {
			t.Errorf("%q: %s without a reason", command, d.Verdict)
		}
		if !utf8.ValidString(command) {
			return
		}
		// What is added before or after makes nothing more harmless.
		worse(t, p, a, "true && "+command, d)
		worse(t, p, a, "ls; "+command, d)
		a.Command = command + "\nrm -rf ~"
		if got := p.Decide(a); got.Verdict == Allow && got.Confined == Unconfined && !strings.Contains(command, "\\") && !strings.Contains(command, "<<") && !strings.Contains(command, "#") {
			t.Errorf("%q and then rm -rf ~ is allowed", command)
		}
	})
}

// worse fails when source is allowed, and not held by a sandbox, though the command in it was not.
func worse(t *testing.T, p *Policy, a Action, source string, d Decision) {
	t.Helper()
	a.Command = source
	if got := p.Decide(a); got.Verdict == Allow && got.Confined == Unconfined && d.Verdict != Allow {
		t.Errorf("%q is allowed; without what was added it is %s (%s)", source, d.Verdict, d.Why)
	}
}

func FuzzRule(f *testing.F) {
	for _, s := range []string{"Bash(go test *)", "Bash(git push:*)", "Write(infra/**)", "WebFetch(*.example.com)", "mcp__notes__*", "Read", "Bash(", "Write([)", "Read(~/x)", "()", "Bash()"} {
		f.Add(s, "ls -la", "/src/proj/infra/x")
	}
	f.Fuzz(func(t *testing.T, match, command, path string) {
		for _, v := range []Verdict{Allow, Ask, Deny} {
			p, err := New(place(), []Rule{{Verdict: v, Match: match, From: FromUser}})
			if err != nil {
				if !strings.Contains(err.Error(), FromUser) {
					t.Errorf("the error does not name the place: %v", err)
				}
				continue
			}
			p.Decide(Action{Tool: "Bash", Command: command})
			if strings.HasPrefix(path, "/") {
				p.Decide(Action{Tool: "Write", Paths: []PathUse{{Path: path, Access: Write}}})
			}
		}
	})
}
