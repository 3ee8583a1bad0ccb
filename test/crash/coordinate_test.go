package crash

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// coordinatedScenarios are loops that tell, ask and stop each other (K-5).
var coordinatedScenarios = []scenario{
	{
		// The parent reads what its child, and a hook of that, told everybody: once, behind the child's answer.
		name: "coordinated", yes: true, again: true, person: askOnce,
		points: []string{
			"daemon.mail.before_post", "daemon.mail.posted", "daemon.mail.sent", "engine.hook.told", "engine.inbox.taken", "engine.inbox.obeyed",
			"daemon.query.intended", "daemon.query.answered", "daemon.query.posted", "daemon.query.recorded",
		},
		config: `
hooks:
  - {point: PostToolUse, name: tell, matcher: Bash, command: "printf '{\"tell\": [{\"type\": \"ran\", \"text\": \"a command ran\"}]}'"}
`,
		script: `
scenes:
  - when: "The question about it"
    turns: [{text: As far as the record tells it is safe.}]
  - when: the child
    turns:
      - tools: [{name: Notify, input: {type: api_changed, text: the API changed}}]
      - tools: [{name: Bash, input: {command: "sleep 0.3; echo child >> COUNTER"}}]
      - tools: [{name: Complete, input: {summary: the child is done}}]
turns:
  - tools: [{name: Task, input: {prompt: the child}}]
  - tools: [{name: Bash, input: {command: "sleep 0.3; echo parent >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: both are done}}]
`,
	},
	{
		name: "stopped by a loop", yes: true, cut: true, git: true, person: stopFromBeside,
		points: []string{"daemon.mail.stop_posted"},
		config: "worktree: {use: off}\n",
		script: `
turns:
  - tools: [{name: Bash, input: {command: "echo begun >> COUNTER; sleep 60"}}]
  - tools: [{name: Complete, input: {summary: never}}]
`,
	},
}

// askOnce asks about the task until it was answered.
func askOnce(ctx context.Context, p *person, t td.Task) error {
	if t.Turns < 1 || p.done["asked"] {
		return nil
	}
	a, err := p.svc.Query(ctx, t.Handle, api.Query{Key: "asked", Question: "is it safe?", By: "person"})
	if err != nil {
		return err
	}
	if a.Kind != "free" || a.Text != "As far as the record tells it is safe." {
		return td.Errorf(td.Internal, "a wrong answer: %+v", a)
	}
	p.done["asked"] = true
	return nil
}

// stopFromBeside adds a task to the same project that stops the one at work.
func stopFromBeside(ctx context.Context, p *person, t td.Task) error {
	if !strings.Contains(p.marks(), "begun") || p.done["stopper"] {
		return nil
	}
	dir := filepath.Join(t.Dir, "beside")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	_, err := p.svc.AddTask(ctx, api.AddTask{Key: "stopper", Prompt: "stop it", Dir: dir, Yes: true, Rehearsal: `
turns:
  - tools: [{name: StopLoop, input: {loop: ` + t.Handle + `, reason: it is of no use}}]
  - tools: [{name: Complete, input: {summary: stopped}}]
`})
	p.done["stopper"] = err == nil
	return err
}
