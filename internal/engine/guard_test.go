package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/hook"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/transcript"
)

// guard is a book of rules in memory.
type guard struct {
	rules []policy.Rule
	kept  []td.KeptRule
	local []td.KeptRule
	err   error
}

func (g *guard) Policy(dir, _ string, own []td.KeptRule) (*policy.Policy, error) {
	if g.err != nil {
		return nil, g.err
	}
	rules := g.rules
	for _, r := range own {
		rules = append(rules[:len(rules):len(rules)], policy.Rule{Verdict: policy.Verdict(r.Verdict), Match: r.Match})
	}
	return policy.New(policy.Place{Workspace: dir, Home: "/home/nobody"}, rules)
}

func (g *guard) Local(string) ([]td.KeptRule, error) { return g.local, g.err }

func (g *guard) Keep(_ context.Context, rules []td.KeptRule) error {
	g.kept = append(g.kept, rules...)
	return g.err
}

// command is a tool that would run a command.
func command(shell string) tool.Tool {
	return tool.Tool{Name: "Bash", Prepare: func(context.Context, *tool.Env, json.RawMessage) (tool.Call, error) {
		return tool.Call{Effect: td.Opaque, Command: shell, Title: shell, Run: func(context.Context) (td.ToolResult, error) {
			return td.ToolResult{Content: "it ran"}, nil
		}}, nil
	}}
}

func with(t ...tool.Tool) func(context.Context, td.Task, *td.ContextSet) More {
	return func(context.Context, td.Task, *td.ContextSet) More {
		return More{Tools: t, Record: json.RawMessage(`{}`)}
	}
}

func allowed(req td.Request, choice string, scope td.RuleScope, rules ...string) td.Command {
	return td.Command{Type: td.CmdAnswer, By: "ada", Answer: &td.Answer{Request: req.ID, Choice: choice, By: "ada", Rules: rules, Scope: scope}}
}

func TestFloorHoldsWhateverAPersonSaid(t *testing.T) {
	play(t, []any{calls("Bash", "{}")}, func(s *td.Spec, o *Options) {
		s.Yes = true
		o.Guard = &guard{rules: []policy.Rule{{Verdict: policy.Allow, Match: "Bash"}}}
		o.More = with(command("rm -rf /"))
		o.Hooks = hooked(t, says1(hook.Result{Permission: hook.Allow}), hook.SecurityPolicyCheck, hook.PreToolUse)
	}, func(b *bench, id td.TaskID) {
		b.until(id, td.Completed)
		b.wantSaid(id, "This is forbidden (floor")
		if said := b.conversation(id); strings.Contains(said, "it ran") {
			t.Errorf("it ran: %s", said)
		}
	})
}

func TestRulesDecide(t *testing.T) {
	for _, c := range []struct {
		verdict policy.Verdict
		hook    hook.Result
		state   td.State
		said    string
	}{
		{policy.Allow, hook.Result{}, td.Completed, "it ran"},
		{policy.Ask, hook.Result{}, td.Waiting, ""},
		{policy.Deny, hook.Result{}, td.Completed, "forbidden (deny Bash)"},
		{policy.Allow, no, td.Completed, "the hook says no"},
		{policy.Allow, hook.Result{Permission: hook.Ask}, td.Waiting, ""},
		{policy.Ask, hook.Result{Permission: hook.Allow}, td.Completed, "it ran"},
		{policy.Deny, hook.Result{Permission: hook.Allow}, td.Completed, "forbidden (deny Bash)"},
	} {
		play(t, []any{calls("Bash", "{}")}, func(s *td.Spec, o *Options) {
			o.Guard = &guard{rules: []policy.Rule{{Verdict: c.verdict, Match: "Bash"}}}
			o.More = with(command("shuf -eo x"))
			o.Hooks = hooked(t, says1(c.hook), hook.SecurityPolicyCheck)
		}, func(b *bench, id td.TaskID) {
			b.until(id, c.state)
			b.wantSaid(id, c.said)
		})
	}
}

