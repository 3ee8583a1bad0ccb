package crash

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// checkpointOnce takes a checkpoint as soon as something was done, until it was acknowledged.
func checkpointOnce(ctx context.Context, p *person, t td.Task) error {
	if t.Turns < 1 || p.done["checkpoint"] {
		return nil
	}
	cp, err := p.svc.Checkpoint(ctx, t.Handle)
	if err != nil {
		return err
	}
	if cp.Snapshot == "" || cp.Commit == "" {
		return td.Errorf(td.Internal, "the checkpoint is incomplete: %+v", cp)
	}
	p.done["checkpoint"] = true
	return nil
}

// stopOnce stops the daemon in order in the middle of the work.
func stopOnce(ctx context.Context, p *person, t td.Task) error {
	if t.Turns < 1 || p.done["stop"] {
		return nil
	}
	p.done["stop"] = true
	return p.svc.Stop(ctx)
}

// oldTask leaves an ended task behind, with a body large enough for a file of its own, for retention to
// trim while the other one works.
func oldTask(ctx context.Context, p *person, t td.Task) error {
	if p.done["old"] {
		return nil
	}
	dir := filepath.Join(filepath.Dir(t.Dir), "old")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	_, err := p.svc.AddTask(ctx, api.AddTask{Key: "old", Prompt: "old", Dir: dir, Rehearsal: `
turns:
  - text: "` + strings.Repeat("large ", 12_000) + `"
    tools: [{name: Complete, input: {summary: old}}]
`})
	p.done["old"] = err == nil
	return err
}

// person is the human at the terminal. What they have done they remember.
type person struct {
	svc     api.Service
	counter string
	done    map[string]bool
}

// once hands a command over until it was acknowledged; its key makes repeating it harmless.
func (p *person) once(ctx context.Context, key, ref string, cmd api.Command) error {
	if p.done[key] {
		return nil
	}
	cmd.Key, cmd.By = key, "person"
	_, err := p.svc.Command(ctx, ref, cmd)
	if err == nil || td.IsKind(err, td.Conflict) {
		p.done[key] = true
		return nil
	}
	return err
}

// settleUnknown answers truthfully what became of a step whose process was lost: the mark is there or not.
func (p *person) settleUnknown(ctx context.Context, r td.Request) error {
	answer := td.Retry
	if p.done["retried/"+string(r.Step)] && !p.done["settle/"+string(r.ID)] && !strings.HasPrefix(r.Tool, "mcp__") {
		answer = td.Skip // whatever kills its shim will kill it again
	}
	p.done["retried/"+string(r.Step)] = true
	for mark := range strings.FieldsSeq(p.marks()) {
		if strings.Contains(r.Prompt, " "+mark+" ") || strings.Contains(r.Detail, `"text":"`+mark+`"`) {
			answer = td.Done
		}
	}
	return p.once(ctx, "settle/"+string(r.ID), string(r.ID), api.Command{Type: td.CmdAnswer, Answer: answer})
}

func (p *person) marks() string {
	raw, err := os.ReadFile(p.counter)
	if err != nil && !os.IsNotExist(err) {
		panic(err)
	}
	return string(raw)
}

func answerAll(ctx context.Context, p *person, t td.Task) error {
	for _, r := range t.Requests {
		if r.About == td.AboutUnknown {
			continue
		}
		answer := td.Yes
		if r.Kind == td.AskQuestion && r.About != td.AboutDrift && r.About != td.AboutBudget {
			answer = "blue"
		}
		if err := p.once(ctx, "answer/"+string(r.ID), string(r.ID), api.Command{Type: td.CmdAnswer, Answer: answer}); err != nil {
			return err
		}
	}
	return nil
}

// keepAll says always to what is touched and never to the rest.
func keepAll(ctx context.Context, p *person, t td.Task) error {
	for _, r := range t.Requests {
		cmd := api.Command{Type: td.CmdAnswer, Answer: td.Never, Scope: td.ProjectScope}
		if strings.Contains(r.Prompt, "touch") {
			cmd.Answer, cmd.Scope = td.Always, td.UserScope
		}
		if err := p.once(ctx, "answer/"+string(r.ID), string(r.ID), cmd); err != nil {
			return err
		}
	}
	return nil
}

func pauseOnce(ctx context.Context, p *person, t td.Task) error {
	switch {
	case t.Status.State == td.Paused:
		p.done["seen"], p.done["resumed"] = true, true // it may be heard without being acknowledged
		return p.once(ctx, "resume", string(t.ID), api.Command{Type: td.CmdResume})
	case p.done["seen"] && !p.done["resumed"] && !t.Status.State.Terminal():
		return td.Errorf(td.Internal, "a paused task became %s without being resumed", t.Status.State)
	case t.Turns >= 1 && t.Status.State == td.Running:
		return p.once(ctx, "pause", string(t.ID), api.Command{Type: td.CmdPause})
	}
	return nil
}

// interruptWithWords ends the first iteration while it asks something.
func interruptWithWords(ctx context.Context, p *person, t td.Task) error {
	switch {
	case t.Iteration > 1 && t.Status.State == td.Waiting:
		return td.Errorf(td.Internal, "an iteration that was interrupted still asks")
	case t.Status.State == td.Waiting && strings.Contains(p.marks(), "first"): // the job in the background has begun
		return p.once(ctx, "interrupt", string(t.ID), api.Command{Type: td.CmdInterrupt, Text: "blue"})
	}
	return nil
}

// rewindOnce takes a task that asks something back to its first turn, lets it go on, and answers when it asks again.
func rewindOnce(ctx context.Context, p *person, t td.Task) error {
	switch {
	case t.Status.State == td.Paused:
		p.done["rewound"] = true
		if got, err := os.ReadFile(filepath.Join(t.Dir, "one.txt")); err != nil || string(got) != "one\n" {
			return td.Errorf(td.Internal, "it was rewound, and its files are not: %q, %v", got, err)
		}
		return p.once(ctx, "resume", string(t.ID), api.Command{Type: td.CmdResume})
	case t.Status.State == td.Waiting && !p.done["rewound"]:
		_, err := p.svc.Rewind(ctx, string(t.ID), api.Rewind{Key: "back", To: "t1.0"})
		return err
	case t.Status.State == td.Waiting:
		return answerAll(ctx, p, t)
	}
	return nil
}

// resumeStopped lets the task go on that a hook stopped after its first turn.
func resumeStopped(ctx context.Context, p *person, t td.Task) error {
	switch {
	case t.Status.State == td.Paused:
		p.done["seen"] = true
		return p.once(ctx, "resume", string(t.ID), api.Command{Type: td.CmdResume})
	case t.Turns > 1 && !p.done["seen"]:
		return td.Errorf(td.Internal, "the hook's stop was forgotten")
	}
	return nil
}

func cancelSlow(ctx context.Context, p *person, t td.Task) error {
	if strings.Contains(p.marks(), "begun") {
		return p.once(ctx, "cancel", string(t.ID), api.Command{Type: td.CmdCancel, Text: "enough"})
	}
	return nil
}
