package crash

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/td"
)

// scenario is one kind of work.
type scenario struct {
	name   string
	script string // the rehearsal; COUNTER stands for the file outside the workspace that effects mark
	yes    bool
	valid  string
	git    bool // the workspace is under git
	// worktree says that the workspace is a repository and the task works in a worktree of it.
	worktree bool
	plan     bool          // the workspace has a graph
	run      *api.StartRun // the task is planned, and this run works on it
	config   string        // settings of its own
	limit    time.Duration // of permission requests
	stops    bool          // the person stops the daemon on the way
	// points, if there are any, are the only ones it is killed at: it is there for them.
	points []string
	// again says that it is killed a second time, too, at what only a recovery passes.
	again bool
	// marks is how many effects there are in the end, if some follow the task's: it is waited for them.
	marks int
	// chained says that it is played over HTTP, by a model that stands in for one that always fails.
	chained bool
	// cut says that where in the conversation the task ends depends on the moment.
	cut bool
	// person does what a person does, called again and again with the task as it stands. It remembers
	// in memory, which outlives the daemon.
	person func(ctx context.Context, p *person, t td.Task) error
	// submit, if there is one, makes the task instead of adding it. It is called until it succeeds.
	submit func(ctx context.Context, p *person, dir, script string) (td.Task, error)
}

func chosen(t *testing.T) []scenario {
	t.Helper()
	if *only == "" {
		return scenarios
	}
	one := slices.DeleteFunc(slices.Clone(scenarios), func(s scenario) bool { return s.name != *only })
	if len(one) == 0 {
		t.Fatalf("there is no scenario %q", *only)
	}
	return one
}

var scenarios = slices.Concat(runScenarios, plannedScenarios, worktreeScenarios, coordinatedScenarios)