func TestViolationIsTold(t *testing.T) {
	var got atomic.Pointer[hook.SecurityViolationPayload]
	play(t, []any{calls("Look", "{}")}, func(s *td.Spec, o *Options) {
		o.Guard = &guard{rules: []policy.Rule{{Verdict: policy.Deny, Match: "Look", Why: "nothing to see"}}}
		o.Hooks = hooked(t, func(_ context.Context, p hook.Payload, _ hook.Firing) (hook.Result, error) {
			v := p.(hook.SecurityViolationPayload)
			got.Store(&v)
			return hook.Result{}, nil
		}, hook.SecurityViolation)
	}, func(b *bench, id td.TaskID) {
		b.until(id, td.Completed)
		b.wantSaid(id, "nothing to see")
		if p := got.Load(); p == nil || p.Rule != "deny Look" || p.Cause != `A rule says: "nothing to see".` || b.looked.Load() > 0 {
			t.Errorf("the hook was told %+v; looked %d times", p, b.looked.Load())
		}
	})
}

func TestAlwaysHolds(t *testing.T) {
	g := &guard{}
	play(t, []any{calls("Bash", "{}"), calls("Bash", "{}")}, func(s *td.Spec, o *Options) {
		o.Guard, o.More = g, with(command("shuf -eo x"))
	}, func(b *bench, id td.TaskID) {
		req := b.until(id, td.Waiting).Requests[0]
		if want := []string{"yes", "no", "always", "never"}; !slices.Equal(req.Options, want) || len(req.Offers) == 0 || req.Offers[0].Rules[0] != "Bash(shuf -eo x)" {
			t.Fatalf("asked %+v", req)
		}
		b.post(id, allowed(req, td.Always, td.TaskScope, "Bash(shuf -eo x)"))
		task := b.until(id, td.Completed)
		if len(task.Rules) != 1 || task.Rules[0].By != "ada" || len(g.kept) > 0 {
			t.Errorf("rules %+v, written down %+v", task.Rules, g.kept)
		}
	})
	play(t, []any{calls("Bash", "{}"), calls("Bash", "{}")}, func(s *td.Spec, o *Options) {
		o.Guard, o.More = g, with(command("shuf -eo x"))
	}, func(b *bench, id td.TaskID) {
		b.post(id, allowed(b.until(id, td.Waiting).Requests[0], td.Never, td.ProjectScope, "Bash(shuf -eo x)"))
		for b.task(id).Turns < 2 {
			b.until(id, td.Waiting)
		}
		if len(g.kept) != 1 || g.kept[0].Verdict != "deny" || g.kept[0].In != b.task(id).Dir {
			t.Errorf("written down %+v", g.kept)
		}
	})
}

func TestRulesThatCannotBeReadAllowNothing(t *testing.T) {
	play(t, []any{calls("Look", "{}")}, func(s *td.Spec, o *Options) {
		o.Guard = &guard{err: errors.New("line 3 makes no sense")}
	}, func(b *bench, id td.TaskID) {
		if req := b.until(id, td.Waiting).Requests[0]; !strings.Contains(req.Detail, "line 3 makes no sense") {
			t.Errorf("asked %+v", req)
		}
	})
}

func TestRates(t *testing.T) {
	play(t, []any{calls("Look", "{}"), calls("Look", "{}"), calls("Look", "{}")}, func(s *td.Spec, o *Options) {
		o.Rates = []policy.Rate{{Match: "Look", Limit: 2, Per: time.Minute}}
	}, func(b *bench, id td.TaskID) {
		b.until(id, td.Completed)
		b.wantSaid(id, "Look was called too often")
		if n := b.looked.Load(); n != 2 {
			t.Errorf("looked %d times", n)
		}
	})
}

// TestRatesOfOneAnswer: calls that are made together count together.
func TestRatesOfOneAnswer(t *testing.T) {
	play(t, []any{calls("Look", "{}", "Look", "{}", "Look", "{}", "Look", "{}", "Look", "{}")}, func(s *td.Spec, o *Options) {
		o.Rates = []policy.Rate{{Match: "Look", Limit: 2, Per: time.Minute}}
	}, func(b *bench, id td.TaskID) {
		b.until(id, td.Completed)
		if n := b.looked.Load(); n != 2 {
			t.Errorf("looked %d times", n)
		}
	})
}

func TestAskMayBeForbidden(t *testing.T) {
	play(t, []any{calls("Ask", `{"question":"Which?"}`)}, func(s *td.Spec, o *Options) {
		o.Guard = &guard{rules: []policy.Rule{{Verdict: policy.Deny, Match: "Ask"}}}
	}, func(b *bench, id td.TaskID) {
		b.until(id, td.Completed)
		b.wantSaid(id, "This is forbidden")
	})
}

