package daemon

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"taskdaemon/internal/engine"
	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/skill"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/tool/builtin"
	"taskdaemon/internal/tool/mcp"
)

// record is what the tools of a task are made of again after a restart. It is on disk: never rename a field.
type record struct {
	Offers   []mcp.Offer `json:"offers,omitempty"`
	Skills   bool        `json:"skills,omitempty"`   // it had some
	Commands []string    `json:"commands,omitempty"` // the tools that they brought
}

// more is what a task has beside the built-in tools: those of MCP servers, and its skills with theirs. Without a
// record the servers are asked, for as long as each may take to start; with one, nobody is.
func (d *Daemon) more(ctx context.Context, t td.Task, recorded json.RawMessage) engine.More {
	skills, problems := skill.Load(skill.Sources(d.o.UserDir, knowledge.Top(t.Dir))...)
	var r record
	var leftOut []string
	if recorded == nil {
		for _, p := range problems {
			d.o.Log.Warn("a skill cannot be used as it is", "problem", p.Error(), "task", t.Handle)
		}
		r, leftOut = d.offered(ctx, t, skills)
	} else if err := json.Unmarshal(recorded, &r); err != nil {
		d.o.Log.Error("read what the tools were made of", "task", t.Handle, "err", err)
	}
	out := engine.More{Tools: d.pool.Bind(r.Offers), LeftOut: leftOut}
	if r.Skills {
		out.Skills = skills
		out.Tools = append(out.Tools, builtin.SkillTools(skills)...)
	}
	for _, name := range r.Commands {
		if !slices.ContainsFunc(out.Tools, func(t tool.Tool) bool { return t.Name == name }) {
			out.Tools = append(out.Tools, builtin.GoneCommand(name))
		}
	}
	if len(out.Tools) > 0 {
		raw, err := json.Marshal(r)
		if err != nil { // it came from JSON
			d.o.Log.Error("record the tools", "task", t.Handle, "err", err)
		}
		out.Record = raw
	}
	return out
}

// offered is what there is for a task now, and which servers it goes without.
func (d *Daemon) offered(ctx context.Context, t td.Task, skills []skill.Skill) (_ record, leftOut []string) {
	offers, err := d.pool.Offers(ctx, wantedServers(t.Tools))
	if err != nil {
		d.o.Log.Warn("MCP servers are left out", "task", t.Handle, "err", err)
		leftOut = strings.Split(err.Error(), "\n")
	}
	r := record{Offers: offers, Skills: len(skills) > 0}
	for _, s := range skills {
		for _, t := range s.Tools {
			r.Commands = append(r.Commands, t.Name)
		}
	}
	return r, leftOut
}

// wantedServers are the MCP servers whose tools a task with this list of tools may use; nil is all of them.
func wantedServers(tools []string) []string {
	if len(tools) == 0 {
		return nil
	}
	names := []string{}
	for _, name := range tools {
		if rest, ok := strings.CutPrefix(name, "mcp__"); ok {
			server, _, _ := strings.Cut(rest, "__")
			names = append(names, server)
		}
	}
	return names
}
