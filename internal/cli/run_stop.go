package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type runStopOptions struct {
	app *app
	dir string
	run string
}

func newRunStopCmd(a *app) *cobra.Command {
	o := runStopOptions{app: a}
	cmd := &cobra.Command{
		Use: "stop [run]", Short: "Stop a run; its tasks are paused after what they are doing now",
		Long: `Stop a run over the graph of a project: it starts nothing more, and its tasks are paused after what they are doing now.
The next run takes them up again. Without a name it is the only one that is under way in the project.`,
		Example: "  taskdaemon run stop", Args: args(cobra.MaximumNArgs(1), "at most one run"), Annotations: talks(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.run = args[0]
			}
			return runRunStop(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVarP(&o.dir, "dir", "C", "", "a folder of the project; the present one when not given")
	return cmd
}

func runRunStop(ctx context.Context, o runStopOptions) (err error) {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	if o.run == "" {
		if o.run, err = onlyRun(ctx, svc, o.dir); err != nil {
			return err
		}
	}
	run, err := svc.StopRun(ctx, api.StopRun{Run: o.run, By: a.by()})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(run)
	}
	fmt.Fprintf(a.stdout, "%s: %s\n", run.Run, runWords(run))
	if run.End != nil {
		a.printUnlanded(run.End.Unlanded)
	}
	for _, t := range run.AtWork {
		a.say("%s is paused after what it is doing now", t.Handle)
	}
	return nil
}

// onlyRun is the name of the one run that is under way in a project.
func onlyRun(ctx context.Context, svc api.Service, dir string) (string, error) {
	dir, err := folderOr(dir)
	if err != nil {
		return "", err
	}
	open, err := svc.Runs(ctx, api.RunQuery{Dir: dir, Open: true})
	if err != nil {
		return "", err
	}
	switch len(open) {
	case 0:
		return "", td.Errorf(td.NotFound, "no run is under way here").WithHint("taskdaemon run list")
	case 1:
		return open[0].Run, nil
	}
	names := make([]string, len(open))
	for i, run := range open {
		names[i] = run.Run
	}
	return "", td.Errorf(td.Ambiguous, "several runs are under way: %s", strings.Join(names, ", ")).WithHint("taskdaemon run stop %s", names[0])
}

// runWords says how a run stands.
func runWords(run api.Run) string {
	state := "under way"
	switch {
	case len(run.Later) > 0 && len(run.AtWork) == 0 && run.Held == nil && run.End == nil:
		state = "starts later"
	case run.Held != nil:
		state = "paused, because " + run.Held.Why
	case run.End != nil:
		state = strings.ReplaceAll(string(run.End.Outcome), "_", " ")
	}
	return state + "; " + runCounts(run.Completed, run.Failed, run.Cancelled, run.Remaining, run.Iterations)
}
