package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/td"
)

type daemonStopOptions struct {
	app  *app
	wait time.Duration
}

func newDaemonStopCmd(a *app) *cobra.Command {
	o := daemonStopOptions{app: a}
	cmd := &cobra.Command{
		Use: "stop", Short: "Stop the daemon in good order", Args: args(cobra.NoArgs, "no arguments"),
		Long: `Stop the daemon in good order: it takes nothing new, lets steps in flight end, and leaves the
rest for its next start. Returns when it has ended. No daemon is no error.`,
		Example:     "  taskdaemon daemon stop",
		Annotations: exits(exitOK, exitFailed, exitUnavailable),
		RunE:        func(cmd *cobra.Command, _ []string) error { return runDaemonStop(cmd.Context(), o) },
	}
	cmd.Flags().DurationVar(&o.wait, "wait", 2*time.Minute, "how long to wait for its end")
	return cmd
}

func runDaemonStop(ctx context.Context, o daemonStopOptions) error {
	a := o.app
	c, _, err := a.direct()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	st, err := c.Status(ctx)
	if td.IsKind(err, td.Unavailable) {
		if a.json {
			return a.printJSON(map[string]any{"stopped": false})
		}
		a.say("no daemon is running")
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.Stop(ctx); err != nil && !td.IsKind(err, td.Unknown) {
		return err // an answer that got lost is an answer too: it is going down
	}
	if err := waitExit(ctx, st.Pid); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]any{"stopped": true, "pid": st.Pid})
	}
	a.say("stopped the daemon (pid %d)", st.Pid)
	return nil
}
