package engine

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/hook"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

// picky is a spool whose first command fails.
type picky struct {
	noSpool
	ran []string
}

func (p *picky) Start(_ context.Context, _ string, cmd sandbox.Command) (sandbox.Process, error) {
	if p.ran = append(p.ran, cmd.Shell); len(p.ran) == 1 {
		return failing{}, nil
	}
	return passed{}, nil
}

type failing struct{ passed }

func (failing) Wait(context.Context, func([]byte)) (sandbox.ProcessResult, error) {
	return sandbox.ProcessResult{Exit: 1}, nil
}

// book is a guard whose rules count when they are kept.
type book struct{ guard }

func (b *book) Keep(ctx context.Context, rules []td.KeptRule) error {
	for _, r := range rules {
		b.rules = append(b.rules, policy.Rule{Verdict: policy.Verdict(r.Verdict), Match: r.Match, In: r.In})
	}
	return b.guard.Keep(ctx, rules)
}

// A validator that nobody here has agreed to is run after a person was asked, once, whatever the agent does meanwhile.
func TestForeignValidator(t *testing.T) {
	const command = "sh ./deploy.sh now"
	twice := []any{calls("Complete", `{"summary":"done"}`), calls("Complete", `{"summary":"done now"}`)}
	inWords := make([]any, 2) // they name the task
	refused := []any{calls("Complete", `{"summary":"done"}`), calls("Fail", `{"reason":"it may not be checked"}`)}
	for name, c := range map[string]struct {
		plays  []any
		rules  []policy.Rule
		answer td.Command // nil: nobody is asked
		yes    bool
		plain  bool // the task is not planned
		hook   hook.Result
		want   td.State
		ran    int
		kept   []string
	}{
		"yes":                    {plays: twice, answer: allowed(td.Request{}, td.Yes, ""), want: td.Completed, ran: 2},
		"yes, in words":          {plays: inWords, answer: allowed(td.Request{}, td.Yes, ""), want: td.Completed, ran: 2},
		"no":                     {plays: refused, answer: allowed(td.Request{}, td.No, ""), want: td.Failed},
		"always":                 {plays: twice, answer: allowed(td.Request{}, td.Always, td.ProjectScope, policy.ValidatorRule(command)), want: td.Completed, ran: 2, kept: []string{policy.ValidatorRule(command)}},
		"agreed to":              {plays: twice, rules: []policy.Rule{{Verdict: policy.Allow, Match: policy.ValidatorRule(command)}}, want: td.Completed, ran: 2},
		"another is agreed to":   {plays: refused, rules: []policy.Rule{{Verdict: policy.Allow, Match: policy.ValidatorRule("sh ./deploy.sh later")}}, answer: allowed(td.Request{}, td.No, ""), want: td.Failed},
		"every one is":           {plays: twice, rules: []policy.Rule{{Verdict: policy.Allow, Match: "Validator"}}, want: td.Completed, ran: 2},
		"none is":                {plays: refused, rules: []policy.Rule{{Verdict: policy.Deny, Match: "Validator"}}, want: td.Failed},
		"the agent may run it":   {plays: twice, rules: []policy.Rule{{Verdict: policy.Allow, Match: "Bash(sh ./deploy.sh *)"}}, want: td.Completed, ran: 2},
		"they are asked about":   {plays: refused, rules: []policy.Rule{{Verdict: policy.Ask, Match: "Validator"}, {Verdict: policy.Allow, Match: "Bash(sh ./deploy.sh *)"}}, answer: allowed(td.Request{}, td.No, ""), want: td.Failed},
		"yes to all":             {plays: twice, yes: true, want: td.Completed, ran: 2},
		"a hook agrees":          {plays: twice, hook: hook.Result{Permission: hook.Allow}, want: td.Completed, ran: 2},
		"a hook does not":        {plays: refused, hook: hook.Result{Blocked: true, Reason: "not here"}, want: td.Failed},
		"of whom added the task": {plays: twice, plain: true, want: td.Completed, ran: 2},
	} {
		t.Run(name, func(t *testing.T) {
			spool, g := &picky{}, &book{guard{rules: c.rules}}
			play(t, c.plays, func(s *td.Spec, o *Options) {
				s.Validator, s.Yes, o.Spool, o.Guard = command, c.yes, spool, g
				for i := range inWords {
					inWords[i] = says("<task-done>"+s.Handle+"</task-done>", td.EndTurn)
				}
				if !c.plain {
					s.Project = s.Dir
				}
				o.Hooks = hooked(t, func(_ context.Context, p hook.Payload, _ hook.Firing) (hook.Result, error) {
					if p := p.(hook.PermissionRequestPayload); p.ToolName != policy.Validator || !strings.Contains(string(p.ToolInput), command) {
						t.Errorf("the hook is asked about %s %s", p.ToolName, p.ToolInput)
					}
					return c.hook, nil
				}, hook.PermissionRequest)
			}, func(b *bench, id td.TaskID) {
				if c.answer.Answer != nil {
					waiting := b.until(id, td.Waiting)
					req := waiting.Requests[0]
					if len(waiting.Requests) != 1 || !strings.HasPrefix(req.Detail, command+"\nAfter a yes, it runs ") || len(spool.ran) != 0 || req.Limit != 0 || slices.Contains(req.Options, td.Never) {
						t.Fatalf("it ran %q, asked %+v", spool.ran, waiting.Requests)
					}
					c.answer.Answer.Request = req.ID
					b.post(id, c.answer)
				}
				task := b.until(id, c.want)
				if len(spool.ran) != c.ran || len(task.Requests) != 0 {
					t.Errorf("it ran %q, asked %+v", spool.ran, task.Requests)
				}
				if c.want == td.Failed {
					b.wantSaid(id, "the validator `"+command+"` may not be run")
				}
				var kept []string
				for _, r := range g.kept {
					if kept = append(kept, r.Match); r.In != task.Dir {
						t.Errorf("a rule holds in %q", r.In)
					}
				}
				if !slices.Equal(kept, c.kept) {
					t.Errorf("kept %q", strings.Join(kept, ", "))
				}
			})
		})
	}
}

