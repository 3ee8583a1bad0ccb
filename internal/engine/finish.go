package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/durable"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/transcript"
)

var (
	fpNominated    = failpoint.New("engine.finish.nominated")
	fpValidated    = failpoint.New("engine.finish.validated")
	fpUnwritten    = failpoint.New("engine.finish.unwritten")
	fpBeforeFinish = failpoint.New("engine.finish.before_end")
	fpFinished     = failpoint.New("engine.finish.ended")
)

// nomination is the agent's word that the task is done, or that it cannot be.
type nomination struct {
	call    *transcript.Call // by which it was made, or the answer if it was made in words
	inWords bool
	failed  bool
	text    string // what was done, or why it cannot be
	notes   string // for those who come after
}

// nominate takes the agent at its word, as far as the finish rule allows (L-11).
func (r *run) nominate(ctx context.Context, c *transcript.Call) error {
	t, _ := r.toolbox().Get(c.Use.Name)
	if c.Use.Malformed != "" {
		return r.refuse(ctx, c, "The input was not valid JSON: "+clip(c.Use.Malformed, 200))
	}
	call, err := t.Prepare(ctx, r.env(c.Key, t), c.Use.Input)
	if err != nil {
		return r.refuse(ctx, c, err.Error())
	}
	var in struct {
		Summary string `json:"summary"`
		Reason  string `json:"reason"`
		Notes   string `json:"notes"`
	}
	if err := json.Unmarshal(call.Input, &in); err != nil {
		return r.refuse(ctx, c, err.Error())
	}
	n := nomination{call: c, text: in.Summary, notes: in.Notes}
	if t.Control == tool.FailControl {
		n.failed, n.text = true, in.Reason
	}
	n.text = clip(n.text, maxAnswer) // the call itself keeps the whole of it
	return r.conclude(ctx, n)
}

// conclude ends the task as nominated, if it may.
func (r *run) conclude(ctx context.Context, n nomination) error {
	fpNominated.Hit()
	if subtask(r.log.Task()) {
		n.text = r.answer(n)
	}
	if err := r.snapped(ctx); err != nil { // the validator may write
		return err
	}
	if n.failed {
		return r.fail(ctx, td.FailedData{
			Error: n.text, Recoverable: true,
			Hint: "taskdaemon task send, then taskdaemon resume " + r.log.Task().Handle,
		}, r.taken(n, td.EndedFailed)...)
	}
	if why, err := r.lacks(ctx); err != nil {
		return err
	} else if why != "" {
		return r.reject(ctx, n, "Not accepted: "+why)
	}
	// A job that goes on could show the validator other files than are merged.
	if err := r.reapJobs(ctx, "the task said that it was completed"); err != nil {
		return err
	}
	evidence, passed, err := r.validate(ctx, n)
	if err != nil || !passed {
		return err
	}
	evidence, passed, err = r.verify(ctx, n, evidence)
	if err != nil || !passed {
		return err
	}
	if n.text == "" {
		if n.text, err = r.summary(ctx); err != nil {
			return err
		}
	}
	evidence, passed, err = r.integrate(ctx, n, evidence)
	if err != nil || !passed {
		return err
	}
	if err := r.learn(ctx); err != nil {
		return err
	}
	r.ending = hook.TaskCompleted
	if err := r.reap(ctx, "the task was completed"); err != nil {
		return err
	}
	if err := r.completing(ctx, n.text); err != nil {
		return err
	}
	fpBeforeFinish.Hit()
	if err := r.log.Stage(r.taken(n, td.EndedCompleted)...); err != nil {
		return err
	}
	below, err := r.Journal.SubtasksSpent(ctx, r.held.Task)
	if err != nil {
		return err
	}
	err = r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) {
		t.Subtasks = below
		return td.Complete(t, n.text, evidence, at)
	})
	fpFinished.Hit()
	return err
}

// taken are the records of a nomination that counts: the result of its call, and what the iteration leaves.
func (r *run) taken(n nomination, ending td.Ending) (out []td.Body) {
	if !n.inWords {
		out = append(out, td.StepEnded{Outcome: td.Outcome{Key: n.call.Key, Via: td.Ran, Tool: &td.ToolResult{Content: "Accepted."}}})
	}
	if planned(r.log.Task()) {
		reason := ""
		if n.failed {
			reason = n.text
		}
		note := r.note(ending, reason, n.notes)
		out = append(out, note)
	}
	return out
}

