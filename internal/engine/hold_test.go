package engine

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"taskdaemon/internal/hook"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// An answer lifts only what was asked about: what a rule or a hook has asked about runs with what held it without them, and the question says so. What the policy itself asks about runs
// as the config says, and the question says that.
func TestAYesKeepsTheHold(t *testing.T) {
	ask := policy.Rule{Verdict: policy.Ask, Match: "Bash(make *)", Why: "it changes nothing", From: policy.FromProject}
	asks := hook.Result{Permission: hook.Ask, Reason: "look at it"}
	const held, free = "After a yes, it runs in a sandbox that holds it to the workspace, without a network.", "After a yes, it runs in a sandbox that holds it to the workspace, with your network."
	for name, c := range map[string]struct {
		command string
		rules   []policy.Rule
		hook    hook.Result
		at      hook.Point
		yes     bool
		tainted bool
		mode    td.PermissionMode
		later   []policy.Rule // between question and answer
		said    []string      // in this order, at the end
		network sandbox.Network
	}{
		"a rule":                  {command: "make test", rules: []policy.Rule{ask}, said: []string{`The project's .taskdaemon.yaml says: "it changes nothing".`, held}, network: sandbox.NetworkOff},
		"a rule of the person's":  {command: "make test", rules: []policy.Rule{{Verdict: policy.Ask, Match: "Bash", From: policy.FromUser}}, said: []string{"Your rule says so.", held}, network: sandbox.NetworkOff},
		"a rule, --yes":           {command: "make test", rules: []policy.Rule{ask}, yes: true, network: sandbox.NetworkOff},
		"a hook":                  {command: "make test", hook: asks, at: hook.PreToolUse, said: []string{`Your hook asks says: "look at it".`, held}, network: sandbox.NetworkOff},
		"a hook that checks":      {command: "make test", hook: asks, at: hook.SecurityPolicyCheck, said: []string{`Your hook asks says: "look at it".`, held}, network: sandbox.NetworkOff},
		"a rule, a hook allows":   {command: "make test", rules: []policy.Rule{ask}, hook: hook.Result{Permission: hook.Allow}, at: hook.SecurityPolicyCheck, network: sandbox.NetworkOff},
		"it may be denied":        {command: "grep -r x .", rules: []policy.Rule{{Verdict: policy.Deny, Match: "Read(secret/**)"}}, said: []string{"A rule says so.", "After a yes, it runs in a sandbox with nothing to write, without a network."}, network: sandbox.NetworkOff},
		"untrusted text":          {command: "make test", tainted: true, said: []string{held}, network: sandbox.NetworkOff},
		"a rule, and one allows":  {command: "make test", rules: []policy.Rule{ask, {Verdict: policy.Allow, Match: "Bash(make *)"}}, said: []string{free}, network: sandbox.NetworkFull},
		"the mode":                {command: "npm install x", said: []string{free}, network: sandbox.NetworkFull},
		"mode ask":                {command: "make test", mode: td.AskMode, said: []string{free}, network: sandbox.NetworkFull},
		"unforeseen":              {command: "make test; \"$x\"", said: []string{free}, network: sandbox.NetworkFull},
		"the rules change":        {command: "make test", rules: []policy.Rule{ask}, later: []policy.Rule{ask, {Verdict: policy.Allow, Match: "Bash"}}, said: []string{held}, network: sandbox.NetworkOff},
		"the mode asks, --yes":    {command: "npm install x", yes: true, network: sandbox.NetworkFull},
		"held without a question": {command: "make test", yes: true, network: sandbox.NetworkOff},
	} {
		t.Run(name, func(t *testing.T) {
			var got atomic.Pointer[sandbox.Profile]
			bash := tool.Tool{Name: "Bash", Prepare: func(_ context.Context, env *tool.Env, _ json.RawMessage) (tool.Call, error) {
				return tool.Call{Effect: td.Opaque, Command: c.command, Title: c.command, Run: func(context.Context) (td.ToolResult, error) {
					p, err := env.Profile()
					got.Store(p)
					return td.ToolResult{Content: "it ran"}, err
				}}, nil
			}}
			g := &guard{rules: c.rules}
			play(t, []any{calls("Bash", "{}")}, func(s *td.Spec, o *Options) {
				s.Permissions, s.Yes, s.Tainted, o.Taint = td.AcceptEditsMode, c.yes, c.tainted, true
				if c.mode != "" {
					s.Permissions = c.mode
				}
				o.Guard, o.More, o.Enforced = g, with(bash), func() bool { return true }
				o.Sandbox = func(dir, _ string) *sandbox.Profile {
					return &sandbox.Profile{Files: sandbox.WorkspaceWrite, Network: sandbox.NetworkFull, Workspace: dir}
				}
				if c.at != "" {
					set, err := hook.New([]hook.Spec{{Point: c.at, Name: "asks", Matcher: "Bash", Func: "f"}}, map[string]hook.Func{"f": says1(c.hook)})
					if err != nil {
						t.Fatal(err)
					}
					o.Hooks = set
				}
			}, func(b *bench, id td.TaskID) {
				if len(c.said) > 0 {
					req := b.until(id, td.Waiting).Requests[0]
					rest := req.Detail
					for _, words := range c.said {
						_, after, found := strings.Cut(rest, words)
						if !found {
							t.Errorf("the question says %q, not %q", req.Detail, words)
						}
						rest = after
					}
					if rest = strings.TrimSpace(rest); rest != "" && rest != "After always, it runs in a sandbox that holds it to the workspace, with your network." {
						t.Errorf("at the end it says %q", rest)
					}
					if c.later != nil {
						g.rules = c.later
					}
					b.post(id, allowed(req, td.Yes, ""))
				}
				b.until(id, td.Completed)
				if p := got.Load(); p == nil || p.Network != c.network || p.Required != (c.network == sandbox.NetworkOff) {
					t.Errorf("it ran with %+v", p)
				}
			})
		})
	}
}

// Whether a task works in a worktree of its own is told by its record, and not by what a folder is called.
func TestApartByRecord(t *testing.T) {
	for name, c := range map[string]struct {
		record func(s *td.Spec)
		state  td.State
	}{
		"a folder of that name": {func(*td.Spec) {}, td.Waiting},
		"a worktree of its own": {func(s *td.Spec) { s.Shares = s.Dir }, td.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, []any{calls("Bash", "{}")}, func(s *td.Spec, o *Options) {
				s.Dir = filepath.Join(s.Dir, td.WorktreeFolder, "t-1234-login")
				if err := os.MkdirAll(s.Dir, 0o755); err != nil {
					t.Fatal(err)
				}
				c.record(s)
				s.Permissions = td.AcceptEditsMode
				o.Guard, o.More, o.Enforced = &guard{}, with(command("rm -f notes.txt")), func() bool { return true }
				o.Sandbox = func(dir, tree string) *sandbox.Profile {
					if tree != s.Shares {
						t.Errorf("the sandbox is told of %q", tree)
					}
					return &sandbox.Profile{Files: sandbox.WorkspaceWrite, Network: sandbox.NetworkFull, Workspace: dir}
				}
			}, func(b *bench, id td.TaskID) { b.until(id, c.state) })
		})
	}
}
