package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
)

// plannedScenarios are work on the graph of a project.
var plannedScenarios = []scenario{
	{name: "planned", yes: true, plan: true, points: []string{
		"graph.log.before_append", "graph.log.after_append", "graph.log.after_sync", "daemon.graph.before_close", "daemon.graph.after_close",
		"daemon.add.before_create", "daemon.add.created",
	}, script: `
turns:
  - tools: [{name: Bash, input: {command: "echo planned >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: as planned}}]
`},
	{name: "run", yes: true, plan: true, run: &api.StartRun{Parallel: 1, Limit: 1, Yes: true, Strategy: td.Escalate}, points: []string{
		"daemon.runs.before_order", "daemon.runs.ordered", "daemon.runs.before_end", "daemon.run.claimed", "daemon.run.before_start", "daemon.run.started", "engine.iteration.before_over", "engine.iteration.over", "engine.iteration.limit",
		"daemon.graph.before_close", "daemon.command.posted", "engine.finish.nominated",
	}, script: `
scenes:
  - when: "iteration 3 of this task"
    turns:
      - text: "The third time. <task-done>{{task}}</task-done>"
  - when: "iteration 2 of this task"
    turns:
      - tools: [{name: Bash, input: {command: "echo second >> COUNTER"}}]
      - text: "<task-done>t-00000000</task-done>"
turns:
  - tools:
      - {name: Bash, input: {command: "echo first >> COUNTER"}}
      - {name: Write, input: {path: made.txt, content: "by the first\n"}}
  - text: I do not know.
    repeat: 2
`},
	{name: "run stopped", plan: true, run: &api.StartRun{Parallel: 1}, person: stopRunOnce, points: []string{
		"daemon.runs.stop_recorded", "daemon.runs.tasks_let_go", "daemon.runs.before_end", "daemon.runs.ordered", "daemon.command.posted",
		"scheduler.attend.claimed",
	}, script: `
turns:
  - tools: [{name: Bash, input: {command: "shuf -e asked >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: after a stop}}]
`},
	{
		// The trunk loses its commit while the run's task asks something. The person lets all of it go on, then answers.
		name: "run held", git: true, worktree: true, plan: true, cut: true, run: &api.StartRun{Parallel: 1, Strategy: td.Fixed, Yes: true}, person: amendAndResume, points: []string{
			"daemon.trunk.before_tell", "daemon.trunk.run_held", "daemon.trunk.tasks_resumed", "daemon.trunk.told", "daemon.command.posted",
		}, script: `
turns:
  - tools: [{name: Bash, input: {command: "echo once >> COUNTER"}}]
  - tools: [{name: Ask, input: {question: Go on?}}]
  - tools: [{name: Write, input: {path: made.txt, content: "after a pause\n"}}]
  - tools: [{name: Complete, input: {summary: after a pause}}]
`,
	},
	{
		name: "validator that a person must agree to", plan: true, valid: "shuf -e ok", person: answerAll, config: "rules: [{ask: Validator}]\n",
		run:    &api.StartRun{Parallel: 1, Strategy: td.Fixed},
		points: []string{"engine.validator.agreed", "engine.ask.before", "engine.ask.asked", "engine.finish.validated", "durable.append.after"},
		script: `
turns:
  - tools: [{name: Complete, input: {summary: checked}}]
`},
	{
		name: "run interrupted with words", yes: true, plan: true, person: interruptWithWords, run: &api.StartRun{Parallel: 1, Yes: true, Strategy: td.Fixed}, points: []string{
			"daemon.command.posted", "engine.inbox.taken", "engine.inbox.obeyed", "engine.reap.before_kill", "engine.reap.killed", "engine.reap.recorded",
		}, script: `
scenes:
  - when: "(?s)iteration 2 of this task.*a person interrupted it.*blue"
    turns:
      - tools: [{name: Bash, input: {command: "echo second >> COUNTER"}}]
      - tools: [{name: Complete, input: {summary: blue}}]
turns:
  - tools: [{name: Bash, input: {command: "echo first >> COUNTER; sleep 60", background: true}}]
  - tools: [{name: Ask, input: {question: Which colour?}}]
`,
	},
	{
		name: "verified", yes: true, git: true, plan: true, run: &api.StartRun{Parallel: 1, Strategy: td.Fixed, Verify: true, Yes: true}, valid: "test -f done.txt", points: []string{
			"git.checkout.before_files", "git.checkout.before_rename", "git.checkout.after_rename", "git.checkout.removed",
			"engine.verify.named", "engine.verify.placed", "engine.verify.spawned", "engine.verify.ended", "engine.verify.cleared",
			"engine.finish.validated", "engine.finish.before_end", "engine.iteration.before_over", "engine.iteration.over",
			"durable.append.after", "scheduler.run.ended",
		}, script: `
scenes:
  - when: "(?s)You are the verifier.*half of it"
    turns:
      - tools: [{name: Bash, input: {command: "test -f done.txt && echo first-look >> COUNTER; echo x > written.txt"}}]
      - tools: [{name: Fail, input: {reason: half is missing}}]
  - when: You are the verifier
    turns:
      - tools: [{name: Bash, input: {command: "grep -q whole done.txt && echo second-look >> COUNTER"}}]
      - tools: [{name: Complete, input: {summary: it is whole}}]
  - when: half is missing
    turns:
      - tools: [{name: Bash, input: {command: "echo whole > done.txt; echo second >> COUNTER"}}]
      - tools: [{name: Complete, input: {summary: all of it}}]
turns:
  - tools: [{name: Bash, input: {command: "echo half > done.txt; echo first >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: half of it}}]
`,
	},
	{name: "prd", plan: true, submit: submitPRD, points: []string{
		"graph.document.before_write", "graph.document.before_rename", "graph.document.after_rename", "graph.document.after_remove",
		"graph.log.before_append", "graph.log.after_sync", "daemon.author.created", "builtin.plan.before_add", "builtin.plan.added",
		"engine.finish.before_end",
	}, script: `
turns:
  - tools: [{name: Read, input: {path: .taskdaemon/prds/login/plan.md}}]
  - tools: [{name: PlanTasks, input: {tasks: [{title: refused, text: x}, {title: refused, text: x, after: [nothing]}]}}]
  - tools: [{name: PlanTasks, input: {tasks: [{title: first, text: x}, {title: second, text: x, after: ["@1"]}]}}]
  - tools: [{name: PlanTasks, input: {tasks: [{title: third, text: x}]}}]
  - tools: [{name: Complete, input: {summary: three tasks}}]
`},
	{name: "prd author", plan: true, submit: submitAuthor, points: []string{
		"builtin.change.before_temp", "builtin.change.before_rename", "builtin.change.after_rename", "engine.finish.nominated",
	}, script: `
turns:
  - tools: [{name: Write, input: {path: a.txt, content: "never\n"}}]
  - tools: [{name: Complete, input: {summary: too early}}]
  - tools: [{name: Write, input: {path: .taskdaemon/prds/login/spec.md, content: "first\n"}}]
  - tools: [{name: Edit, input: {path: .taskdaemon/prds/login/spec.md, old_string: first, new_string: second}}]
  - tools: [{name: Complete, input: {summary: a spec}}]
`},
}

