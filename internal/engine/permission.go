package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"taskdaemon/internal/coord"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/transcript"
)

// errClaimEnds stops a run that may not start anything under a claim that is running out.
var errClaimEnds = fmt.Errorf("start no tool: %w", coord.ErrClaimLost)

// permitted reports whether a person allows the call that the rules do not decide. When nobody was asked yet
// it opens the request and the run ends; when the answer was no the model is told.
func (r *run) permitted(ctx context.Context, c *transcript.Call, call tool.Call, d policy.Decision) (allowed bool, rule string, err error) {
	if rule := r.unasked(c); rule != "" {
		return true, rule, nil
	}
	t, a := r.log.Task(), c.Asked
	if a != nil && (a.Request.InputHash != inputHash(c) || a.Request.Bound != call.Bound) {
		// Hooks or a skill that were changed meanwhile made another call of it, which nobody has seen.
		if r.isOpen(a) {
			if err := r.log.Stage(td.RequestExpired{ID: a.Request.ID, Why: "the call was changed"}); err != nil {
				return false, "", err
			}
		}
		a = nil
	}
	switch {
	case a == nil || !a.Settled() && !r.isOpen(a):
		limit := r.Permission
		if t.PermissionLimit > 0 {
			limit = t.PermissionLimit
		}
		req, said, err := r.requested(ctx, toolCall(c), td.Request{
			Kind: td.AskPermission, About: td.AboutTool, Step: c.Key, Tool: c.Use.Name,
			Prompt: fmt.Sprintf("Allow %s?", describe(c.Use)), Options: choices(d), Offers: offers(d),
			Detail: r.detail(c, call, d), Limit: limit, InputHash: inputHash(c), Bound: call.Bound, Confined: string(d.Confined),
			Diff: diffOf(call),
		})
		switch {
		case err != nil:
			return false, "", err
		case said.Blocked:
			return false, "", r.deny(ctx, c, "hook "+said.Hook, said.Reason)
		case said.Permission == hook.Allow:
			return true, "a hook at PermissionRequest", nil
		}
		return false, "", r.ask(ctx, req)
	case !a.Settled():
		return false, "", r.askAgain(ctx, a)
	case a.Expired:
		return false, "", r.deny(ctx, c, "nobody answered in time", "Nobody answered the permission request in time, so this call was not run.")
	case a.Answer.Choice != td.Yes && a.Answer.Choice != td.Always:
		if err := r.keepRules(ctx, a, policy.Deny); err != nil {
			return false, "", err
		}
		why := "The person did not allow this call."
		if a.Answer.Words != "" {
			why += " They said: " + a.Answer.Words
		}
		return false, "", r.deny(ctx, c, "request "+a.Request.Handle(), why)
	}
	return true, "request " + a.Request.Handle(), r.keepRules(ctx, a, policy.Allow)
}

// unasked is by what a call that the rules do not decide is allowed without a question; empty: a person is to be asked.
func (r *run) unasked(c *transcript.Call) (rule string) {
	switch hooked := r.pre[c.Key].Permission; {
	case refused(c):
	case hooked == hook.Allow:
		return "a hook at PreToolUse"
	case r.log.Task().Yes && hooked != hook.Ask && !r.tainted(): // who said yes had not read what the task has read since
		return "the task was added with --yes"
	}
	return ""
}

// diffOf is what a call would change in a file.
func diffOf(call tool.Call) string {
	if call.Diff == nil {
		return ""
	}
	return call.Diff()
}

// choices are what may be answered.
func choices(d policy.Decision) []string {
	if len(d.Offers) == 0 {
		return []string{td.Yes, td.No}
	}
	return []string{td.Yes, td.No, td.Always, td.Never}
}

// refused reports whether a person said no to this very call.
func refused(c *transcript.Call) bool {
	a := c.Asked
	return a != nil && a.Answer != nil && a.Request.InputHash == inputHash(c) &&
		(a.Answer.Choice == td.No || a.Answer.Choice == td.Never)
}

// unforced is permitted for a call that speaks to the loop alone: it needs no permission unless a rule or a
// hook says so, until it has begun. The model's own questions are asked of a person in any case.
func (r *run) unforced(ctx context.Context, c *transcript.Call) (allowed bool, err error) {
	if c.Intent != nil || c.Validation.Intent != nil || c.Verification.Intent != nil {
		return true, nil
	}
	d := r.decide(c, tool.Call{Free: true})
	switch {
	case d.Verdict == policy.Deny && !refused(c):
		return false, r.violated(ctx, c, d)
	case d.Verdict == policy.Allow && r.pre[c.Key].Permission != hook.Ask:
		return true, nil
	}
	allowed, rule, err := r.permitted(ctx, c, tool.Call{}, d)
	if err != nil || !allowed {
		return false, err
	}
	if err := r.granted(ctx, c, rule); err != nil {
		return false, err
	}
	return true, r.log.Stage(td.Decided{Step: c.Key, Tool: c.Use.Name, Decision: "allow", Rule: rule})
}

// deny records a call that may not run: the model reads why.
func (r *run) deny(ctx context.Context, c *transcript.Call, rule, why string) error {
	if err := r.denied(ctx, c, rule); err != nil {
		return err
	}
	via := td.Ran
	if refused(c) {
		via = td.Answered
	}
	return r.log.Append(ctx,
		td.Decided{Step: c.Key, Tool: c.Use.Name, Decision: "deny", Rule: rule},
		td.StepEnded{Outcome: td.Outcome{Key: c.Key, Via: via, Tool: &td.ToolResult{Content: why, IsError: true}}})
}

// question puts the model's own question to the person.
func (r *run) question(ctx context.Context, c *transcript.Call, t tool.Tool) error {
	call, err := t.Prepare(ctx, r.env(c.Key, t), c.Use.Input)
	if err != nil {
		return r.refuse(ctx, c, err.Error())
	}
	a := c.Asked
	switch {
	case a == nil || !a.Settled() && !r.isOpen(a):
		var in struct {
			Question string   `json:"question"`
			Options  []string `json:"options"`
		}
		if err := json.Unmarshal(call.Input, &in); err != nil {
			return r.refuse(ctx, c, err.Error())
		}
		return r.ask(ctx, td.Request{
			Kind: td.AskQuestion, About: td.AboutModel, Step: c.Key, Tool: c.Use.Name,
			Prompt: in.Question, Options: in.Options,
		})
	case !a.Settled():
		return r.askAgain(ctx, a)
	case a.Expired:
		return r.refuse(ctx, c, "Nobody answered in time.")
	}
	text := a.Answer.Choice
	if a.Answer.Words != "" {
		text += "\n" + a.Answer.Words
	}
	step, done := r.step(ctx)
	defer done()
	res, err := r.afterTool(step, c, td.ToolResult{Content: text + call.Ignored}, 0)
	if err != nil {
		return err
	}
	return r.log.Stage(td.StepEnded{Outcome: td.Outcome{Key: c.Key, Via: td.Answered, Tool: &res}})
}

// askAgain goes back to waiting for a request that is open already: the same one, not a second.
func (r *run) askAgain(ctx context.Context, a *transcript.Asked) error {
	return r.log.Move(ctx, func(t td.Task, at time.Time) (td.Move, error) { return td.Ask(t, a.Request, at) })
}

func (r *run) isOpen(a *transcript.Asked) bool {
	_, open := r.log.Task().Request(a.Request.ID)
	return open
}
