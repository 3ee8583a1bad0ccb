package engine

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"taskdaemon/internal/durable"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/transcript"
)

var (
	fpRulesRecorded = failpoint.New("engine.rules.recorded")
	fpRulesKept     = failpoint.New("engine.rules.kept")
)

// Guard gives the rules that are in force, and keeps those that answers make.
type Guard interface {
	// Policy is what holds in a workspace for a task with rules of its own. tree is the top folder of the worktree of its own that the workspace lies in, or empty.
	Policy(dir, tree string, own []td.KeptRule) (*policy.Policy, error)
	// Local are the rules that hold in a workspace for where it is, and so for a checkout of it as well.
	Local(dir string) ([]td.KeptRule, error)
	// Keep writes rules down, each once.
	Keep(ctx context.Context, rules []td.KeptRule) error
}

// decide says what may become of a call, by the rules alone (G-1, G-2). Every call of every loop passes here,
// as it would run. Rules that cannot be read allow nothing that touches anything.
func (r *run) decide(c *transcript.Call, call tool.Call) policy.Decision {
	task := r.log.Task()
	if d, decided := authored(task, call); decided {
		return d
	}
	p, err := r.policy(task, r.root.Dir())
	switch {
	case err != nil && call.Free:
		return policy.Decision{Verdict: policy.Allow, Rule: "it changes nothing", Looks: true}
	case err != nil:
		return policy.Decision{Verdict: policy.Ask, Rule: "rules that cannot be read", Why: err.Error(), Fixed: true}
	}
	t, _ := r.toolbox().Get(c.Use.Name)
	a := policy.Action{
		Tool: c.Use.Name, Origin: t.Origin, Bound: call.Bound, Paths: call.Paths, Command: call.Command, Dir: r.root.Dir(), Hosts: call.Hosts,
		Looks: call.Effect == td.Pure || call.Free && !(call.Learns && r.mode(task) == td.PlanMode), Sifts: call.Sifts, Mode: policy.Mode(r.mode(task)),
		Sandboxed: call.Command != "" && r.confined(), Apart: task.Apart() != "", Tainted: r.tainted(),
	}
	if a.Command != "" && a.Origin != policy.Builtin {
		// A skill's command is its author's and takes its input from the environment: what the floor forbids it may not
		// do, and the rest is judged by the tool's name.
		if d := p.Decide(a); d.Verdict == policy.Deny {
			return d
		}
		a.Command = ""
	}
	return p.Decide(a)
}

// tainted reports whether the task is held stricter for what it has read.
func (r *run) tainted() bool { return r.Taint && r.log.Task().Untrusted }

// hidden tells the paths that a task's model may not read. The rules are those of the first question. Where they
// cannot be read it may read nothing.
func (r *run) hidden(task td.Task) func(path string) bool {
	rules := sync.OnceValues(func() (*policy.Policy, error) {
		return r.policy(task, r.root.Dir())
	})
	return func(path string) bool {
		p, err := rules()
		return err != nil || p.Hides(path)
	}
}

// tooOften says how a call would break a rate of the config, or nothing. One that was begun counts already, and
// those count that are to be made together with it.
func (r *run) tooOften(c *transcript.Call, together ...durable.Step) (rule, why string) {
	if len(r.Rates) == 0 || c.Intent != nil {
		return "", ""
	}
	var past []policy.Call
	for _, m := range r.log.Transcript().Made() {
		past = append(past, policy.Call{Tool: m.Tool, At: m.At})
	}
	for _, s := range together {
		past = append(past, policy.Call{Tool: s.Intent.Name, At: r.log.Now()})
	}
	rate, wait, over := policy.Exceeded(r.Rates, c.Use.Name, past, r.log.Now())
	if !over {
		return "", ""
	}
	return fmt.Sprintf("rate: %d calls of %s in %s", rate.Limit, rate.Match, rate.Per),
		fmt.Sprintf("%s was called too often. Wait %s, or do something else meanwhile.", c.Use.Name, wait.Round(time.Second))
}

// mode is what the task may do without asking.
func (r *run) mode(t td.Task) td.PermissionMode {
	for _, m := range []td.PermissionMode{t.PermissionsOverride, t.Permissions, r.Permissions} {
		if m != "" {
			return m
		}
	}
	return td.AcceptEditsMode
}