// amendAndResume is a person who makes the trunk's commit anew while a task waits for them, lets everything go on when it is paused, and answers then.
func amendAndResume(ctx context.Context, p *person, t td.Task) error {
	switch {
	case t.Status.State == td.Waiting && !p.done["amended"]:
		p.done["amended"] = true
		return git(t.Worktree.Repo, "commit", "-q", "--amend", "-m", "begun anew")
	case t.Status.State == td.Paused:
		p.done["resumed"] = true
		_, err := p.svc.ResumeTrunk(ctx, api.ResumeTrunk{Dir: t.Worktree.Repo, Trunk: "main"})
		return err
	case p.done["resumed"]:
		return answerAll(ctx, p, t)
	}
	return nil
}

// submitPRD deletes one PRD and has tasks made of another.
func submitPRD(ctx context.Context, p *person, dir, script string) (td.Task, error) {
	if !p.done["made"] {
		if _, err := p.svc.CreatePRD(ctx, api.CreatePRD{Dir: dir, Name: "Gone", Spec: "spec\n"}); err != nil {
			return td.Task{}, err
		}
		p.done["made"] = true
	}
	if !p.done["deleted"] {
		if _, err := p.svc.DeletePRD(ctx, dir, "gone"); err != nil && !td.IsKind(err, td.NotFound) {
			return td.Task{}, err
		}
		p.done["deleted"] = true
	}
	if _, err := p.svc.CreatePRD(ctx, api.CreatePRD{Dir: dir, Name: "Login", Spec: "spec\n", Plan: "plan\n"}); err != nil {
		return td.Task{}, err
	}
	return p.svc.AuthorPRD(ctx, api.AuthorPRD{Dir: dir, Ref: "login", Phase: td.AuthorWork, Rehearsal: script})
}

