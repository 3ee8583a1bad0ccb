package engine

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"testing"

	"taskdaemon/internal/policy"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// What is allowed because a sandbox holds it runs in exactly that sandbox, and plan mode in one with nothing to write.
func TestConfinedCallsAreHeld(t *testing.T) {
	wide := func(dir, _ string) *sandbox.Profile {
		return &sandbox.Profile{Files: sandbox.WorkspaceWrite, Network: sandbox.NetworkFull, Workspace: dir, Write: []string{"/caches"}}
	}
	for name, c := range map[string]struct {
		command string
		mode    td.PermissionMode
		rules   []policy.Rule
		files   sandbox.Files
		network sandbox.Network
		held    bool
	}{
		"a test":                      {"make test", td.AcceptEditsMode, nil, sandbox.WorkspaceWrite, sandbox.NetworkOff, true},
		"looking":                     {"ls -l", td.AcceptEditsMode, nil, sandbox.ReadOnly, sandbox.NetworkOff, true},
		"a service":                   {"kubectl get pods", td.AcceptEditsMode, nil, sandbox.ReadOnly, sandbox.NetworkFull, true},
		"a rule":                      {"mytool x", td.AcceptEditsMode, []policy.Rule{{Verdict: policy.Allow, Match: "Bash(mytool *)"}}, sandbox.WorkspaceWrite, sandbox.NetworkFull, false},
		"plan, looking":               {"ls -l", td.PlanMode, nil, sandbox.ReadOnly, sandbox.NetworkOff, true},
		"plan, a rule":                {"mytool x", td.PlanMode, []policy.Rule{{Verdict: policy.Allow, Match: "Bash(mytool *)"}}, sandbox.ReadOnly, sandbox.NetworkOff, true},
		"a rule, and what is unknown": {"mytool x; cat \"$y\"", td.AcceptEditsMode, []policy.Rule{{Verdict: policy.Allow, Match: "Bash(mytool *)"}}, sandbox.WorkspaceWrite, sandbox.NetworkOff, true},
	} {
		t.Run(name, func(t *testing.T) {
			var got atomic.Pointer[sandbox.Profile]
			bash := tool.Tool{Name: "Bash", Prepare: func(_ context.Context, env *tool.Env, _ json.RawMessage) (tool.Call, error) {
				if _, err := env.Profile(); err == nil {
					t.Error("there is a profile before the call was judged")
				}
				return tool.Call{Effect: td.Opaque, Command: c.command, Title: c.command, Run: func(context.Context) (td.ToolResult, error) {
					p, err := env.Profile()
					got.Store(p)
					return td.ToolResult{Content: "it ran"}, err
				}}, nil
			}}
			play(t, []any{calls("Bash", "{}")}, func(s *td.Spec, o *Options) {
				s.Permissions = c.mode
				o.Guard, o.More, o.Sandbox, o.Enforced = &guard{rules: c.rules}, with(bash), wide, func() bool { return true }
			}, func(b *bench, id td.TaskID) {
				b.until(id, td.Completed)
				p := got.Load()
				if p == nil || p.Files != c.files || p.Network != c.network || p.Required != c.held || p.Files == sandbox.ReadOnly && len(p.Write) > 0 || p.Outside != (name == "a service") {
					t.Errorf("it ran with %+v", p)
				}
			})
		})
	}
}

// What asks a service keeps its network and gives up what else it could do with it: to write, and to run what others wrote.
func TestHeldTo(t *testing.T) {
	for _, c := range []struct {
		held     policy.Confinement
		from     sandbox.Files
		files    sandbox.Files
		network  sandbox.Network
		writes   int
		required bool
	}{
		{policy.Unconfined, sandbox.WorkspaceWrite, sandbox.WorkspaceWrite, sandbox.NetworkProxy, 1, false},
		{policy.HeldToLooking, sandbox.WorkspaceWrite, sandbox.ReadOnly, sandbox.NetworkOff, 0, true},
		{policy.HeldToWorkspace, sandbox.Full, sandbox.WorkspaceWrite, sandbox.NetworkOff, 1, true},
		{policy.HeldToService, sandbox.WorkspaceWrite, sandbox.ReadOnly, sandbox.NetworkProxy, 0, true},
		{policy.HeldToService, sandbox.Full, sandbox.ReadOnly, sandbox.NetworkProxy, 0, true},
	} {
		p := HeldTo(&sandbox.Profile{Files: c.from, Network: sandbox.NetworkProxy, Workspace: "/w", Write: []string{"/out"}}, c.held)
		if p.Files != c.files || p.Network != c.network || len(p.Write) != c.writes || p.Required != c.required {
			t.Errorf("%q: %+v", c.held, p)
		}
		if service := c.held == policy.HeldToService; p.Outside != service || slices.Contains(p.Others, "/out") != service {
			t.Errorf("%q: %+v", c.held, p)
		}
	}
	if HeldTo(nil, policy.HeldToService) != nil {
		t.Error("where there is no sandbox, there is none")
	}
}

// A mode holds commands that no rule judges as well: those that make a worktree ready, validators, servers.
func TestProfileUnderMode(t *testing.T) {
	for _, c := range []struct {
		mode     td.PermissionMode
		files    sandbox.Files
		network  sandbox.Network
		writes   int
		required bool
	}{
		{td.PlanMode, sandbox.ReadOnly, sandbox.NetworkOff, 0, true},
		{td.AskMode, sandbox.WorkspaceWrite, sandbox.NetworkFull, 1, false},
		{td.AcceptEditsMode, sandbox.WorkspaceWrite, sandbox.NetworkFull, 1, false},
		{td.AutoMode, sandbox.WorkspaceWrite, sandbox.NetworkOff, 1, true},
	} {
		p := UnderMode(&sandbox.Profile{Files: sandbox.WorkspaceWrite, Network: sandbox.NetworkFull, Workspace: "/w", Write: []string{"/out"}}, c.mode)
		if p.Files != c.files || p.Network != c.network || len(p.Write) != c.writes || p.Required != c.required {
			t.Errorf("%s: %+v", c.mode, p)
		}
	}
	if UnderMode(nil, td.PlanMode) != nil {
		t.Error("where there is no sandbox, there is none")
	}
}
