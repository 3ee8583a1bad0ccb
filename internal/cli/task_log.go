package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
)

type taskLogOptions struct{ planOptions }

func newTaskLogCmd(a *app) *cobra.Command {
	o := &taskLogOptions{planOptions{app: a}}
	return o.command(&cobra.Command{
		Use: "log <task>", Short: "Show what was changed of a planned task", Args: args(cobra.ExactArgs(1), "one task"),
		Long: `Show what was changed of a task of the project's graph, the oldest first, and in whose clone. What it did when it ran is in
loop history.`,
		Example: "  taskdaemon task log t-4k7q2m9x",
	}, func(ctx context.Context) error { return runTaskLog(ctx, *o) })
}

func runTaskLog(ctx context.Context, o taskLogOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	log, err := svc.PlanLog(ctx, o.dir, o.args[0])
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(append([]api.PlanChanged{}, log...))
	}
	rows := [][]string{{"WHEN", "WHERE", "WHAT"}}
	for _, c := range log {
		at, actor := c.At.Local().Format("2006-01-02 15:04:05"), plainLine(c.Actor, 40)
		for _, w := range c.Words {
			rows = append(rows, []string{at, actor, plainLine(strings.TrimSpace(w), 200)})
			at, actor = "", ""
		}
	}
	return table(a.stdout, rows)
}
