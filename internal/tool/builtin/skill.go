package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/policy"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/skill"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

type skillInput struct {
	Name string `json:"name" jsonschema:"the skill's name, as it is listed" min:"1"`
	File string `json:"file,omitempty" jsonschema:"another file of the skill, as its text names it; without it the text itself"`
}

// SkillTools are the tools of a task that has skills: Skill, which loads the text of one, and the tools that
// the skills bring, in the order of the skills.
func SkillTools(skills []skill.Skill) []tool.Tool {
	tools := []tool.Tool{skillTool(skills)}
	for _, s := range skills {
		for _, t := range s.Tools {
			tools = append(tools, skillCommand(s.Level, t))
		}
	}
	return tools
}

func skillTool(skills []skill.Skill) tool.Tool {
	return tool.Define(tool.Tool{
		Name: "Skill",
		Description: "Loads a skill: how some kind of work is done here. The skills are listed with what each is for. " +
			"Load the one that fits before you begin such work.",
	}, func(_ context.Context, _ *tool.Env, in skillInput) (tool.Call, error) {
		i := slices.IndexFunc(skills, func(s skill.Skill) bool { return s.Name == in.Name })
		if i < 0 {
			var names []string
			for _, s := range skills {
				names = append(names, s.Name)
			}
			return tool.Call{}, td.Errorf(td.NotFound, "there is no skill %q; the skills are: %s", in.Name, strings.Join(names, ", "))
		}
		return tool.Call{
			Effect: td.Pure, Title: title("Load the skill", in.Name+" "+in.File),
			Run: func(context.Context) (td.ToolResult, error) {
				load := func() (string, error) { return skill.Body(skills[i]) }
				if in.File != "" {
					load = func() (string, error) { return skill.File(skills[i], in.File) }
				}
				text, err := load()
				return td.ToolResult{Content: tool.Clean([]byte(text))}, err
			},
		}, nil
	}, nil)
}

// SkillOrigin is whose the tools of a skill are.
func SkillOrigin(l skill.Level) policy.Origin {
	if l == skill.User {
		return policy.UserSkill
	}
	return policy.ProjectSkill
}

// skillCommand is a tool that a skill brings: its command runs under the shim, as those of Bash do.
func skillCommand(l skill.Level, t skill.Tool) tool.Tool {
	return tool.Tool{
		Name: t.Name, Origin: SkillOrigin(l), Description: t.Description, Schema: t.Schema, Timeout: t.Timeout,
		Prepare: func(_ context.Context, env *tool.Env, input json.RawMessage) (tool.Call, error) {
			return prepareSkillCommand(t, env, input)
		},
		Resolve: func(ctx context.Context, env *tool.Env, input json.RawMessage, intent td.Intent) (tool.Resolution, error) {
			return resolveCommand(ctx, env, t.Name+" "+string(input), env.Timeout, intent)
		},
	}
}

func prepareSkillCommand(t skill.Tool, env *tool.Env, input json.RawMessage) (tool.Call, error) {
	inv, err := t.Invoke(input)
	if err != nil {
		return tool.Call{}, err
	}
	boot, err := sandbox.BootID()
	if err != nil {
		return tool.Call{}, err
	}
	evidence, err := json.Marshal(bashEvidence{Since: env.Now(), Boot: boot})
	if err != nil {
		return tool.Call{}, fmt.Errorf("encode evidence: %w", err)
	}
	cmd := sandbox.Command{
		Shell: inv.Shell, Env: inv.Env, Dir: env.Root.Dir(), Timeout: env.Timeout,
		Task: env.Task, Run: env.Run, Step: env.Step,
	}
	if cmd.Timeout <= 0 {
		cmd.Timeout = defaultTimeout
	}
	return tool.Call{
		Effect: td.Opaque, Evidence: evidence, Title: title("Run "+t.Name+":", inv.Shell), Command: inv.Shell, Bound: t.Identity(), Kept: true, Timeout: cmd.Timeout,
		Run: func(ctx context.Context) (td.ToolResult, error) {
			p, err := startCommand(ctx, env, tool.SpoolName(env.Task, env.Step), cmd)
			if err != nil {
				return td.ToolResult{}, err
			}
			return await(ctx, env, cmd.Timeout, p)
		},
	}, nil
}

// GoneCommand stands for a tool that a skill brought when the task began, and that is not there any more: it
// cannot be called, but one that was in flight is still found.
func GoneCommand(name string) tool.Tool {
	return tool.Tool{
		Name: name, Origin: policy.ProjectSkill,
		Prepare: func(context.Context, *tool.Env, json.RawMessage) (tool.Call, error) {
			return tool.Call{}, td.Errorf(td.Unavailable, "the skill that brought %s is not there any more, or was changed so that it cannot be used", name)
		},
		Resolve: func(ctx context.Context, env *tool.Env, input json.RawMessage, intent td.Intent) (tool.Resolution, error) {
			return resolveCommand(ctx, env, name+" "+string(input), goneLimit, intent)
		},
	}
}

// goneLimit is only shown: the shim keeps to the limit that the command was started with.
const goneLimit = time.Hour
