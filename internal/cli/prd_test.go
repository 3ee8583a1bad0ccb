package cli

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
)

// authors of a feature: one asks and writes the spec, one reviews it, and so on.
const authors = `
scenes:
  - when: Write the spec of a feature
    turns:
      - tools: [{name: Ask, input: {question: "How long?"}}]
      - expect: two weeks
        tools: [{name: Write, input: {path: .taskdaemon/prds/remember-me/spec.md, content: "Remember the name for two weeks.\n"}}]
      - tools: [{name: Complete, input: {summary: the spec is written}}]
  - when: Review the spec of a feature
    turns:
      - tools: [{name: Read, input: {path: .taskdaemon/prds/remember-me/spec.md}}]
      - tools: [{name: Edit, input: {path: .taskdaemon/prds/remember-me/spec.md, old_string: "weeks.", new_string: "weeks, not longer."}}]
      - tools: [{name: Complete, input: {summary: the spec is clear}}]
  - when: Write the plan of a feature
    turns:
      - text: How shall it be done?
      - tools: [{name: Write, input: {path: .taskdaemon/prds/remember-me/plan.md, content: "Use a cookie.\n"}}]
      - tools: [{name: Complete, input: {summary: the plan is written}}]
  - when: Review the plan of a feature
    turns:
      - tools: [{name: Complete, input: {summary: the plan is good}}]
  - when: Make tasks of the plan
    turns:
      - tools: [{name: PlanTasks, input: {tasks: [{title: Bake the cookie, text: and set it}]}}]
      - tools: [{name: Complete, input: {summary: one task}}]
`

// On a terminal a person is interviewed in place, sees what each author did, and is asked before the next document and
// before tasks are made. Who says no comes back later to the very same place.
func TestCreateAFeatureOnATerminal(t *testing.T) {
	p := newProgram(t)
	p.must(t, "init")
	script := p.script(t, authors)
	// said is a question that is waited for, and what is typed then.
	type said struct{ question, answer string }
	create := func(talk ...said) string {
		t.Helper()
		cmd := p.cmd("prd", "create", "Remember me", "--rehearse", script)
		cmd.Env = append(cmd.Env, "TERM=xterm", "NO_COLOR=1")
		tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 200})
		if err != nil {
			t.Fatal(err)
		}
		defer tty.Close()
		seen := &syncBuffer{}
		var reading sync.WaitGroup
		reading.Go(func() { seen.readFrom(tty) })
		for _, s := range talk {
			seen.wait(t, s.question)
			if _, err := tty.WriteString(s.answer + "\n"); err != nil {
				t.Fatal(err)
			}
		}
		err = cmd.Wait()
		reading.Wait()
		if err != nil {
			t.Fatalf("prd create: %v: %s", err, seen.String())
		}
		return strings.ReplaceAll(seen.String(), "\r\n", "\n")
	}
	spec := filepath.Join(p.dir, "ws", ".taskdaemon", "prds", "remember-me", "spec.md")
	got := create(said{"How long?", "two weeks"}, said{"Look at " + spec + ". Go on and write the plan? [Y/n]", "n"})
	wantIn(t, "the terminal", got, "» "+socketUser()+": two weeks", "✓ completed: the spec is written", "▸ Edit .taskdaemon/prds/remember-me/spec.md",
		"✓ completed: the spec is clear", "next: taskdaemon prd create remember-me")
	wantIn(t, "the spec", p.must(t, "prd", "show", "remember-me", "--spec"), "Remember the name for two weeks, not longer.")
	if out := p.must(t, "task", "list", "--plan", "--all"); strings.Contains(out, "Bake") {
		t.Errorf("tasks were made of it: %s", out)
	}

	got = create(said{"taskdaemon task send t-", "with a cookie"}, said{"Go on and make tasks of it? [Y/n]", "y"})
	wantIn(t, "the terminal", got, "» "+socketUser()+": with a cookie", "✓ completed: the plan is good", "is ready, with 1 task")
	if strings.Contains(got, "How long?") || strings.Contains(got, "Review the spec") {
		t.Errorf("what was done is done again: %s", got)
	}
	wantIn(t, "the plan", p.must(t, "prd", "show", "remember-me"), "Bake the cookie")
}