func TestAnomalies(t *testing.T) {
	limits := transcript.AnomalyLimits{Commands: 1}
	for _, c := range []struct {
		action td.AnomalyAction
		hook   hook.Result
		want   td.State
		by     string
	}{
		{td.AnomalyWarn, hook.Result{}, td.Completed, ""},
		{td.AnomalyPause, hook.Result{}, td.Paused, "taskdaemon"},
		{td.AnomalyWarn, no, td.Paused, "hook AnomalyDetected"},
	} {
		var told atomic.Int32
		play(t, []any{calls("Bash", "{}"), calls("Bash", "{}"), calls("Look", "{}")}, func(s *td.Spec, o *Options) {
			s.Yes = true
			o.More, o.Anomalies, o.AnomalyAction = with(command("shuf -eo x")), limits, c.action
			o.Hooks = hooked(t, func(context.Context, hook.Payload, hook.Firing) (hook.Result, error) { told.Add(1); return c.hook, nil }, hook.AnomalyDetected)
		}, func(b *bench, id td.TaskID) {
			task := b.until(id, c.want)
			if told.Load() != 1 || task.Status.Paused != nil && task.Status.Paused.By != c.by {
				t.Errorf("%s: told %d times, paused %+v", c.action, told.Load(), task.Status.Paused)
			}
		})
	}
}

// What is unusual is found after the call that made it so, not at the end of the turn: the rest of the turn waits.
func TestAnomaliesWithinATurn(t *testing.T) {
	bash := calls("Bash", "{}", "Bash", "{}", "Bash", "{}", "Bash", "{}")
	play(t, []any{bash}, func(s *td.Spec, o *Options) {
		s.Yes = true
		o.More, o.Anomalies, o.AnomalyAction = with(command("shuf -eo x")), transcript.AnomalyLimits{Commands: 1}, td.AnomalyPause
	}, func(b *bench, id td.TaskID) {
		for _, ran := range []int{2, 4} { // the count begins anew
			b.until(id, td.Paused)
			n := 0
			for _, in := range intents(b, id) {
				if in.Name == "Bash" {
					n++
				}
			}
			if n != ran {
				t.Errorf("paused after %d commands, want %d", n, ran)
			}
			b.post(id, td.Command{Type: td.CmdResume})
			synctest.Wait()
		}
		b.until(id, td.Completed)
	})
}

// A validator that the floor or a deny rule forbids is run for nobody: the nomination is refused, and why is said.
func TestValidatorThatIsForbidden(t *testing.T) {
	deny := []policy.Rule{{Verdict: policy.Deny, Match: "Bash(make deploy*)"}}
	for command, g := range map[string]*guard{
		"cat ~/.ssh/id_rsa": {}, "make deploy": {rules: deny}, "true": {err: errors.New("no rules")},
	} {
		play(t, []any{calls("Complete", `{"summary":"done"}`), calls("Fail", `{"reason":"it may not be checked"}`)}, func(s *td.Spec, o *Options) {
			s.Yes, s.Validator, o.Guard, o.Spool = true, command, g, atOnce{}
		}, func(b *bench, id td.TaskID) {
			b.until(id, td.Failed)
			b.wantSaid(id, "the validator `"+command+"` may not be run")
		})
	}
	play(t, []any{calls("Complete", `{"summary":"done"}`)}, func(s *td.Spec, o *Options) {
		s.Validator, o.Guard, o.Spool = "make test", &guard{rules: deny}, atOnce{} // nobody was asked, and need not be
	}, func(b *bench, id td.TaskID) { b.until(id, td.Completed) })
}

// A no stands, even if the rules have come to allow the call by the time it is looked at again.
func TestNoStands(t *testing.T) {
	g := &guard{}
	play(t, []any{calls("Bash", "{}")}, func(s *td.Spec, o *Options) {
		o.Guard, o.More = g, with(command("rmdir x"))
	}, func(b *bench, id td.TaskID) {
		req := b.until(id, td.Waiting).Requests[0]
		g.rules = []policy.Rule{{Verdict: policy.Allow, Match: "Bash"}}
		b.post(id, allowed(req, td.No, ""))
		b.until(id, td.Completed)
		b.wantSaid(id, "The person did not allow this call.")
		if said := b.conversation(id); strings.Contains(said, "it ran") {
			t.Errorf("it ran: %s", said)
		}
	})
}
