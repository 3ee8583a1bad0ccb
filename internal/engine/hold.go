package engine

import (
	"fmt"
	"strings"

	"taskdaemon/internal/hook"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/transcript"
)

// detail is what a person is told of a call that they are asked about: the call, who has it asked about and why, and what the command can do after a yes. That is said last, where no text of the
// agent's or the project's follows.
func (r *run) detail(c *transcript.Call, call tool.Call, d policy.Decision) string {
	why := d.Why
	if said := r.pre[c.Key]; d.Verdict == policy.Allow && said.Permission == hook.Ask {
		why = policy.Quoted("Your hook "+said.Hook, said.Reason)
	}
	lines := []string{call.Title, why}
	if call.Command != "" {
		lines = append(lines, afterYes(r.heldTo(d.Confined)))
		if always := r.sandbox(); len(d.Offers) > 0 && d.Confined != policy.Unconfined && always.Network != sandbox.NetworkOff {
			lines = append(lines, "After always, it runs "+runsWith(always)+".")
		}
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// afterYes says what a command can do that a person allows.
func afterYes(p *sandbox.Profile) string { return "After a yes, it runs " + runsWith(p) + "." }

// runsWith says what a command with a profile can do.
func runsWith(p *sandbox.Profile) string {
	if p == nil {
		return "without a sandbox: it can do whatever you can"
	}
	files := map[sandbox.Files]string{
		sandbox.ReadOnly:       "in a sandbox with nothing to write",
		sandbox.WorkspaceWrite: "in a sandbox that holds it to the workspace",
		sandbox.Full:           "with all of your files",
	}[p.Files]
	network := map[sandbox.Network]string{
		sandbox.NetworkOff:   "without a network",
		sandbox.NetworkProxy: "with a network to the hosts of sandbox.hosts",
		sandbox.NetworkFull:  "with your network",
	}[p.Network]
	return fmt.Sprintf("%s, %s", files, network)
}

// promised is what a person who allowed the call was told that it is held to. It holds whatever rules, hooks and modes have become since, and after a restart.
func promised(c *transcript.Call) policy.Confinement {
	if a := c.Asked; a != nil && a.Answer != nil && (a.Answer.Choice == td.Yes || a.Answer.Choice == td.Always) {
		return policy.Confinement(a.Request.Confined)
	}
	return policy.Unconfined
}
