package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
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

// wholeReport is the report, if need be after a wait until the records of all tasks were read.
func wholeReport(ctx context.Context, svc api.Service, limit time.Duration) (td.Report, error) {
	for end := time.Now().Add(limit); ; {
		r, err := svc.Recovery(ctx)
		if err != nil || r.Checking == 0 || time.Now().After(end) || !pause(ctx, 20*time.Millisecond) {
			return r, err
		}
	}
}

func runRecover(ctx context.Context, o recoverOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	r, err := wholeReport(ctx, svc, time.Minute)
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
