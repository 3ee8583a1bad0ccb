package policy

import "testing"

// A verifier's checkout lies in the state folder. It may use that one, and nothing else there.
func TestCheckoutInStateFolder(t *testing.T) {
	const state = "/home/ann/.local/state/taskdaemon"
	const own = state + "/checkouts/t1"
	at := func(workspace string) *Policy {
		t.Helper()
		p, err := New(Place{
			Workspace: workspace, Home: "/home/ann", State: state, Checkouts: state + "/checkouts", Own: []string{own + "/.taskdaemon.yaml", "/home/ann/.config/taskdaemon"},
		}, []Rule{{Verdict: Deny, Match: "Write(/src/proj/**)"}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	write := func(path string) Action {
		return Action{Tool: "Write", Paths: []PathUse{{path, Write}}, Mode: ModeAcceptEdits}
	}
	bash := func(command string) Action { return Action{Tool: "Bash", Command: command, Mode: ModeAcceptEdits} }
	for _, tc := range []struct {
		what   string
		in     string
		action Action
		denied bool
	}{
		{"a file of its own", own, write(own + "/a.go"), false},
		{"a command on its own", own, bash("touch " + own + "/a.go"), false},
		{"a program on its own", own, bash("python3 -c 'open(\"" + own + "/a\")'"), false},
		{"whom its git borrows from", own, write(own + "/.git/objects/info/alternates"), true},
		{"its project file", own, write(own + "/.taskdaemon.yaml"), true},
		{"another checkout", own, write(state + "/checkouts/t2/a.go"), true},
		{"another one that begins alike", own, write(own + "2/a.go"), true},
		{"all checkouts", own, bash("rm -rf " + state + "/checkouts"), true},
		{"the journal", own, bash("echo x > " + state + "/journal.db"), true},
		{"the journal, from here", own, bash("rm ../../journal.db"), true},
		{"the journal, by a program", own, bash("python3 -c 'open(\"" + state + "/journal.db\")'"), true},
		{"a program on another one that begins alike", own, bash("python3 -c 'open(\"" + own + "2/a\")'"), true},
		{"the settings", own, write("/home/ann/.config/taskdaemon/config.yaml"), true},
		{"what it verifies", own, write("/src/proj/a.go"), true},
		{"what it verifies, by a command", own, bash("echo x > /src/proj/a.go"), true},
		{"a task in all of the state folder", state, write(state + "/journal.db"), true},
		{"a task in all checkouts", state + "/checkouts", write(own + "/a.go"), true},
		{"a task deeper in", own + "/sub", write(own + "/sub/a.go"), true},
		{"a task in the spool", state + "/spool", write(state + "/spool/x"), true},
	} {
		if d := at(tc.in).Decide(tc.action); (d.Verdict == Deny) != tc.denied {
			t.Errorf("%s: %s by %q: %s", tc.what, d.Verdict, d.Rule, d.Why)
		}
	}
}