// reject tells the agent why its nomination does not count.
func (r *run) reject(ctx context.Context, n nomination, why string) error {
	if n.inWords {
		return r.log.Append(ctx, td.Said{By: "taskdaemon", Why: td.Reject, Text: why})
	}
	return r.refuse(ctx, n.call, why)
}

// validate runs the task's validator, if it has one, under the shim like any command. A validator only
// judges: one whose result a crash took away is run again.
func (r *run) validate(ctx context.Context, n nomination) (*td.Evidence, bool, error) {
	task, v := r.log.Task(), n.call.Validation
	if task.Validator == "" {
		return nil, true, nil
	}
	stale, err := r.outdated(ctx, v)
	if err != nil {
		return nil, false, err
	}
	if v.Intent == nil && v.Outcome == nil || stale {
		if why := r.forbidden(task); why != "" {
			return nil, false, r.unwanted(ctx, n, why)
		}
		if agreed, err := r.agreed(ctx, n); err != nil || !agreed {
			return nil, false, err
		}
	}
	if stale {
		// Else the result that is there would be taken for the new one.
		r.cleaning.Wait()
		r.forget(v.Key.Try(v.Intent.Attempt))
	}
	if v.Outcome == nil || stale {
		if err := r.runValidator(ctx, v, false); err != nil {
			return nil, false, err
		}
		v = n.call.Validation // the record of the step was folded into the call
		if v.Outcome == nil || r.log.Task().Status.State != td.Running {
			return nil, false, nil // it waits for what the validator needs
		}
		if err := r.released(ctx); err != nil {
			return nil, false, err
		}
	}
	fpValidated.Hit()
	res := v.Outcome.Tool
	if res.IsError {
		return nil, false, r.reject(ctx, n, fmt.Sprintf(
			"Not accepted: the validator `%s` did not pass. Fix it and call Complete again.\n%s", task.Validator, res.Content))
	}
	var ev td.Evidence
	if err := json.Unmarshal([]byte(res.Content), &ev); err != nil {
		return nil, false, fmt.Errorf("read the validator's evidence: %w", err)
	}
	if ev.Left == "" {
		return &ev, true, nil
	}
	return r.wrote(ctx, n, ev)
}

// wrote follows a validator that passed and left other files than it had looked at. What it wrote in the worktree of the
// task is put back (it stays in a snapshot): it is not the agent's work, and nobody has validated it. Where that cannot be
// done, the validator has to pass on what it left, too.
func (r *run) wrote(ctx context.Context, n nomination, ev td.Evidence) (*td.Evidence, bool, error) {
	task := r.log.Task()
	now, err := r.Tree(ctx, task.Dir)
	if err != nil {
		return nil, false, fmt.Errorf("hash the validated workspace: %w", err)
	}
	if now != ev.Left {
		return &ev, true, nil // it was put back, or somebody wrote since, which the verifier looks for
	}
	if album := r.keeps(ctx); task.Worktree != nil && album != nil {
		err := album.Restore(ctx, ev.Tree)
		fpUnwritten.Hit()
		if err == nil {
			return &ev, true, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return nil, false, cause
		}
		r.Log.Warn("put back what the validator wrote", "task", task.Handle, "err", err)
	}
	var last td.Validation
	if in := n.call.Validation.Intent; in != nil && len(in.Evidence) > 0 {
		if err := json.Unmarshal(in.Evidence, &last); err != nil {
			return nil, false, td.Errorf(td.Corrupt, "read what the validator looked at: %w", err)
		}
	}
	if last.Again {
		return &ev, true, nil
	}
	r.cleaning.Wait()
	r.forget(n.call.Validation.Key.Try(n.call.Validation.Intent.Attempt))
	return nil, false, r.runValidator(ctx, n.call.Validation, true) // what it finds is looked at next
}

// unwrite puts back what a validator that did not pass wrote in the worktree of the task, and reports whether it did. It stays in a snapshot.
func (r *run) unwrite(ctx context.Context, tree string) bool {
	task := r.log.Task()
	album := r.keeps(ctx)
	if task.Worktree == nil || album == nil || tree == "" {
		return false
	}
	now, err := r.Tree(ctx, task.Dir)
	if err == nil && now == tree {
		return false
	}
	if err == nil {
		err = album.Restore(ctx, tree)
		fpUnwritten.Hit()
	}
	if err != nil {
		r.Log.Warn("put back what the validator wrote", "task", task.Handle, "err", err)
	}
	return err == nil
}

