package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/td"
)

type daemonStartOptions struct {
	app        *app
	foreground bool
	set        []string
	readyFD    int
}

func newDaemonStartCmd(a *app) *cobra.Command {
	o := daemonStartOptions{app: a}
	cmd := &cobra.Command{
		Use: "start", Short: "Start the daemon", Args: args(cobra.NoArgs, "no arguments"),
		Long: `Start the daemon, and print what it found and did about work an earlier one left. Other
commands start it by themselves; this one is refused, with the pid, when one runs already.

In the foreground the log is shown as text; Ctrl-C stops in good order, a second one at once.`,
		Example:     "  taskdaemon daemon start --foreground --set log.level=debug",
		Annotations: exits(exitOK, exitFailed, exitUsage, exitUnavailable, exitLocked, exitStorage),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.foreground {
				return runForeground(cmd.Context(), o)
			}
			return runDaemonStart(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.foreground, "foreground", false, "stay, and show the log")
	cmd.Flags().StringArrayVar(&o.set, "set", nil, "a setting for this daemon, as key=value; may be repeated")
	cmd.Flags().IntVar(&o.readyFD, "ready-fd", 0, "descriptor that is told when the daemon answers")
	_ = cmd.Flags().MarkHidden("ready-fd") // fails only for a flag that does not exist
	return cmd
}

func runDaemonStart(ctx context.Context, o daemonStartOptions) error {
	a := o.app
	c, dir, err := a.direct()
	if err != nil {
		return err
	}
	defer c.Close()
	switch st, err := c.Status(ctx); {
	case td.IsKind(err, td.Timeout):
		return err // one has the state folder, and does not answer
	case err == nil && !st.Stopping:
		return td.Errorf(td.Locked, "a daemon runs already, with pid %d", st.Pid).WithHint("taskdaemon daemon status")
	case err == nil:
		if err := waitExit(ctx, st.Pid); err != nil {
			return err
		}
	}
	pid, err := a.spawn(ctx, dir, o.set)
	if err != nil {
		return err
	}
	report, err := wholeReport(ctx, c, time.Second)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]any{"pid": pid, "report": report})
	}
	a.say("started the daemon (pid %d)", pid)
	a.say("%s", plainText(report.String()))
	a.notePeer(c)
	return nil
}
