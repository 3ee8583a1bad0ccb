package cli

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// named is the record that names a verifier.
func named(id td.TaskID, attempt int) td.StepIntended {
	return td.StepIntended{Intent: td.Intent{
		Key: "t1.0.verify", Kind: td.VerifyStep, Name: "verifier", Attempt: attempt,
		Evidence: json.RawMessage(`{"task":"` + string(id) + `","tree":"0123456789abcdef"}`),
	}}
}

func restsFor(id td.TaskID) td.Moved {
	return td.Moved{Verb: td.VerbBlock, From: td.Running, Status: td.Status{
		State: td.Blocked, Blocked: &td.BlockedData{Cause: "waits for its verifier", Child: id},
	}}
}

// What a verifier says is shown below the task, between the task's own records, once, though it began before anybody knew
// of it; one of the past that is not kept any more is not missed, and a subtask of another kind is not shown.
func TestAttachShowsTheVerifier(t *testing.T) {
	b := newBench(t)
	f := b.fake
	task, other := b.add(t, api.AddTask{Title: "the work"}), b.add(t, api.AddTask{Title: "another"})
	gone := td.NewTaskID()
	runs := td.Moved{Verb: td.VerbStart, From: td.Queued, Status: td.Status{State: td.Running, Running: &td.RunningData{Run: td.NewRunID()}}}
	back := td.Moved{Verb: td.VerbUnblock, From: td.Blocked, Status: td.Status{State: td.Queued}}
	f.Append(task.ID, runs, named(gone, 0), restsFor(gone), back, runs, named(gone, 1))
	verifier := b.add(t, api.AddTask{Title: "verify: the work"})
	f.Append(verifier.ID, runs)
	f.Append(task.ID, restsFor(other.ID), back, runs, named(verifier.ID, 2), restsFor(verifier.ID))
	f.Append(other.ID, modelEnded("t1.model", "not of interest").Body)
	f.Append(task.ID, td.Said{Text: "hurry", By: "me"})
	out := &syncBuffer{}
	b.app.stdout = out
	done := make(chan int, 1)
	go func() { done <- b.run(t.Context(), []string{"loop", "attach", "--tail", "-1", task.Handle}) }()
	out.wait(t, "hurry")
	f.Say(api.Live{Task: verifier.ID, Step: "t1.model", Kind: api.LiveText, Text: "It looks\nwell"})
	out.wait(t, "  ┊   │ It looks\n  ┊   │ well")
	f.Append(task.ID, td.Said{Text: "still there?", By: "me"})
	out.wait(t, "  ┊   │ well\n» me: still there?\n")
	f.Append(verifier.ID, modelEnded("t1.model", "It looks\nwell").Body,
		td.Moved{Verb: td.VerbComplete, From: td.Running, Status: td.Status{State: td.Completed, Completed: &td.CompletedData{Summary: "seen"}}})
	f.Append(task.ID, back, runs, restsFor(verifier.ID), back, runs,
		td.Moved{Verb: td.VerbComplete, From: td.Running, Status: td.Status{State: td.Completed, Completed: &td.CompletedData{Summary: "done"}}})
	if code := <-done; code != 0 {
		t.Errorf("exit %d: %s", code, b.stderr)
	}
	got := out.String()
	wantIn(t, "attach", got, "  ┊ ✓ completed: seen\n", "\n✓ completed: done\n", "see it: taskdaemon loop attach")
	for text, n := range map[string]int{"It looks": 1, "» me: hurry": 1, "┊ ✓ completed": 1, "not of interest": 0, "● blocked": 4} {
		if strings.Count(got, text) != n {
			t.Errorf("%q is shown %d times, not %d:\n%s", text, strings.Count(got, text), n, got)
		}
	}
}

// On a terminal a run shows its verifiers in colour, and what one asks is answered in place.
func TestRunShowsTheVerifier(t *testing.T) {
	p := newProgram(t)
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "one", "--allow-empty"}} {
		if out, err := exec.Command("git", append([]string{"-C", filepath.Join(p.dir, "ws")}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	p.must(t, "init")
	p.must(t, "task", "add", "work on", "--plan")
	run := p.cmd("run", "--verify", "--rehearse", p.script(t, `
scenes:
  - when: You are the verifier
    turns:
      - text: "I look."
        tools: [{name: Bash, input: {command: "touch /var/elsewhere"}}]
      - tools: [{name: Complete, input: {summary: seen}}]
turns:
  - tools: [{name: Complete, input: {summary: worked}}]
`))
	run.Env = append(run.Env, "TERM=xterm", "NO_COLOR=")
	tty, err := pty.Start(run)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	seen := &syncBuffer{}
	var reading sync.WaitGroup
	reading.Go(func() { seen.readFrom(tty) })
	seen.wait(t, "\x1b[2m  ┊ \x1b[0m\x1b[36m▸ Bash")
	seen.wait(t, "taskdaemon task answer q-")
	if _, err := tty.WriteString("no not there\n"); err != nil {
		t.Fatal(err)
	}
	err = run.Wait()
	reading.Wait()
	if err != nil {
		t.Errorf("run: %v: %s", err, seen.String())
	}
	wantIn(t, "the terminal", strings.ReplaceAll(seen.String(), "\r\n", "\n"),
		"\x1b[2m  ┊ \x1b[0m\x1b[36m» "+socketUser()+": no not there\x1b[0m\n", "\x1b[2m  ┊ \x1b[0m\x1b[32m✓ completed\x1b[0m: seen\n",
		"\x1b[32m  ✓ verified\x1b[0m: seen", "complete\x1b[0m: 1 completed, 0 failed, 0 open")
}