// leftBehind names the files that changed while a validator ran that did not pass, in the person's own folder. Nothing is put back there: the person may have written
// them meanwhile, and nobody can tell.
func (r *run) leftBehind(ctx context.Context, key td.StepKey, tree string) string {
	album := r.keeps(ctx)
	if album == nil || tree == "" || r.shots.taking != nil {
		return ""
	}
	shot, err := album.Take(ctx, key, true)
	var changed []string
	if err == nil && shot.Tree != tree {
		changed, err = album.Changed(ctx, tree, shot.Tree)
	}
	if err != nil {
		r.Log.Warn("look for what the validator wrote", "task", r.log.Task().Handle, "err", err)
	}
	if len(changed) == 0 {
		return ""
	}
	named := strings.Join(changed[:min(len(changed), maxChanged)], "\n")
	return fmt.Sprintf("\nThese files changed while the validator ran. They are in the person's own folder, so nothing was put back; remove what the validator left there and is not your work:\n%s", named)
}

// outdated reports whether what the validator found was found of other files than there are now: people edit while the
// daemon is down. Where nobody can tell, it counts as outdated. The verifier has a look of its own at that.
func (r *run) outdated(ctx context.Context, v transcript.Check) (bool, error) {
	task := r.log.Task()
	if v.Outcome == nil || v.Outcome.Tool.IsError || verifies(task) {
		return false, nil
	}
	var ev td.Evidence
	if err := json.Unmarshal([]byte(v.Outcome.Tool.Content), &ev); err != nil {
		return false, td.Errorf(td.Corrupt, "read the validator's evidence: %w", err)
	}
	tree, err := r.Tree(ctx, task.Dir)
	if cause := context.Cause(ctx); cause != nil {
		return false, cause
	}
	if err != nil {
		r.Log.Warn("hash workspace", "task", task.Handle, "err", err)
	}
	return err != nil || tree != ev.Tree && tree != ev.Left, nil
}

// forbidden says why the task's validator may not be run: what the floor and deny rules forbid is not run for
// anybody, whoever wrote it into the task or the graph.
func (r *run) forbidden(task td.Task) string {
	return r.barred(task, r.root.Dir(), task.Validator)
}

// policy is what calls of the task in a folder are judged by. A worktree may lack the rules of the project's own folder: those
// hold as well.
func (r *run) policy(task td.Task, dir string) (*policy.Policy, error) {
	own := slices.Concat(task.Inherited, task.Rules)
	if task.Worktree != nil {
		local, err := r.Guard.Local(task.Home())
		if err != nil {
			return nil, err
		}
		own = append(own, local...)
	}
	return r.Guard.Policy(dir, treeOf(task, dir), own)
}

// barred says why a command may not be run on behalf of the task, whoever wants it.
func (r *run) barred(task td.Task, dir, command string) string {
	p, err := r.policy(task, dir)
	if err != nil {
		return fmt.Sprintf("The rules cannot be read: %v.", err)
	}
	if d, is := p.Forbids(command, dir); is {
		return fmt.Sprintf("It is forbidden (%s). %s", d.Rule, d.Why)
	}
	return ""
}

