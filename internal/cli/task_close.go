package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
)

// closing is a verdict of a person on a planned task.
type closing struct {
	verb         api.PlanVerb
	words        string // what may be said with it
	short, long  string
	done         string
	exampleWords string
}

var closings = []closing{
	{
		api.PlanDone, " [summary]", "Say that a planned task is completed",
		"Say that a task of the project's graph is completed, in words if you like. What waits for it may go on. A run that is still at it\nis stopped.",
		"is completed", ` "the parser takes arrays"`,
	},
	{
		api.PlanFail, " [reason]", "Say that a planned task failed",
		"Say that a task of the project's graph failed, and why. What waits for it cannot go on until it is reset. A run that is still at it\nis stopped.",
		"failed", ` "there is no such interface"`,
	},
	{
		api.PlanReset, "", "Open a planned task again",
		"Open a task of the project's graph again that was completed, failed or cancelled. What waits for it waits again.",
		"is open again", "",
	},
}

type taskCloseOptions struct {
	planOptions
	closing closing
}

func newTaskCloseCmd(a *app, c closing) *cobra.Command {
	o := &taskCloseOptions{planOptions{app: a}, c}
	check := args(cobra.MinimumNArgs(1), "a task")
	if c.words == "" {
		check = args(cobra.ExactArgs(1), "one task")
	}
	return o.command(&cobra.Command{
		Use: string(c.verb) + " <task>" + c.words, Short: c.short, Long: c.long, Args: check,
		Example: "  taskdaemon task " + string(c.verb) + " t-4k7q2m9x" + c.exampleWords,
	}, func(ctx context.Context) error { return runTaskClose(ctx, *o) })
}

func runTaskClose(ctx context.Context, o taskCloseOptions) error {
	in := api.ChangePlan{Ref: o.args[0], Verb: o.closing.verb, Words: strings.Join(o.args[1:], " ")}
	return o.changed(ctx, in, func(api.Planned) string { return o.closing.done })
}
