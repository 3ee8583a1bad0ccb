package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// waiting adds a task and returns it when it asks.
func waiting(t *testing.T, l *live, script string) td.Task {
	t.Helper()
	task, err := l.AddTask(t.Context(), api.AddTask{Prompt: "ask", Dir: t.TempDir(), Rehearsal: script})
	if err != nil {
		t.Fatal(err)
	}
	return until(t, l, task.ID, td.Waiting)
}

func until(t *testing.T, l *live, id td.TaskID, want td.State) td.Task {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		task, err := l.Task(t.Context(), string(id))
		if err != nil {
			t.Fatal(err)
		}
		if task.Status.State == want {
			return task
		}
		if time.Now().After(end) {
			t.Fatalf("%s is %s (%s), not %s", task.Handle, task.Status.State, task.Status.Reason, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

const touching = `
turns:
  - tools: [{name: Bash, input: {command: shuf -eo made}}]
  - tools: [{name: Complete, input: {summary: done}}]
`

func TestFirstOfFiftyAnswersCounts(t *testing.T) {
	l := start(t, t.TempDir(), nil)
	task := waiting(t, l, touching)
	req := task.Requests[0]
	var wg sync.WaitGroup
	errs := make([]error, 50)
	for i := range errs {
		wg.Go(func() {
			choice := []string{td.Yes, td.No, td.Always, td.Never}[i%4]
			_, errs[i] = l.Command(t.Context(), task.Handle, api.Command{
				Key: fmt.Sprint("person", i), Type: td.CmdAnswer, Request: string(req.ID), Answer: choice, By: fmt.Sprint("person", i), Text: "so it is",
			})
		})
	}
	wg.Wait()
	first := -1
	for i, err := range errs {
		switch {
		case err == nil && first >= 0:
			t.Errorf("both %d and %d were told that their answer counts", first, i)
		case err == nil:
			first = i
		case !td.IsKind(err, td.Conflict):
			t.Errorf("person %d: %v", i, err)
		}
	}
	until(t, l, task.ID, td.Completed)
	h, err := l.History(t.Context(), task.Handle)
	if err != nil {
		t.Fatal(err)
	}
	var answers []td.Answer
	for _, ev := range h.Events {
		if b, is := ev.Body.(td.RequestAnswered); is {
			answers = append(answers, b.Answer)
		}
	}
	if first < 0 || len(answers) != 1 || answers[0].Origin != fmt.Sprint("person", first) || strings.HasPrefix(answers[0].By, "person") {
		t.Fatalf("person %d was told that their answer counts; the answers are %+v", first, answers)
	}
	_, err = os.Stat(filepath.Join(task.Dir, "made"))
	if yes := answers[0].Choice == td.Yes || answers[0].Choice == td.Always; yes != (err == nil) {
		t.Errorf("the answer was %s, and made: %v", answers[0].Choice, err)
	}
	// The one who counts may ask again whether it did; nobody else.
	again := api.Command{Key: fmt.Sprint("person", first), Type: td.CmdAnswer, Request: string(req.ID), Answer: answers[0].Choice}
	if _, err := l.Command(t.Context(), task.Handle, again); err != nil {
		t.Errorf("the same answer again: %v", err)
	}
	again.Key = "a stranger"
	if _, err := l.Command(t.Context(), task.Handle, again); !td.IsKind(err, td.Conflict) {
		t.Errorf("a stranger's answer: %v", err)
	}
}

func TestAnswersThatMakeNoSense(t *testing.T) {
	l := start(t, t.TempDir(), nil)
	task := waiting(t, l, touching)
	other := waiting(t, l, touching)
	for name, c := range map[string]struct {
		cmd  api.Command
		want string
	}{
		"another task's":  {api.Command{Request: string(other.Requests[0].ID), Answer: td.Yes}, "another task asks it"},
		"no option":       {api.Command{Answer: "perhaps"}, "choose one of"},
		"no scope":        {api.Command{Answer: td.Always, Scope: "planet"}, "it is one of"},
		"broken rule":     {api.Command{Answer: td.Always, Rules: []string{"Bash("}}, "does not offer"},
		"not offered":     {api.Command{Answer: td.Always, Rules: []string{"Bash"}}, "does not offer"},
		"one of two":      {api.Command{Answer: td.Always, Rules: []string{"Bash(shuf -eo made)", "Bash(*)"}}, "does not offer"},
		"rules with yes":  {api.Command{Answer: td.Yes, Rules: []string{"Bash"}}, "only always and never"},
		"unknown request": {api.Command{Request: "q-zzzzzzzz", Answer: td.Yes}, "does not ask"},
	} {
		c.cmd.Type = td.CmdAnswer
		_, err := l.Command(t.Context(), string(task.ID), c.cmd)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, id := range []td.TaskID{task.ID, other.ID} {
		if got, _ := l.Task(t.Context(), string(id)); len(got.Requests) != 1 {
			t.Errorf("a request was answered: %+v", got.Requests)
		}
	}
}