// runScenarios are tasks of their own.
var runScenarios = []scenario{
	{name: "plain tools", yes: true, script: `
turns:
  - text: I look around.
    tools:
      - {name: Glob, input: {pattern: "*.txt"}}
      - {name: Read, input: {path: a.txt}}
      - {name: Grep, input: {pattern: alpha}}
  - tools:
      - {name: Todo, input: {todos: [{text: look, status: completed}]}}
  - tools:
      - {name: Nonsense, input: {}}
      - {name: Read, input: {path: missing.txt}}
  - tools: [{name: Complete, input: {summary: looked}}]
`},
	{name: "write and edit", yes: true, script: `
turns:
  - tools:
      - {name: Write, input: {path: sub/new.txt, content: "one\n"}}
      - {name: Read, input: {path: a.txt}}
  - tools:
      - {name: Edit, input: {path: a.txt, old_string: alpha, new_string: beta}}
      - {name: Edit, input: {path: sub/new.txt, old_string: one, new_string: two}}
  - tools:
      - {name: MultiEdit, input: {path: a.txt, edits: [{old_string: beta, new_string: gamma}, {old_string: line, new_string: row}]}}
  - tools: [{name: Complete, input: {summary: written}}]
`},
	{name: "bash with a side effect", yes: true, valid: "test -f a.txt", script: `
turns:
  - tools: [{name: Bash, input: {command: "echo first >> COUNTER; echo done"}}]
  - tools:
      - {name: Bash, input: {command: "echo second >> COUNTER; sleep 0.1; echo slow"}}
      - {name: Bash, input: {command: "echo third >> COUNTER; exit 3"}}
  - tools: [{name: Complete, input: {summary: counted}}]
`},
	{name: "waiting for a person", person: answerAll, script: `
turns:
  - tools: [{name: Bash, input: {command: "shuf -e allowed >> COUNTER"}}]
  - tools: [{name: Ask, input: {question: Which colour?, options: [red, blue]}}]
  - tools: [{name: Complete, input: {summary: asked}}]
`},
	{name: "paused", yes: true, person: pauseOnce, script: `
turns:
  - tools: [{name: Bash, input: {command: "echo before >> COUNTER"}}]
  - latency: 40ms
    tools: [{name: Read, input: {path: a.txt}}]
  - latency: 40ms
    tools: [{name: Bash, input: {command: "echo after >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: paused and resumed}}]
`},
	{name: "retrying after 529", yes: true, script: `
turns:
  - faults: [{status: 529}, {status: 500}]
    tools: [{name: Bash, input: {command: "echo once >> COUNTER"}}]
  - faults: [{error: overloaded_error}, {cut: 3}]
    text: Still here.
    tools: [{name: Read, input: {path: a.txt}}]
  - faults: [{status: 429, retry_after: 10ms}]
    tools: [{name: Complete, input: {summary: retried}}]
`},
	{name: "background job", yes: true, script: `
turns:
  - tools: [{name: Bash, input: {command: "echo job >> COUNTER; sleep 60", background: true}}]
  - tools: [{name: Bash, input: {command: "until grep -qs job COUNTER; do sleep 0.01; done; echo seen >> COUNTER"}}]
  - tools: [{name: BashOutput, input: {job: job-1.0}}]
  - tools: [{name: BashKill, input: {job: job-1.0}}]
  - tools: [{name: Bash, input: {command: "echo job2 >> COUNTER; sleep 60", background: true}}]
  - tools: [{name: Bash, input: {command: "until grep -qs job2 COUNTER; do sleep 0.01; done; echo last >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: job ran}}]
`},
	{name: "failed with a job", yes: true, points: []string{"engine.reap.killed", "engine.reap.recorded"}, script: `
turns:
  - tools: [{name: Bash, input: {command: "echo job >> COUNTER; sleep 60", background: true}}]
  - tools: [{name: Bash, input: {command: "until grep -qs job COUNTER; do sleep 0.01; done"}}]
  - tools: [{name: Fail, input: {reason: it cannot be done}}]
`},
	{name: "checkpointed", yes: true, git: true, person: checkpointOnce, script: `
turns:
  - tools: [{name: Write, input: {path: new.txt, content: "new\n"}}]
  - latency: 150ms
    tools: [{name: Bash, input: {command: "echo committed >> COUNTER"}}]
  - latency: 150ms
    tools: [{name: Complete, input: {summary: kept}}]
`},
	{
		name: "rewound", yes: true, git: true, person: rewindOnce,
		points: []string{
			"engine.snapshot.before_take", "engine.snapshot.taken", "engine.snapshot.recorded",
			"git.steps.before_tree", "git.steps.before_commit", "git.steps.before_ref", "git.steps.after_ref",
			"engine.rewind.kept", "engine.rewind.before_files", "git.restore.before_files", "git.restore.after_files",
			"engine.rewind.files", "engine.rewind.recorded",
		},
		script: `
turns:
  - tools: [{name: Write, input: {path: one.txt, content: "one\n"}}]
  - tools: [{name: Bash, input: {command: "cat one.txt >> two.txt; rm one.txt; cat two.txt >> COUNTER"}}]
  - tools: [{name: Ask, input: {question: Again?, options: [yes, no]}}]
  - tools: [{name: Complete, input: {summary: once more}}]
`,
	},
	{
		// Where nothing has changed for a while, what changes next is taken without git.
		name: "rewound after changes that were heard", yes: true, git: true, person: rewindOnce,
		points: []string{
			"git.steps.before_tree", "git.steps.before_objects", "git.steps.before_commit", "git.steps.before_ref", "git.steps.after_ref", "engine.snapshot.recorded",
			"git.restore.before_files", "git.restore.after_files",
		},
		script: `
turns:
  - tools: [{name: Write, input: {path: one.txt, content: "one\n"}}]
  - tools: [{name: Bash, input: {command: "true 1"}}]
  - tools: [{name: Bash, input: {command: "true 2"}}]
  - tools: [{name: Bash, input: {command: "true 3"}}]
  - tools: [{name: Write, input: {path: one.txt, content: "two\n"}}]
  - tools: [{name: Write, input: {path: one.txt, content: "six\n"}}]
  - tools: [{name: Bash, input: {command: "cat one.txt >> COUNTER"}}]
  - tools: [{name: Ask, input: {question: Again?, options: [yes, no]}}]
  - tools: [{name: Complete, input: {summary: once more}}]
`,
	},
	{name: "expired", limit: 30 * time.Millisecond, script: `
turns:
  - tools: [{name: Bash, input: {command: "echo never >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: not allowed}}]
`},
	{name: "stopped", yes: true, stops: true, person: stopOnce, script: `
turns:
  - tools: [{name: Bash, input: {command: "echo before >> COUNTER; sleep 0.05"}}]
  - latency: 100ms
    tools: [{name: Bash, input: {command: "echo after >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: stopped and started}}]
`},
	{name: "long", yes: true, points: []string{"coord.claim.renewed", "sqlite.claim.before_renew"}, script: `
turns:
  - latency: 5500ms
    tools: [{name: Bash, input: {command: "echo late >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: renewed}}]
`},
	{
		name: "large", yes: true,
		points: []string{
			"sqlite.blob.before_rename", "sqlite.blob.after_rename", "sqlite.blob.before_commit",
			"sqlite.wal.before_checkpoint", "sqlite.wal.after_checkpoint",
		},
		config: "limits: {turns: 200}\ndrift: {repeats: 0, turn_tokens: 0}\nwindow: {tokens: 100000000}\n",
		script: `
turns:
  - text: "` + strings.Repeat("large ", 12_000) + `"
    tools: [{name: Read, input: {path: a.txt}}]
  - text: "` + strings.Repeat("long ", 12_000) + `"
    repeat: 100
    tools: [{name: Read, input: {path: a.txt}}]
  - tools: [{name: Complete, input: {summary: large}}]
`,
	},
	{
		name: "trimmed", yes: true, cut: true, person: oldTask, // its own conversation may be trimmed when it is looked at
		points: []string{"daemon.upkeep.trimmed", "sqlite.trim.before_remove", "sqlite.trim.before_unlink"},
		config: "retention: {completed: 1ms, every: 20ms}\n",
		// It lasts until the other one, which is trimmed when the mirror has it, is there.
		script: `
turns:
  - latency: 3s
    tools: [{name: Bash, input: {command: "echo kept >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: kept}}]
`,
	},
	{
		name: "ruled", person: keepAll,
		points: []string{
			"engine.rules.recorded", "engine.rules.kept", "rulebook.file.before_write", "rulebook.file.written", "daemon.command.posted",
		},
		script: `
turns:
  - tools: [{name: Bash, input: {command: shuf -eo one}}]
  - tools: [{name: Bash, input: {command: shuf -eo two}}]
  - tools: [{name: Bash, input: {command: rmdir nothing}}]
  - tools: [{name: Bash, input: {command: rmdir nothing else}}]
  - tools: [{name: Bash, input: {command: "rm -rf ~"}}]
  - tools: [{name: Complete, input: {summary: ruled}}]
`,
	},
	{
		name: "odd", yes: true, points: []string{"engine.anomaly.recorded"}, config: "anomalies: {commands: 1}\n",
		script: `
turns:
  - tools: [{name: Bash, input: {command: "echo first >> COUNTER"}}]
  - tools: [{name: Bash, input: {command: "echo second >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: odd}}]
`,
	},
	{
		name: "fallback", yes: true, chained: true,
		points: []string{"engine.model.before_call", "engine.model.failed", "engine.model.before_retry_wait", "engine.model.answered"},
		script: `
turns:
  - tools: [{name: Bash, input: {command: "echo first >> COUNTER"}}]
  - tools: [{name: Bash, input: {command: "echo last >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: done by another}}]
`,
	},
	{
		name: "no answer", yes: true, points: []string{"engine.model.failed", "engine.outage.before_block", "engine.outage.blocked", "scheduler.attend.claimed"},
		script: `
turns:
  - tools: [{name: Bash, input: {command: "echo first >> COUNTER"}}]
  - faults: [{status: 500}, {status: 500}, {status: 500}, {status: 500}, {status: 500}, {status: 500}, {status: 529}]
    tools: [{name: Bash, input: {command: "echo last >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: rested}}]
`,
	},
	{
		name: "no digest of the past", yes: true, points: []string{"engine.outage.before_block", "engine.outage.blocked", "engine.side.answered"},
		config: "window: {tokens: 14000}\nmax_tokens: 1000\ndrift: {repeats: 0}\n",
		script: `
scenes:
  - when: "(?i)summar"
    turns: [{faults: [{status: 500}, {status: 500}, {status: 500}, {status: 500}, {status: 500}, {status: 500}, {status: 529}], text: They counted.}]
turns:
  - tools: [{name: Bash, input: {command: "echo first >> COUNTER; seq 1 200"}}]
  - {text: "` + strings.Repeat("many words ", 200) + `", repeat: 20, tools: [{name: Read, input: {path: a.txt}}]}
  - tools: [{name: Bash, input: {command: "echo last >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: it fits}}]
`,
	},
	{name: "in circles", yes: true, person: answerAll, points: []string{"engine.drift.recorded"}, script: `
turns:
  - {repeat: 10, tools: [{name: Glob, input: {pattern: "*.none"}}]}
  - tools: [{name: Bash, input: {command: "echo out >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: out of it}}]
`},
	{
		name: "compacted", yes: true,
		points: []string{"engine.window.before_compact", "engine.window.compacted", "engine.side.answered"},
		config: "window: {tokens: 14000}\nmax_tokens: 1000\ndrift: {repeats: 0}\n",
		script: `
scenes:
  - when: "(?i)summar"
    turns: [{text: They counted.}]
turns:
  - tools: [{name: Bash, input: {command: "echo first >> COUNTER; seq 1 200"}}]
  - {text: "` + strings.Repeat("many words ", 200) + `", repeat: 40, tools: [{name: Read, input: {path: a.txt}}]}
  - tools: [{name: Bash, input: {command: "echo last >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: it fits}}]
`,
	},
	{
		name: "over budget", yes: true, person: raiseAll,
		points: []string{
			"engine.budget.warned", "engine.budget.before_stop", "daemon.budget.raised", "sqlite.ledger.before_write",
			"engine.model.answered", "engine.inbox.obeyed",
		},
		config: "prices: {file: PRICES}\nmax_tokens: 1000\nwindow: {tokens: 50000}\nbudget: {task: 0.25, day: 0.40}\n",
		script: `
turns:
  - {usage: {output: 500}, tools: [{name: Bash, input: {command: "echo first >> COUNTER"}}]}
  - {repeat: 7, usage: {output: 500}, tools: [{name: Glob, input: {pattern: "{{turn}}.none"}}]}
  - {usage: {output: 500}, tools: [{name: Bash, input: {command: "echo last >> COUNTER"}}]}
  - tools: [{name: Complete, input: {summary: paid for}}]
`,
	},
	{
		name: "over a token budget", yes: true, person: raiseAll,
		points: []string{
			"engine.budget.warned", "engine.budget.before_stop", "daemon.budget.raised", "sqlite.ledger.before_write",
			"engine.model.before_call", "engine.model.answered", "engine.inbox.obeyed",
		},
		config: "prices: {file: PRICES}\nmax_tokens: 1000\nwindow: {tokens: 50000}\nbudget: {task_tokens: 20k, day_tokens: 40k}\n",
		script: `
turns:
  - {usage: {input: 5000, output: 500}, tools: [{name: Bash, input: {command: "echo first >> COUNTER"}}]}
  - {repeat: 7, usage: {input: 5000, output: 500}, tools: [{name: Glob, input: {pattern: "{{turn}}.none"}}]}
  - {usage: {input: 5000, output: 500}, tools: [{name: Bash, input: {command: "echo last >> COUNTER"}}]}
  - tools: [{name: Complete, input: {summary: counted}}]
`,
	},
	{
		name: "over the budget of the day", yes: true, person: answerForAll,
		points: []string{
			"engine.budget.before_stop", "engine.ask.before", "engine.ask.asked", "engine.inbox.taken", "engine.inbox.obeyed",
		},
		config: "prices: {file: PRICES}\nmax_tokens: 1000\nwindow: {tokens: 50000}\nbudget: {day: 0.40}\n",
		script: `
turns:
  - {usage: {output: 500}, tools: [{name: Bash, input: {command: "echo first >> COUNTER"}}]}
  - {repeat: 7, usage: {output: 500}, tools: [{name: Glob, input: {pattern: "{{turn}}.none"}}]}
  - {usage: {output: 500}, tools: [{name: Bash, input: {command: "echo last >> COUNTER"}}]}
  - tools: [{name: Complete, input: {summary: paid for by all}}]
`,
	},
	{
		name: "leases", yes: true,
		points: []string{
			"engine.lease.granted", "engine.lease.before_block", "engine.lease.blocked", "engine.lease.returned",
			"sqlite.lease.before_write", "durable.step.intended", "durable.step.recorded",
		},
		config: "leases: {wait: 24s}\nresources: [{name: build, capacity: 1, match: \"Bash(true build *)\"}]\n",
		script: `
scenes:
  - when: build it, too
    turns:
      - tools: [{name: Bash, input: {command: "true build child; echo child >> COUNTER"}}]
      - tools: [{name: Complete, input: {summary: built}}]
turns:
  - tools: [{name: Bash, input: {command: "true build parent; sleep 2; echo parent >> COUNTER", background: true}}]
  - tools: [{name: Task, input: {title: second, prompt: "build it, too"}}]
  - tools: [{name: Complete, input: {summary: both built}}]
`,
	},
	{
		name: "leases in vain", yes: true, points: []string{"engine.lease.before_give_up"},
		config: "leases: {wait: 500ms}\nresources: [{name: build, capacity: 1, match: \"Bash(true build *)\"}]\n",
		script: `
scenes:
  - when: build it, too
    turns:
      - tools: [{name: Bash, input: {command: "true build child; echo child >> COUNTER"}}]
      - tools: [{name: Complete, input: {summary: not built}}]
turns:
  - tools: [{name: Bash, input: {command: "echo parent >> COUNTER; true build parent; sleep 60", background: true}}]
  - tools: [{name: Task, input: {title: second, prompt: "build it, too"}}]
  - tools: [{name: Complete, input: {summary: one built}}]
`,
	},
	{
		name: "leases told of", yes: true, points: []string{"durable.append.after"},
		config: `resources: [{name: build, capacity: 1, match: "Bash(true build *)"}]
hooks:
  - {point: ResourceLockReleased, name: free, command: "echo free >> COUNTER"}
`,
		script: `
turns:
  - tools: [{name: Bash, input: {command: "true build it; echo built >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: built}}]
`,
	},
	{
		name: "MCP server", yes: true,
		points: []string{
			"mcp.host.before_dial", "mcp.process.started", "mcp.host.up", "mcp.call.before_send", "mcp.call.answered",
			"mcp.process.before_end", "mcp.strays.before_kill", "engine.context.set", "engine.tool.ran", "durable.step.recorded",
		},
		config: "mcp: [{name: notes, command: SERVER, args: [COUNTER], trusted: true}]\n",
		script: `
turns:
  - tools: [{name: mcp__notes__write, input: {text: first}}]
  - tools: [{name: mcp__notes__find, input: {text: first}}]
  - tools: [{name: mcp__notes__write, input: {text: second}}, {name: mcp__notes__write, input: {text: third}}]
  - tools: [{name: Complete, input: {summary: noted}}]
`,
	},
	{
		name: "learned", yes: true,
		points: []string{
			"builtin.learn.before_add", "builtin.learn.added", "engine.learn.before_add", "engine.learn.added", "durable.step.intended",
			"memory.file.before_temp", "memory.file.before_rename", "memory.file.after_rename", "memory.file.after_sync",
		},
		config: "knowledge: {extract: keep}\n",
		script: `
turns:
  - tools: [{name: Learn, input: {title: Alpha, text: There is one alpha., tags: [greek], files: [a.txt]}}]
  - text: '<knowledge title="Delta" tags="letters">Deltas are told in words alone.</knowledge>'
    tools: [{name: Bash, input: {command: "echo between >> COUNTER"}}]
  - text: The root cause was a beta in the wrong place. Turns out nobody looks for gammas either.
    tools: [{name: Learn, input: {title: Alpha, text: And it is alone.}}]
  - tools: [{name: Complete, input: {summary: learned}}]
`,
	},
	{
		name: "learned meanwhile", yes: true, points: []string{"engine.tell.recorded"},
		script: `
turns:
  - tools: [{name: Bash, input: {command: "until test -e .taskdaemon/knowledge/crash.md; do sleep 0.02; done; echo between >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: told}}]
`,
		person: writeLearning,
	},
	{
		name: "refined", yes: true, points: []string{"engine.side.answered", "engine.learn.before_add", "engine.learn.added"},
		script: `
scenes:
  - when: Below are passages
    turns: [{text: '{"learnings": [{"title": "Beta", "text": "Betas are misplaced.", "files": ["b.txt"]}]}'}]
turns:
  - text: The root cause was a beta in the wrong place.
    tools: [{name: Fail, input: {reason: no gamma}}]
`,
	},
	{
		name: "told", yes: true, marks: 2, points: []string{
			"daemon.notify.intended", "daemon.notify.ran", "daemon.notify.recorded", "engine.finish.ended",
			"sandbox.start.before_spawn", "sandbox.start.after_started", "daemon.stop.drained",
		},
		config: "notify: {command: \"test $TASK_STATE = recovered || echo $TASK_STATE >> COUNTER\"}\n",
		script: `
turns:
  - tools: [{name: Bash, input: {command: "echo worked >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: told}}]
`,
	},
	{
		name: "disk", yes: true, marks: 2, points: []string{"daemon.disk.recorded"}, // any disk is one percent full
		config: "disk: {warn: 1}\nnotify: {command: \"test $TASK_STATE != disk || echo full >> COUNTER\"}\n",
		script: `
turns:
  - tools: [{name: Bash, input: {command: "until grep -q full COUNTER; do sleep 0.02; done; echo worked >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: told}}]
`,
	},
	{name: "escalated", yes: true, valid: "test -e solved", points: []string{"engine.model.escalated"}, script: `
turns:
  - tools: [{name: Complete, input: {summary: I think so}}]
  - tools: [{name: Complete, input: {summary: I am sure}}]
  - tools: [{name: Bash, input: {command: "echo solved >> COUNTER; touch solved"}}]
  - tools: [{name: Complete, input: {summary: now it is}}]
`},
	{name: "subtask", yes: true, points: []string{"engine.subtask.named", "engine.subtask.spawned", "engine.subtask.ended", "durable.append.after", "scheduler.run.ended"}, script: `
scenes:
  - when: the child
    turns:
      - tools: [{name: Bash, input: {command: "echo child >> COUNTER"}}]
      - tools: [{name: Complete, input: {summary: the child is done}}]
turns:
  - tools: [{name: Task, input: {prompt: the child}}]
  - tools: [{name: Bash, input: {command: "echo parent >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: both are done}}]
`},
	{name: "subtask cancelled", yes: true, cut: true, person: cancelSlow, points: []string{"engine.subtask.cancelled", "engine.inbox.taken", "engine.inbox.obeyed"}, script: `
scenes:
  - when: the child
    turns:
      - tools: [{name: Bash, input: {command: "echo begun >> COUNTER; sleep 60"}}]
      - tools: [{name: Complete, input: {summary: never}}]
turns:
  - tools: [{name: Task, input: {prompt: the child}}]
  - tools: [{name: Complete, input: {summary: never}}]
`},
	{
		name: "hooked", yes: true, again: true,
		points: []string{
			"hook.prepare.after_mkdir", "hook.prepare.after_input", "hook.discard.before_remove",
			"hook.http.before_post", "hook.http.after_post",
			"engine.hook.started", "engine.hook.ended", "engine.hook.cleaned",
			"durable.step.ran", "durable.step.recorded", "durable.append.after",
		},
		config: `
hooks:
  - {point: TaskCreated, name: created, command: "echo created >> COUNTER"}
  - {point: TaskStarted, name: started, command: "echo started >> COUNTER; echo words for the start"}
  - {point: PostLLMCall, name: answered, command: "echo answered >> COUNTER; sed -n s/misspelt/spelt/p"}
  - {point: PreToolUse, name: change, matcher: Bash, command: "echo asked >> COUNTER; sed -n s/original/changed/p"}
  - {point: PreToolUse, name: forbid, matcher: Write, command: "echo refused >> COUNTER; echo not this one >&2; exit 2"}
  - {point: PostToolUse, name: web, matcher: Bash, url: HOOKS}
  - {point: PostToolUse, name: look, matcher: Bash, command: "echo looked >> COUNTER"}
  - {point: LoopIteration, name: turn, command: "echo turned >> COUNTER; echo a turn is over"}
  - {point: TaskCompleted, name: end, command: "echo ended >> COUNTER"}
`,
		script: `
turns:
  - {text: misspelt, tools: [{name: Bash, input: {command: "echo original >> COUNTER"}}]}
  - tools: [{name: Write, input: {path: new.txt, content: never}}, {name: Bash, input: {command: "echo two >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: hooked}}]
`,
	},
	{
		name: "hook beside a job", yes: true, points: []string{"sandbox.alone.asked", "sandbox.alone.held", "sandbox.shim.held"},
		config: `
hooks:
  - {point: PostToolUse, name: look, matcher: Write, command: "echo looked >> COUNTER"}
`,
		script: `
turns:
  - tools: [{name: Bash, input: {command: "echo job >> COUNTER; sleep 60", background: true}}]
  - tools: [{name: Bash, input: {command: "until grep -qs job COUNTER; do sleep 0.01; done; echo seen >> COUNTER"}}]
  - tools: [{name: Write, input: {path: new.txt, content: "new\n"}}]
  - tools: [{name: BashKill, input: {job: job-1.0}}]
  - tools: [{name: Complete, input: {summary: looked beside a job}}]
`,
	},
	{
		name: "logged by a hook", yes: true, points: []string{"hook.log.before_write", "hook.log.written"},
		config: `hooks:
  - {point: TaskCreated, name: created, func: log}
  - {point: PreToolUse, name: call, func: log}
  - {point: TaskCompleted, name: end, func: log}
`,
		script: `
turns:
  - tools: [{name: Bash, input: {command: "echo ran >> COUNTER"}}, {name: Read, input: {path: a.txt}}]
  - tools: [{name: Complete, input: {summary: logged}}]
`,
	},
	{
		name: "stopped by a hook", person: resumeStopped, points: []string{"engine.hook.before_pause", "engine.hook.ended"},
		config: `
hooks:
  - {point: PermissionRequest, name: guard, command: "echo asked >> COUNTER; echo '{\"continue\": false, \"stopReason\": \"look at this\"}'"}
`,
		script: `
turns:
  - tools: [{name: Bash, input: {command: "echo never >> COUNTER"}}]
  - tools: [{name: Complete, input: {summary: stopped once}}]
`,
	},
	{name: "cancelled", yes: true, cut: true, person: cancelSlow, script: `
turns:
  - tools: [{name: Bash, input: {command: "echo begun >> COUNTER; sleep 60"}}]
  - tools: [{name: Complete, input: {summary: never}}]
`},
}

// prepare makes the workspace.
func prepare(t *testing.T, dir string, git, plan bool) {
	t.Helper()
	if plan {
		folder := filepath.Join(dir, graph.Folder)
		if err := errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(filepath.Join(folder, graph.LogFile), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if git {
		if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
			t.Fatalf("git init: %v\n%s", err, out)
		}
	}
	for i, f := range [][2]string{{"a.txt", "alpha line\n"}, {"b.txt", "beta\n"}} {
		path := filepath.Join(dir, f[0])
		if err := os.WriteFile(path, []byte(f[1]), 0o644); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-time.Duration(i) * time.Hour) // Glob lists the newest first
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

const patience = 2 * time.Minute
