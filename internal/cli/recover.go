package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

type recoverOptions struct{ app *app }

func newRecoverCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "recover", Short: "Show what the last start found and did", Args: args(cobra.NoArgs, "no arguments"),
		Long: `Show the recovery report: what the daemon found when it last started, and what it did about it.
Recovery itself happens at every start; there is nothing to trigger.`,
		Example: "  taskdaemon recover", Annotations: talks(exitStorage),
		RunE: func(cmd *cobra.Command, _ []string) error { return runRecover(cmd.Context(), recoverOptions{a}) },
	}
}

func runRecover(ctx context.Context, o recoverOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	r, err := svc.Recovery(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(r)
	}
	a.say("%s", a.talk.dim(fmt.Sprintf("report of %s, made in %s", r.At.Local().Format("2006-01-02 15:04:05"), took(r.Took))))
	_, err = fmt.Fprintln(a.stdout, plainText(r.String()))
	return written(err)
}
