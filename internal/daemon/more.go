package daemon

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"taskdaemon/internal/engine"
	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/policy"
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

// brief is the record without what the model is told of the tools: a schema may have many pages, and stands in the
// same event.
func (r record) brief() record {
	r.Offers = slices.Clone(r.Offers)
	for i := range r.Offers {
		r.Offers[i].Description, r.Offers[i].Schema = "", nil
	}
	return r
}

// read makes the record whole again by what the model was told.
func (r *record) read(set td.ContextSet) error {
	if err := json.Unmarshal(set.More, r); err != nil {
		return err
	}
	var told []llm.Tool
	if err := json.Unmarshal(set.Tools, &told); err != nil {
		return err
	}
	for i, o := range r.Offers {
		at := slices.IndexFunc(told, func(t llm.Tool) bool { return t.Name == o.Name })
		if at >= 0 {
			r.Offers[i].Description, r.Offers[i].Schema = told[at].Description, told[at].Schema
		}
	}
	return nil
}

// more is what a task has beside the built-in tools: those of MCP servers, and its skills with theirs. Without a
// context the servers are asked, for as long as each may take to start; with one, nobody is.
func (d *Daemon) more(ctx context.Context, t td.Task, set *td.ContextSet) engine.More {
	skills, problems := skill.Load(skill.Sources(d.o.UserDir, knowledge.Top(t.Home()))...)
	var r record
	var leftOut []string
	if set == nil {
		for _, p := range problems {
			d.o.Log.Warn("a skill cannot be used as it is", "problem", p.Error(), "task", t.Handle)
		}
		r, leftOut = d.offered(ctx, t, skills)
	} else if err := r.read(*set); err != nil {
		d.o.Log.Error("read what the tools were made of", "task", t.Handle, "err", err)
	}
	// What plans comes first: nothing else may be called by its name.
	out := engine.More{Tools: append(d.planTools(t), d.pool.Bind(r.Offers)...), LeftOut: leftOut}
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
		raw, err := json.Marshal(r.brief())
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
		if rest, ok := strings.CutPrefix(name, policy.ServerPrefix); ok {
			server, _, _ := strings.Cut(rest, "__")
			names = append(names, server)
		}
	}
	return names
}