// runValidator runs it; again says that it passed before, and wrote.
func (r *run) runValidator(ctx context.Context, v transcript.Check, again bool) error {
	if !r.held.MayStart() {
		return errClaimEnds
	}
	task := r.log.Task()
	attempt := 0
	if v.Intent != nil {
		attempt = v.Intent.Attempt + 1
	}
	step, done := r.ctl.Step(ctx)
	defer done()
	if v.Intent != nil {
		settled, err := r.log.Settle(step, *v.Intent, func(ctx context.Context, prior td.Intent) (durable.Resolution, error) {
			p, state, err := r.Spool.Find(tool.SpoolName(task.ID, prior.Key.Try(prior.Attempt)))
			if err != nil || state != sandbox.StillRunning && state != sandbox.Finished {
				return durable.Resolution{}, err
			}
			out, err := r.judge(ctx, prior, p)
			out.Via = td.Adopted
			return durable.Resolution{State: durable.Done, Outcome: out}, err
		}, func() { r.clean(v.Key, v.Intent.Attempt) })
		if err != nil || settled {
			return err
		}
		r.clean(v.Key, v.Intent.Attempt)
	}
	name := tool.SpoolName(task.ID, v.Key.Try(attempt))
	wants := r.commandWants(task.Validator)
	tree := r.beforeValidator(step, v.Key)
	evidence, err := json.Marshal(td.Validation{Tree: tree, Again: again})
	if err != nil {
		return fmt.Errorf("name what is validated: %w", err)
	}
	in := td.Intent{Key: v.Key, Kind: td.ValidatorStep, Name: task.Validator, Effect: td.Pure, Attempt: attempt, Wants: wants, Evidence: evidence}
	_, err = r.log.Do(step, durable.Step{
		Intent: in,
		Run: r.leased(v.Key, wants, func(ctx context.Context) (td.Outcome, error) {
			if err := r.root.Intact(); err != nil { // what passes elsewhere proves nothing
				return toolError(fmt.Sprintf("the validator could not be started: %v", err)), nil
			}
			p, err := r.Spool.Start(ctx, name, sandbox.Command{
				Shell: task.Validator, Dir: task.Dir, Timeout: validatorLimit, Task: task.ID, Run: task.Run, Step: v.Key,
				Profile: r.heldTo(r.validatorHeld(task)),
			})
			if disk.Trouble(err) {
				return td.Outcome{}, err
			}
			if err != nil {
				return toolError(fmt.Sprintf("the validator could not be started: %v", err)), nil
			}
			return r.judge(ctx, in, p)
		}),
		Then: func() { r.clean(v.Key, attempt) },
	})
	if by, is := errors.AsType[*td.BusyError](err); is {
		why, err := r.busy(ctx, v.Key, wants, by)
		if err != nil || why == "" {
			return err
		}
		out := toolError(why)
		out.Key, out.Via = v.Key, td.Ran
		return r.log.Append(ctx, td.StepEnded{Outcome: out})
	}
	return err
}

// validatorLimit is generous: a validator is often a whole test suite.
const validatorLimit = 30 * time.Minute

// beforeValidator is the tree that the validator will look at, or empty. What is in it is written down first, so that it can
// be had again if the validator writes.
func (r *run) beforeValidator(ctx context.Context, key td.StepKey) string {
	task := r.log.Task()
	if album := r.keeps(ctx); album != nil && r.shots.taking == nil {
		if _, err := album.Take(ctx, key, true); err != nil {
			r.Log.Warn("take snapshot", "task", task.Handle, "err", err)
		}
	}
	tree, err := r.Tree(ctx, task.Dir)
	if err != nil {
		r.Log.Warn("hash workspace", "task", task.Handle, "err", err)
		return "" // what was not looked at is not claimed
	}
	return tree
}

// judge waits for the validator and makes its result: on success the evidence as JSON, else the output.
func (r *run) judge(ctx context.Context, in td.Intent, p sandbox.Process) (td.Outcome, error) {
	task := r.log.Task()
	lines, emit := redact.Stream{Redactor: r.Redact}, r.env(in.Key, tool.Tool{}).Emit
	res, err := p.Wait(ctx, func(out []byte) { emit(lines.Write(out)) })
	emit(lines.Close())
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			if !errors.Is(cause, tool.ErrDetach) {
				_ = p.Kill(context.WithoutCancel(ctx))
			}
			return td.Outcome{}, cause
		}
		if disk.Trouble(err) {
			return td.Outcome{}, err
		}
		return toolError(fmt.Sprintf("the validator's result is lost: %v", err)), nil
	}
	var began td.Validation
	if len(in.Evidence) > 0 { // earlier versions wrote none
		if err := json.Unmarshal(in.Evidence, &began); err != nil {
			return td.Outcome{}, td.Errorf(td.Corrupt, "read what the validator looked at: %w", err)
		}
	}
	if res.Exit != 0 {
		said := fmt.Sprintf("exit %d\n%s", res.Exit, tool.Output(r.Redact, res))
		if task.Worktree == nil {
			said += r.leftBehind(ctx, in.Key, began.Tree)
		} else if r.unwrite(ctx, began.Tree) {
			said += "\nWhat the validator itself wrote was put back: only your work counts."
		}
		return toolError(said), context.Cause(ctx)
	}
	ev := td.Evidence{Tree: began.Tree, Command: task.Validator, Exit: res.Exit}
	switch tree, err := r.Tree(ctx, task.Dir); {
	case err != nil:
		r.Log.Warn("hash workspace", "task", task.Handle, "err", err)
		ev.Tree = ""
	case tree != began.Tree && began.Tree != "":
		ev.Left = tree
	}
	raw, err := json.Marshal(ev)
	if err != nil {
		return td.Outcome{}, err
	}
	exit := res.Exit
	return td.Outcome{Tool: &td.ToolResult{Content: string(raw), Exit: &exit}}, nil
}