// submitAuthor has the spec of a PRD written.
func submitAuthor(ctx context.Context, p *person, dir, script string) (td.Task, error) {
	if _, err := p.svc.CreatePRD(ctx, api.CreatePRD{Dir: dir, Name: "Login"}); err != nil {
		return td.Task{}, err
	}
	return p.svc.AuthorPRD(ctx, api.AuthorPRD{Dir: dir, Ref: "login", Phase: td.AuthorSpec, Rehearsal: script})
}

// plannedWork plans the task once and has a run work on it.
func (w *crashRun) plannedWork(ctx context.Context, script string, task td.Task) (td.Task, error) {
	if task.ID == "" {
		planned, err := w.person.svc.Plan(ctx, api.Plan{Dir: w.path("work"), Tasks: []api.PlanTask{{Key: "the task", Title: "do it", Validator: w.s.valid}}})
		if err != nil {
			return task, err
		}
		task.ID = planned[0].ID
	}
	next := *w.s.run
	next.Dir, next.Rehearsal = w.path("work"), script
	_, err := w.person.svc.StartRun(ctx, next)
	return task, err
}

// stopRunOnce stops the run while its task asks, and answers when the next run has taken it up.
func stopRunOnce(ctx context.Context, p *person, task td.Task) error {
	if len(task.Requests) == 0 || task.Status.State != td.Waiting {
		return nil
	}
	if p.done["stopped"] {
		r := task.Requests[0]
		return p.once(ctx, "yes/"+string(r.ID), string(r.ID), api.Command{Type: td.CmdAnswer, Answer: td.Yes})
	}
	open, err := p.svc.Runs(ctx, api.RunQuery{Dir: task.Project, Open: true})
	if err != nil || len(open) == 0 {
		return err
	}
	if _, err := p.svc.StopRun(ctx, api.StopRun{Run: open[0].Run, By: "ann"}); err != nil {
		return err
	}
	p.done["stopped"] = true
	return nil
}

// planned is what the graph of the workspace says, line by line, once it says how the task ended.
func (w *crashRun) planned(ctx context.Context) ([]string, error) {
	for {
		raw, err := os.ReadFile(w.path(filepath.Join("work", graph.Folder, graph.LogFile)))
		if err != nil {
			return nil, err
		}
		var out []string
		ended := false
		for e, err := range jsonl.Read(bytes.NewReader(raw), jsonl.Place{}) {
			if err != nil {
				return nil, err
			}
			if e.Bad != nil || e.Torn {
				out = append(out, "a torn or bad line") // a kill may leave one: it is kept, and counts for nothing
				continue
			}
			if len(e.Change.Set) == 0 {
				continue // a claim that is taken or given back: a run that goes on takes it again
			}
			var v graph.Verdict
			if text, is := e.Change.Set["verdict"]; is {
				if err := json.Unmarshal(text, &v); err != nil {
					return nil, err
				}
				ended = true
			}
			out = append(out, fmt.Sprintf("%s: %s %s", slices.Sorted(maps.Keys(e.Change.Set)), v.State, v.Summary))
		}
		if ended || w.s.submit != nil { // such a task is not planned itself
			return out, nil
		}
		if _, err := w.person.svc.Status(ctx); err != nil {
			return nil, err // it died before it wrote that down
		}
		time.Sleep(3 * time.Millisecond)
	}
}