// A validator that was changed while a person was asked about it is asked about anew: nobody has seen this one.
func TestForeignValidatorChanges(t *testing.T) {
	spool, other := &picky{}, "sh ./other.sh"
	play(t, []any{calls("Complete", `{"summary":"done"}`), calls("Complete", `{"summary":"done now"}`)}, func(s *td.Spec, o *Options) {
		s.Validator, s.Project, s.Order, o.Spool, o.Guard = "sh ./deploy.sh", s.Dir, &td.Order{Run: "r", Strategy: td.Fixed}, spool, &book{}
	}, func(b *bench, id td.TaskID) {
		first := b.until(id, td.Waiting).Requests[0]
		b.post(id, td.Command{Key: "stop", Type: td.CmdPause, By: td.ByRun})
		since := b.until(id, td.Paused).Status.Since
		b.post(id, td.Command{Key: "go on", Type: td.CmdOrder, Order: &td.Order{Run: "s", Since: since, Strategy: td.Fixed, Asks: &td.Asks{Validator: &other}}})
		b.until(id, td.Waiting)
		b.post(id, allowed(first, td.Yes, "")) // which is another's
		var second td.Request
		for range 1000 {
			time.Sleep(time.Millisecond) // in the bubble
			if open := b.task(id).Requests; len(open) == 1 && open[0].ID != first.ID {
				second = open[0]
				break
			}
		}
		if !strings.HasPrefix(second.Detail, other+"\n") || len(spool.ran) != 0 {
			t.Errorf("it ran %q, asked %+v", spool.ran, second)
		}
		b.post(id, allowed(second, td.Yes, ""))
		if b.until(id, td.Completed); !slices.Equal(spool.ran, []string{other, other}) {
			t.Errorf("it ran %q", spool.ran)
		}
	})
}
