package cli

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/skill"
	"taskdaemon/internal/td"
)

func newSkillsCmd(a *app) *cobra.Command {
	return group("skills", "Show the skills that tasks in this folder have", "taskdaemon skills list", newSkillsListCmd(a))
}

type skillsListOptions struct {
	app *app
	dir string
}

func newSkillsListCmd(a *app) *cobra.Command {
	o := skillsListOptions{app: a}
	cmd := &cobra.Command{
		Use: "list", Short: "List skills, and what is wrong with those that cannot be used", Args: args(cobra.NoArgs, "no arguments"),
		Long: `List the skills that a task in this folder has: those in the folder skills beside the config file, and those in
.taskdaemon/skills and .claude/skills of the project, which win. What is wrong with a skill is said with file and line.`,
		Example: "  taskdaemon skills list", Annotations: exits(exitOK, exitUsage),
		RunE: func(*cobra.Command, []string) error { return runSkillsList(o) },
	}
	cmd.Flags().StringVar(&o.dir, "dir", "", "the workspace, instead of this folder")
	return cmd
}

// listedSkill is a skill as --json has it.
type listedSkill struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Level       string   `json:"level"`
	Dir         string   `json:"dir"`
	Tools       []string `json:"tools,omitempty"`
}

func runSkillsList(o skillsListOptions) error {
	a := o.app
	file, _, err := a.configFile()
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return td.Errorf(td.Invalid, "find the workspace: %w", err)
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return td.Errorf(td.Invalid, "%s is no folder", dir).WithHint("taskdaemon skills list --dir …")
	}
	skills, problems := skill.Load(skill.Sources(filepath.Dir(file), knowledge.Top(dir))...)
	listed := []listedSkill{}
	rows := [][]string{{"skill", "level", "tools", ""}}
	for _, s := range skills {
		l := listedSkill{Name: s.Name, Description: s.Description, Level: s.Level.String(), Dir: s.Dir}
		for _, t := range s.Tools {
			l.Tools = append(l.Tools, t.Name)
		}
		listed = append(listed, l)
		rows = append(rows, []string{s.Name, l.Level, plural(len(s.Tools), "tool"), plainLine(s.Description, 100)})
	}
	if a.json {
		return a.printJSON(map[string]any{"skills": listed, "problems": append([]skill.Problem{}, problems...)})
	}
	if len(skills) > 0 {
		if err := table(a.stdout, rows); err != nil {
			return err
		}
	} else {
		a.say("no skills")
	}
	for _, p := range problems {
		a.say("%s %s", a.talk.warn("problem:"), plainLine(p.Error(), 500))
	}
	return nil
}
