package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/td"
	"taskdaemon/internal/transcript"
)

var fpValidatorAgreed = failpoint.New("engine.validator.agreed")

// agreed reports whether the task's validator may be run. That of a planned task is whatever the graph says, and whoever shares
// the graph can write there: unless a person on this machine gave that very text, or agreed to it, one is asked.
func (r *run) agreed(ctx context.Context, n nomination) (bool, error) {
	task, v := r.log.Task(), n.call.Validation
	if !planned(task) || task.Yes {
		return true, nil
	}
	d, err := r.decideValidator(task)
	switch {
	case err != nil:
		return false, r.reject(ctx, n, fmt.Sprintf("Not accepted: the rules cannot be read: %v. Nobody but a person can change that: call Fail and say so.", err))
	case d.Verdict == policy.Deny:
		return false, r.unwanted(ctx, n, fmt.Sprintf("It is forbidden (%s). %s", d.Rule, d.Why))
	case d.Verdict == policy.Allow:
		return true, nil
	}
	a, bound := v.Asked, policy.ValidatorBound(task.Validator)
	if a != nil && a.Request.Bound != bound {
		// The graph has another text by now, which nobody has seen.
		if r.isOpen(a) {
			if err := r.log.Stage(td.RequestExpired{ID: a.Request.ID, Why: "the validator was changed"}); err != nil {
				return false, err
			}
		}
		a = nil
	}
	switch {
	case a == nil || !a.Settled() && !r.isOpen(a):
		// It waits for as long as it takes: without the validator the task cannot be completed, and to ask the agent
		// again and again would cost more than to wait.
		input, err := json.Marshal(map[string]string{"command": task.Validator})
		if err != nil {
			return false, err
		}
		req, said, err := r.requested(ctx, hook.ToolCall{ToolName: policy.Validator, ToolInput: input}, td.Request{
			Kind: td.AskPermission, About: td.AboutTool, Step: v.Key, Tool: policy.Validator, Bound: bound,
			Prompt:  fmt.Sprintf("Run the validator of %s? Nobody on this machine has agreed to this command yet.", task.Handle),
			Detail:  task.Validator + "\n" + afterYes(r.heldTo(agreedHeld(d))),
			Options: []string{td.Yes, td.No, td.Always},
			Offers:  []td.Offer{{Rules: []string{policy.ValidatorRule(task.Validator)}, Words: "this command as a validator"}},
		})
		switch {
		case err != nil:
			return false, err
		case said.Blocked:
			return false, r.unwanted(ctx, n, fmt.Sprintf("Hook %s says no. %s", said.Hook, said.Reason))
		case said.Permission == hook.Allow:
			return true, nil
		}
		return false, r.ask(ctx, req)
	case !a.Settled():
		return false, r.askAgain(ctx, a)
	case a.Expired || a.Answer.Choice != td.Yes && a.Answer.Choice != td.Always:
		why := "The person did not allow it."
		if a.Answer != nil && a.Answer.Words != "" {
			why += " They said: " + a.Answer.Words
		}
		return false, r.unwanted(ctx, n, why)
	}
	return true, r.keepAgreed(ctx, a, task)
}

// unwanted tells the agent that the validator is not run.
func (r *run) unwanted(ctx context.Context, n nomination, why string) error {
	return r.reject(ctx, n, fmt.Sprintf(
		"Not accepted: the validator `%s` may not be run. %s Nobody but a person can change that: call Fail and say so.", r.log.Task().Validator, why))
}

// keepAgreed makes a rule of a yes, too: it holds for the task, which may be nominated more than once.
func (r *run) keepAgreed(ctx context.Context, a *transcript.Asked, task td.Task) error {
	if a.Answer.Choice == td.Yes && !a.Kept {
		if err := r.log.Append(ctx, td.RulesKept{Request: a.Request.ID, Scope: td.TaskScope, Rules: []td.KeptRule{{
			Verdict: string(policy.Allow), Match: policy.ValidatorRule(task.Validator), By: a.Answer.By, At: a.AnsweredAt,
		}}}); err != nil {
			return err
		}
	}
	err := r.keepRules(ctx, a, policy.Allow)
	fpValidatorAgreed.Hit()
	return err
}

// decideValidator says what the rules say of the task's validator: a rule that speaks of validators decides; else it runs
// where a sandbox holds it to the workspace, like a build. What the task has read since does not count: it did not write
// the text.
func (r *run) decideValidator(task td.Task) (policy.Decision, error) {
	p, err := r.policy(task, r.root.Dir())
	if err != nil {
		return policy.Decision{}, err
	}
	d := p.Decide(policy.Action{Tool: policy.Validator, Bound: policy.ValidatorBound(task.Validator), Mode: policy.ModeAsk})
	if d.Verdict != policy.Ask || !d.Unruled {
		return d, nil
	}
	mode := policy.Mode(r.mode(task))
	if mode == policy.ModeAcceptEdits {
		mode = policy.ModeAuto
	}
	as := p.Decide(policy.Action{Tool: "Bash", Command: task.Validator, Dir: r.root.Dir(), Mode: mode, Sandboxed: r.confined()})
	if as.Verdict == policy.Allow {
		return as, nil
	}
	return d, nil
}

// validatorHeld is what the validator is held to. Every attempt asks anew, also one after a crash: where nothing allows it
// any more, it is held.
func (r *run) validatorHeld(task td.Task) policy.Confinement {
	if !planned(task) {
		return policy.Unconfined
	}
	d, err := r.decideValidator(task)
	switch {
	case err != nil:
		return policy.HeldToWorkspace
	case d.Verdict == policy.Allow:
		return d.Confined
	case task.Yes:
		return agreedHeld(d)
	}
	return policy.HeldToWorkspace
}

// agreedHeld is what holds a validator that is asked about after a yes. One that a rule has asked about is held as without the rule; the mode asks where no sandbox holds it.
func agreedHeld(d policy.Decision) policy.Confinement {
	if d.Unruled {
		return policy.Unconfined
	}
	return policy.HeldToWorkspace
}
