package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/policy"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// A command that had a network taints its task, whether its words tell of a host or not, and however much else they name. One that has
// none does not, nor does one that is known to look at files alone.
func TestCommandsWithANetworkTaint(t *testing.T) {
	var many strings.Builder
	for i := range 2 * maxReach {
		fmt.Fprintf(&many, " /srv/a%d/x", i)
	}
	rule := func(of string) []policy.Rule {
		return []policy.Rule{{Verdict: policy.Allow, Match: "Bash(" + of + " *)"}, {Verdict: policy.Allow, Match: "Read(/srv/**)"}}
	}
	network := func(n sandbox.Network) func(string, string) *sandbox.Profile {
		return func(dir, _ string) *sandbox.Profile {
			return &sandbox.Profile{Files: sandbox.WorkspaceWrite, Network: n, Workspace: dir}
		}
	}
	full, none := network(sandbox.NetworkFull), network(sandbox.NetworkOff)
	for name, c := range map[string]struct {
		command   string
		rules     []policy.Rule
		sandbox   func(string, string) *sandbox.Profile
		powerless bool // the machine cannot enforce it
		tainted   bool
	}{
		"a host":                               {"curl http://example.org/", rule("curl"), full, false, true},
		"a host behind many folders":           {"cat" + many.String() + "; curl http://example.org/", rule("curl"), full, false, true},
		"a host that no word tells":            {"setarch x86_64 curl example", rule("setarch"), full, false, true},
		"a script":                             {"./get.sh x", rule("./get.sh"), full, false, true},
		"a script, by the proxy":               {"./get.sh x", rule("./get.sh"), network(sandbox.NetworkProxy), false, true},
		"a script, no sandbox":                 {"./get.sh x", rule("./get.sh"), nil, false, true},
		"a script, no network":                 {"./get.sh x", rule("./get.sh"), none, false, false},
		"a script, a network nobody takes off": {"./get.sh x", rule("./get.sh"), none, true, true},
		"a service":                            {"kubectl get pods", nil, full, false, true},
		"a service, by a rule":                 {"kubectl get pods", rule("kubectl"), full, false, true},
		"a build":                              {"make test", nil, full, false, false},
		"looking":                              {"ls -l", nil, full, false, false},
		"looking, by a rule":                   {"ls -l", rule("ls"), full, false, false},
		"looking, no sandbox":                  {"ls -l", nil, nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			bash := tool.Tool{Name: "Bash", Prepare: func(context.Context, *tool.Env, json.RawMessage) (tool.Call, error) {
				return tool.Call{Effect: td.Opaque, Command: c.command, Title: c.command, Run: func(context.Context) (td.ToolResult, error) {
					return td.ToolResult{Content: "it ran"}, nil
				}}, nil
			}}
			play(t, []any{calls("Bash", "{}")}, func(_ *td.Spec, o *Options) {
				o.Guard, o.More, o.Sandbox, o.Enforced = &guard{rules: c.rules}, with(bash), c.sandbox, func() bool { return !c.powerless }
			}, func(b *bench, id td.TaskID) {
				if b.until(id, td.Completed); b.task(id).Untrusted != c.tainted {
					t.Errorf("tainted: %v", !c.tainted)
				}
			})
		})
	}
}

// What a record has no room for is counted, and is never a host before it is a folder.
func TestReachIsCounted(t *testing.T) {
	var reads, hosts []string
	for i := range 30 {
		reads = append(reads, fmt.Sprintf("/srv/a%d/x", i))
	}
	for i := range 5 {
		hosts = append(hosts, fmt.Sprintf("H%d.example.org", i))
	}
	bash := tool.Tool{Name: "Bash", Prepare: func(context.Context, *tool.Env, json.RawMessage) (tool.Call, error) {
		command := "cat " + strings.Join(reads, " ") + "; curl"
		for _, h := range hosts {
			command += " http://" + h + "/"
		}
		return tool.Call{Effect: td.Opaque, Command: command, Run: func(context.Context) (td.ToolResult, error) { return td.ToolResult{Content: "it ran"}, nil }}, nil
	}}
	play(t, []any{calls("Bash", "{}")}, func(_ *td.Spec, o *Options) {
		o.Guard, o.More = &guard{rules: []policy.Rule{{Verdict: policy.Allow, Match: "Bash(curl *)"}, {Verdict: policy.Allow, Match: "Read(/srv/**)"}}}, with(bash)
	}, func(b *bench, id td.TaskID) {
		b.until(id, td.Completed)
		found := 0
		for _, in := range intents(b, id) {
			if in.Name != "Bash" {
				continue
			}
			found++
			if len(in.Reach) != maxReach || in.Unlisted < len(reads)+len(hosts)-maxReach { // words that may be paths count as well
				t.Errorf("%d are listed, %d are not", len(in.Reach), in.Unlisted)
			}
			for _, h := range hosts {
				if !slices.Contains(in.Reach, td.ReachHost+strings.ToLower(h)) {
					t.Errorf("%s is not listed: %q", h, in.Reach)
				}
			}
		}
		if found != 1 {
			t.Errorf("%d calls are on record", found)
		}
	})
}
