package cli

import (
	"context"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
)

type taskReadyOptions struct {
	planOptions
	in    string
	limit int
}

func newTaskReadyCmd(a *app) *cobra.Command {
	o := &taskReadyOptions{planOptions: planOptions{app: a}}
	cmd := o.command(&cobra.Command{
		Use: "ready", Short: "List planned tasks that may run now", Args: args(cobra.NoArgs, "no arguments"),
		Long:    "List the tasks of the project's graph that may run now, in the order in which they would be taken: by priority, then by age.",
		Example: "  taskdaemon task ready --limit 1",
	}, func(ctx context.Context) error { return runTaskReady(ctx, *o) })
	cmd.Flags().StringVar(&o.in, "in", "", "only what is in this task")
	cmd.Flags().IntVarP(&o.limit, "limit", "n", 0, "at most so many; 0 is all")
	return cmd
}

func runTaskReady(ctx context.Context, o taskReadyOptions) error {
	return o.list(ctx, api.PlanQuery{Ready: true, In: o.in, Limit: o.limit}, "", o.app.printPlanned)
}

// printPlanned writes the table of planned tasks.
func (a *app) printPlanned(all []api.Planned) error {
	rows := [][]string{{"TASK", "STATE", "PRIO", "AGE", "TITLE"}}
	for _, p := range all {
		rows = append(rows, []string{
			p.Handle, planMark(p) + " " + planState(p), string(rune('0' + p.Priority%10)), age(a.now().Sub(p.CreatedAt)),
			a.style.state(p.State, plainLine(p.Title, 80)),
		})
	}
	return table(a.stdout, rows)
}
