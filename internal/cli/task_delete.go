package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type taskDeleteOptions struct {
	planOptions
	yes bool
}

func newTaskDeleteCmd(a *app) *cobra.Command {
	o := &taskDeleteOptions{planOptions: planOptions{app: a}}
	cmd := o.command(&cobra.Command{
		Use: "delete <task>", Aliases: []string{"rm"}, Short: "Take a task out of the plan", Args: args(cobra.ExactArgs(1), "one task"),
		Long: `Take a task out of the project's graph. Those in it are then in nothing, and those that wait for it wait no more; if there
are any, it asks first, and where nobody can be asked it wants --yes. What the task did when it ran stays in the journal.`,
		Example: "  taskdaemon task delete t-4k7q2m9x",
	}, func(ctx context.Context) error { return runTaskDelete(ctx, *o) })
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "delete it even if others wait for it or are in it")
	return cmd
}

func runTaskDelete(ctx context.Context, o taskDeleteOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	p, err := svc.PlannedTask(ctx, o.dir, o.args[0])
	if err != nil {
		return err
	}
	if why := leaning(p); why != "" && !o.yes {
		if err := o.ask(p, why); err != nil {
			return err
		}
	}
	return o.changed(ctx, api.ChangePlan{Ref: string(p.ID), Verb: api.PlanDelete}, func(p api.Planned) string {
		return "is deleted: " + plainLine(p.Title, 80)
	})
}

// leaning says who would notice if a task were gone, or nothing.
func leaning(p api.Planned) string {
	var why []string
	if p.Container {
		why = append(why, "it holds other tasks")
	}
	if len(p.Blocks) > 0 {
		names := make([]string, len(p.Blocks))
		for i, r := range p.Blocks {
			names[i] = planName(r)
		}
		why = append(why, "these wait for it: "+strings.Join(names, ", "))
	}
	return strings.Join(why, "; ")
}

// ask asks the person at the terminal, if there is one.
func (o taskDeleteOptions) ask(p api.Planned, why string) error {
	a := o.app
	if !isTerminal(a.stdin) || a.json {
		return td.Errorf(td.Conflict, "delete %s: %s", p.Handle, why).WithHint("taskdaemon task delete %s --yes", p.Handle)
	}
	fmt.Fprintf(a.stderr, "%s  %s\n%s\n", p.Handle, plainLine(p.Title, 80), why)
	if !a.agrees("Delete it?", false) {
		a.say("%s stays", p.Handle)
		return outcome(exitConflict)
	}
	return nil
}
