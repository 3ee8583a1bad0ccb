package cli

import (
	"fmt"
	"strings"
	"testing"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// shownAt puts a task on the desk that asks something, or nothing.
func shownAt(t *testing.T, b *bench, d *desk, prompts ...string) td.Task {
	t.Helper()
	task := b.add(t, api.AddTask{Prompt: "work"})
	for _, p := range prompts {
		r := td.Request{ID: td.NewRequestID(), Kind: td.AskPermission, Prompt: p, Options: []string{td.Yes, td.No}}
		b.fake.Append(task.ID, td.RequestOpened{Request: r})
	}
	task, err := b.fake.Task(t.Context(), task.Handle)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := viewOf(b)
	v.task = task
	d.seat(&watch{app: b.app, service: b.fake, task: task}, v)
	return task
}

func newDesk(t *testing.T, b *bench) *desk {
	t.Helper()
	d, closeDesk := b.app.openDesk(t.Context(), b.fake)
	t.Cleanup(closeDesk)
	return d
}

func told(t *testing.T, b *bench, task td.Task) string {
	t.Helper()
	h, err := b.fake.History(t.Context(), task.Handle)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, ev := range h.Events[task.Head:] {
		fmt.Fprintf(&out, "%T %+v\n", ev.Body, ev.Body)
	}
	return out.String()
}

func TestTypedCommandsAct(t *testing.T) {
	b := newBench(t)
	d := newDesk(t, b)
	task := shownAt(t, b, d, "may I?")
	err := d.typed(t.Context(), "/pasue")
	if err == nil || !strings.Contains(err.Error(), "did you mean /pause?") {
		t.Errorf("an unknown command: %v", err)
	}
	if got := told(t, b, task); got != "" {
		t.Errorf("an unknown command reached the task: %s", got)
	}
	if err := d.typed(t.Context(), "/cancel too slow"); err != nil {
		t.Fatal(err)
	}
	wantIn(t, "the journal", told(t, b, task), "too slow", "cancelled")
}

func TestTypedLinesGoToOneOfSeveral(t *testing.T) {
	b := newBench(t)
	d := newDesk(t, b)
	one, two := shownAt(t, b, d, "first?"), shownAt(t, b, d, "second?")
	third := shownAt(t, b, d)
	for _, line := range []string{"yes", "/pause", "9 yes", one.Handle, "2"} {
		err := d.typed(t.Context(), line)
		if err == nil || !strings.Contains(err.Error(), "not sent") {
			t.Errorf("%q: %v", line, err)
		}
	}
	for _, task := range []td.Task{one, two, third} {
		if got := told(t, b, task); got != "" {
			t.Errorf("%s was told: %s", task.Handle, got)
		}
	}
	for _, line := range []string{"2 no not here", one.Requests[0].Handle() + " yes", third.Handle + " hurry", third.Handle + " /pause"} {
		if err := d.typed(t.Context(), line); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
	wantIn(t, "the first", told(t, b, one), "Choice:yes")
	wantIn(t, "the second", told(t, b, two), "Choice:no", "not here")
	wantIn(t, "the third", told(t, b, third), "hurry", "paused")
}

func TestOneQuestionOfSeveralTasksNeedsNoName(t *testing.T) {
	b := newBench(t)
	d := newDesk(t, b)
	one := shownAt(t, b, d, "first?")
	shownAt(t, b, d)
	if err := d.typed(t.Context(), "y"); err != nil {
		t.Fatal(err)
	}
	wantIn(t, "the first", told(t, b, one), "Choice:yes")
}

func TestNothingTypedIsLeftForTheShell(t *testing.T) {
	b := newBench(t)
	person, program := terminal(t)
	b.app.stdin = program
	_, closeDesk := b.app.openDesk(t.Context(), b.fake)
	if _, err := person.WriteString("rm -rf build\nand half a li"); err != nil {
		t.Fatal(err)
	}
	closeDesk()
	wantIn(t, "stderr", b.stderr.String(), "not sent", "rm -rf build")
	if _, err := person.WriteString("\n"); err != nil { // the shell's first line has nothing of before
		t.Fatal(err)
	}
	got := make([]byte, 100)
	n, err := program.Read(got)
	if err != nil || string(got[:n]) != "\n" {
		t.Errorf("the shell reads %q (%v)", got[:n], err)
	}
}
