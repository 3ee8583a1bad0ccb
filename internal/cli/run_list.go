package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
)

type runListOptions struct {
	app *app
	dir string
	all bool
}

func newRunListCmd(a *app) *cobra.Command {
	o := runListOptions{app: a}
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the runs of a project that are under way",
		Example: "  taskdaemon run list --all", Args: args(cobra.NoArgs, "no arguments"), Annotations: talks(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runRunList(cmd.Context(), o) },
	}
	cmd.Flags().StringVarP(&o.dir, "dir", "C", "", "a folder of the project; the present one when not given")
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "the newest that have ended, too")
	return cmd
}

// maxRuns bounds how many runs are listed.
const maxRuns = 50

func runRunList(ctx context.Context, o runListOptions) error {
	a := o.app
	dir, err := folderOr(o.dir)
	if err != nil {
		return err
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	runs, err := svc.Runs(ctx, api.RunQuery{Dir: dir, Open: !o.all, Limit: maxRuns})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(runs)
	}
	if len(runs) == 0 {
		a.say("no run is under way here")
	}
	for _, run := range runs {
		what := run.Title
		if what == "" {
			what = "all of the graph"
		}
		fmt.Fprintf(a.stdout, "%s  %s  %s\n", run.Run, plainLine(what, 60), a.style.dim(runWords(run)))
		for _, o := range run.Later {
			fmt.Fprintln(a.stdout, a.obstacleLine(o))
		}
	}
	return nil
}
