package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type taskBlockedOptions struct {
	planOptions
	in string
}

func newTaskBlockedCmd(a *app) *cobra.Command {
	o := &taskBlockedOptions{planOptions: planOptions{app: a}}
	cmd := o.command(&cobra.Command{
		Use: "blocked", Short: "List planned tasks that cannot run now, and why", Args: args(cobra.NoArgs, "no arguments"),
		Long: `List the tasks of the project's graph that cannot run now, and what is in the way of each: tasks that are not
completed yet (waits), tasks that failed or were cancelled (failed), a circle of tasks that wait for each other (cycle), or
tasks that are not in the graph (unknown). All but the first need a person.`,
		Example: "  taskdaemon task blocked",
	}, func(ctx context.Context) error { return runTaskBlocked(ctx, *o) })
	cmd.Flags().StringVar(&o.in, "in", "", "only what is in this task")
	return cmd
}

func runTaskBlocked(ctx context.Context, o taskBlockedOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	all, err := svc.Planned(ctx, api.PlanQuery{Dir: o.dir, In: o.in, States: []td.State{td.Queued, td.Blocked}})
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(p api.Planned) bool { return p.Obstacle == "" })
	if a.json {
		return a.printJSON(append([]api.Planned{}, all...))
	}
	if len(all) == 0 {
		none, err := o.nothingTo(ctx, svc, o.in)
		if err != nil {
			return err
		}
		a.say("%s", a.typeable(none))
		return nil
	}
	rows := [][]string{{"TASK", "CAUSE", "TITLE", "WHY"}}
	for _, p := range all {
		rows = append(rows, []string{p.Handle, plainLine(p.Obstacle, 20), plainLine(p.Title, 50), a.style.state(p.State, obstacleWords(p))})
	}
	return table(a.stdout, rows)
}
