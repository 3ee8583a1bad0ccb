package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"taskdaemon/internal/skill"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// More is what a task has beside the tools of every task.
type More struct {
	Tools  []tool.Tool
	Skills []skill.Skill
	// Record is what the same tools are made of again after a restart, whatever became of servers and
	// files meanwhile, together with what the model was told of them. Both stand in the journal.
	Record json.RawMessage
	// LeftOut says what the task goes without, and why, for people.
	LeftOut []string
}

// maxSkillText bounds what the matched skills may take of the opening message; one that does not fit is left
// to the Skill tool.
const maxSkillText = 32 << 10

// toolbox are the tools of this run.
func (r *run) toolbox() *tool.Registry {
	if r.box == nil {
		r.equip(r.ctx)
	}
	return r.box
}

func (r *run) equip(ctx context.Context) {
	t := r.log.Task()
	set := r.log.Transcript().Context
	r.more = More{}
	switch {
	case r.More == nil:
	case set == nil:
		r.more = r.More(ctx, t, nil)
	case set.More != nil:
		r.more = r.More(ctx, t, set)
	}
	r.box = r.Tools.With(r.more.Tools...).Only(t.Tools)
}

// equipAnew asks for the tools as they are now. Servers may have to be started for that, and a person's command
// does not wait for them.
func (r *run) equipAnew(ctx context.Context) error {
	step, done := r.ctl.Step(ctx)
	defer done()
	r.equip(step)
	if err := context.Cause(step); err != nil {
		r.box = nil // who was cut off may have told half
		return err
	}
	return nil
}

// addSkills lists the skills, and adds the text of those that the task calls for. The list stands in what can be
// cached, the texts behind it.
func (r *run) addSkills(t td.Task, system, opening *prose) {
	if _, usable := r.toolbox().Get("Skill"); !usable || len(r.more.Skills) == 0 {
		return
	}
	system.add("skills", "", "\n\n# Skills\n\nHow some kinds of work are done here. Before you do such work, load its skill with the Skill tool, "+
		"unless its text is given already.\n\n"+skill.Index(r.more.Skills))
	left := maxSkillText
	for _, s := range skill.Match(r.more.Skills, t.Prompt) {
		body, err := skill.Body(s)
		if err != nil {
			r.Log.Warn("read skill", "skill", s.Name, "err", err)
			continue
		}
		if len(body) > left {
			continue
		}
		left -= len(body)
		opening.add("skill", s.Dir, fmt.Sprintf("<skill name=%q>\n%s</skill>\n\n", s.Name, body))
	}
}