// checked lets SecurityPolicyCheck hooks look at a decision. They may forbid or have a person asked, and
// permit what would be asked about; what a rule denies stays denied.
func (r *run) checked(ctx context.Context, c *transcript.Call, d policy.Decision) (policy.Decision, error) {
	if !r.Hooks.Has(hook.SecurityPolicyCheck) {
		return d, nil
	}
	_, said, err := fire(ctx, r, c.Key, hook.SecurityPolicyCheckPayload{
		Head: r.head(), ToolCall: toolCall(c), Verdict: string(d.Verdict), Rule: d.Rule,
	})
	switch {
	case err != nil:
		return d, err
	case said.Blocked:
		d.Verdict, d.Rule, d.Why, d.Fixed = policy.Deny, "hook "+said.Hook, said.Reason, true
		return d, nil
	case d.Verdict == policy.Deny:
	case said.Permission == hook.Allow:
		d.Verdict, d.Rule = policy.Allow, "hook "+said.Hook
	case said.Permission == hook.Ask:
		d.Verdict, d.Rule, d.Why = policy.Ask, "hook "+said.Hook, policy.Quoted("Your hook "+said.Hook, said.Reason)
	}
	return d, nil
}

// violated records a call that a rule forbids: the model reads why.
func (r *run) violated(ctx context.Context, c *transcript.Call, d policy.Decision) error {
	if r.Hooks.Has(hook.SecurityViolation) {
		if _, _, err := fire(ctx, r, c.Key, hook.SecurityViolationPayload{
			Head: r.head(), ToolCall: toolCall(c), Rule: d.Rule, Cause: d.Why,
		}); err != nil {
			return err
		}
	}
	return r.deny(ctx, c, d.Rule, fmt.Sprintf("This is forbidden (%s). %s Nothing was run; do not try to get around it.", d.Rule, d.Why))
}

// reaches notes in a call's record where it goes: hosts, and folders outside the workspace. Hosts come first, so that however many
// folders a command names, a host among them shows. What a command can reach that no word of it tells is noted as Online.
func (r *run) reaches(in *td.Intent, call tool.Call, d policy.Decision) {
	var places []string
	add := func(place string) {
		if !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	for _, h := range d.Hosts {
		add(td.ReachHost + strings.ToLower(h))
	}
	for _, path := range slices.Concat(d.Writes, d.Reads) {
		if strings.HasPrefix(path, "/tmp/") && r.confined() {
			continue // in the sandbox that is the task's own
		}
		if rel, err := filepath.Rel(r.root.Dir(), path); filepath.IsAbs(path) && (err != nil || !filepath.IsLocal(rel)) {
			add(filepath.Dir(path))
		}
	}
	in.Reach = places[:min(len(places), maxReach)]
	in.Unlisted = len(places) - len(in.Reach)
	in.Online = call.Command != "" && !(d.Looks && !d.Reaches && len(d.Hosts) == 0) && online(r.heldTo(d.Confined), r.Enforced)
}

// maxReach bounds what is recorded of one call.
const maxReach = 20

// online reports whether a command with a profile may have a network. Enforced says whether this machine can take it away.
func online(p *sandbox.Profile, enforced func() bool) bool {
	return p == nil || p.Network != sandbox.NetworkOff || !p.Required && (enforced == nil || !enforced())
}

// offers are the rules that an answer may keep, as the request carries them.
func offers(d policy.Decision) []td.Offer {
	var out []td.Offer
	for _, o := range d.Offers {
		out = append(out, td.Offer{Rules: append([]string{o.Rule}, o.With...), Words: o.Words})
	}
	return out
}

// keepRules makes rules of an always or never. They are recorded, then written to the person's file, and only
// then is the call decided: a crash in between finds the answer again and keeps them once.
func (r *run) keepRules(ctx context.Context, a *transcript.Asked, verdict policy.Verdict) error {
	if len(a.Answer.Rules) == 0 {
		return nil
	}
	task := r.log.Task()
	rules := make([]td.KeptRule, len(a.Answer.Rules))
	for i, match := range a.Answer.Rules {
		if verdict == policy.Deny {
			match = policy.Unbound(match)
		}
		rules[i] = td.KeptRule{Verdict: string(verdict), Match: match, By: a.Answer.By, At: a.AnsweredAt, Untrusted: verdict == policy.Allow && r.tainted()}
		if a.Answer.Scope == td.ProjectScope {
			rules[i].In = cmp.Or(task.Source, task.Home()) // a checkout is thrown away
		}
	}
	if !a.Kept {
		if err := r.log.Append(ctx, td.RulesKept{Rules: rules, Scope: a.Answer.Scope, Request: a.Request.ID}); err != nil {
			return err
		}
		fpRulesRecorded.Hit()
	}
	if a.Answer.Scope == td.TaskScope {
		return nil
	}
	if err := r.Guard.Keep(ctx, rules); err != nil {
		// The answer to this call counts in any case; the person must know that it holds for this call alone.
		r.Log.Warn("keep rules", "task", task.Handle, "err", err)
		return r.log.Append(ctx, td.Ignored{Command: td.CmdAnswer, Why: fmt.Sprintf("the rule could not be kept: %v", err)})
	}
	fpRulesKept.Hit()
	return nil
}
