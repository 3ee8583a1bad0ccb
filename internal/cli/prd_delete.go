package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type prdDeleteOptions struct {
	planOptions
	yes bool
}

func newPRDDeleteCmd(a *app) *cobra.Command {
	o := &prdDeleteOptions{planOptions: planOptions{app: a}}
	cmd := o.command(&cobra.Command{
		Use: "delete <prd>", Aliases: []string{"rm"}, Short: "Delete a feature, its documents and its open tasks",
		Args: args(cobra.ExactArgs(1), "one PRD, by its slug or handle"),
		Long: `Delete a feature: its documents, and its tasks that have not ended. Those that have stay, and are part of nothing then. It asks
first, and where nobody can be asked it wants --yes. While one of its tasks runs, or somebody prepares it, it cannot be
deleted.`,
		Example: "  taskdaemon prd delete remember-me",
	}, func(ctx context.Context) error { return runPRDDelete(ctx, *o) })
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "delete it without asking")
	return cmd
}

func runPRDDelete(ctx context.Context, o prdDeleteOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	p, err := svc.PRD(ctx, o.dir, o.args[0])
	if err != nil {
		return err
	}
	if !o.yes {
		if err := o.ask(p); err != nil {
			return err
		}
	}
	if p, err = svc.DeletePRD(ctx, o.dir, string(p.Task.ID)); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(p)
	}
	a.say("%s is deleted: %s", p.Task.Handle, plainLine(p.Task.Title, 80))
	return nil
}

// ask asks the person at the terminal, if there is one.
func (o prdDeleteOptions) ask(p api.PRD) error {
	a := o.app
	what := "its documents and " + plural(p.Tasks-p.Completed-p.Failed, "open task")
	if !isTerminal(a.stdin) || a.json {
		return td.Errorf(td.Conflict, "delete %s: %s would go with it", p.Task.Handle, what).WithHint("taskdaemon prd delete %s --yes", p.Slug)
	}
	fmt.Fprintf(a.stderr, "%s  %s\n", p.Task.Handle, plainLine(p.Task.Title, 80))
	if !a.agrees(fmt.Sprintf("Delete it with %s?", what), false) {
		a.say("%s stays", p.Task.Handle)
		return outcome(exitConflict)
	}
	return nil
}
