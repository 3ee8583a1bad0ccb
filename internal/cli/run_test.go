package cli

import (
	"encoding/json"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"taskdaemon/internal/td"
)

// turnsUntilTold works until a person says something, and says what that was.
const turnsUntilTold = `
scenes:
  - when: "."
    turns:
      - latency: 300ms
        text: "working "
        repeat: 200
        tools: [{name: Glob, input: {pattern: "*.{{turn}}"}}]
`

// Ctrl-C on a terminal pauses the task, asks for a word to it, and whether to go on; the next one does the same again.
func TestRunIsInterrupted(t *testing.T) {
	p := newProgram(t)
	p.must(t, "init")
	p.must(t, "task", "add", "work on", "--plan")
	run := p.cmd("run", "--rehearse", p.script(t, turnsUntilTold))
	run.Env = append(run.Env, "TERM=xterm", "NO_COLOR=")
	tty, err := pty.Start(run)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	seen := &syncBuffer{}
	var reading sync.WaitGroup
	reading.Go(func() { seen.readFrom(tty) })
	say := func(text string) {
		t.Helper()
		if _, err := tty.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	seen.wait(t, "\x1b[97mworking ")
	seen.wait(t, "\x1b[36m▸ Glob\x1b[0m \x1b[2m*.1\x1b[0m")
	say("\x03")
	seen.wait(t, "a word to t-")
	say("use the other tool\n")
	seen.wait(t, "go on with the run? [Y/n]")
	say("y\n")
	seen.waitCount(t, "work on \x1b[2m(", 2) // the daemon goes on with it, or has by now
	task := p.plannedTask(t, td.Running)
	seen.wait(t, "iteration 2 on worker: A person interrupted")
	wantIn(t, "the conversation", p.must(t, "loop", "history", task.Handle), "use the other tool")
	task = p.plannedTask(t, td.Running)
	if task.Ordered == nil || task.Iteration != 2 || len(task.Tries) != 1 || task.Tries[0].Ending != td.EndedInterrupted {
		t.Errorf("it goes on in iteration %d, ordered %+v", task.Iteration, task.Ordered)
	}
	say("\x03")
	seen.waitCount(t, "a word to t-", 2)
	say("\n")
	seen.waitCount(t, "go on with the run? [Y/n]", 2)
	say("n\n")
	if err := run.Wait(); err != nil {
		t.Errorf("an interrupted run: %v: %s", err, seen.String())
	}
	reading.Wait()
	wantIn(t, "the terminal", seen.String(), "interrupted: 0 completed, 0 failed, 1 open")
	task = p.plannedTask(t, td.Paused)
	if len(task.Tries) != 1 || task.Iteration != 2 { // nothing was said
		t.Errorf("iteration %d, tries %+v", task.Iteration, task.Tries)
	}
	if task.Status.Paused.By != td.ByRun {
		t.Errorf("paused by %q", task.Status.Paused.By)
	}
	p.must(t, "task", "cancel", task.Handle)
}

// A second Ctrl-C leaves at once.
func TestRunIsInterruptedTwice(t *testing.T) {
	p := newProgram(t)
	p.must(t, "init")
	p.must(t, "task", "add", "work on", "--plan")
	run := p.cmd("run", "--rehearse", p.script(t, turnsUntilTold))
	tty, err := pty.Start(run)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	seen := &syncBuffer{}
	var reading sync.WaitGroup
	reading.Go(func() { seen.readFrom(tty) })
	seen.wait(t, "working")
	for i, want := range []string{"a word to t-", ""} {
		if _, err := tty.WriteString("\x03"); err != nil {
			t.Fatal(i, err)
		}
		if want != "" {
			seen.wait(t, want)
		}
	}
	_ = run.Wait()
	reading.Wait()
	if code := run.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit %d: %s", code, seen.String())
	}
	p.must(t, "task", "cancel", p.plannedTask(t, td.Paused).Handle)
}

// Without a terminal there is nobody to ask.
func TestRunIsInterruptedByASignal(t *testing.T) {
	p := newProgram(t)
	p.must(t, "init")
	p.must(t, "task", "add", "work on", "--plan")
	run := p.cmd("run", "--rehearse", p.script(t, turnsUntilTold))
	var talk, data syncBuffer
	run.Stderr, run.Stdout = &talk, &data
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	talk.wait(t, "working")
	if err := run.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := run.Wait(); err != nil {
		t.Errorf("an interrupted run: %v: %s", err, talk.String())
	}
	wantIn(t, "stdout", data.String(), "interrupted: 0 completed")
	if strings.Contains(talk.String(), "\x1b") {
		t.Errorf("colours without a terminal: %q", talk.String())
	}
	p.must(t, "task", "cancel", p.plannedTask(t, td.Paused).Handle)
}

// plannedTask waits until the only task is in a state.
func (p *program) plannedTask(t *testing.T, state td.State) td.Task {
	t.Helper()
	return eventually(t, func() []td.Task {
		var tasks []td.Task
		if err := json.Unmarshal([]byte(p.must(t, "task", "list", "--all", "--only", string(state), "--json")), &tasks); err != nil {
			t.Fatal(err)
		}
		if len(tasks) == 0 {
			return nil
		}
		var task td.Task
		if err := json.Unmarshal([]byte(p.must(t, "task", "show", tasks[0].Handle, "--json")), &task); err != nil {
			t.Fatal(err)
		}
		return []td.Task{task}
	})[0]
}
