package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/client"
	"taskdaemon/internal/td"
)

func newDaemonCmd(a *app) *cobra.Command {
	return group("daemon", "Start, stop and look at the daemon", "taskdaemon daemon status",
		newDaemonStartCmd(a), newDaemonStopCmd(a), newDaemonStatusCmd(a), newDaemonLogsCmd(a), newDaemonLastWordsCmd(a))
}

// direct reaches a daemon that runs, and never starts one.
func (a *app) direct() (*client.Client, string, error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, "", err
	}
	return client.New(client.Options{Socket: socketPath(dir)}), dir, nil
}

type daemonStatusOptions struct {
	app     *app
	service api.Service
}

func newDaemonStatusCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Say whether the daemon runs", Args: args(cobra.NoArgs, "no arguments"),
		Example:     "  taskdaemon daemon status || taskdaemon daemon start",
		Annotations: exits(exitOK, exitUnavailable),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.address() != "" {
				svc, err := a.service(cmd.Context())
				if err != nil {
					return err
				}
				return runDaemonStatus(cmd.Context(), daemonStatusOptions{app: a, service: svc})
			}
			c, _, err := a.direct()
			if err != nil {
				return err
			}
			defer c.Close()
			return runDaemonStatus(cmd.Context(), daemonStatusOptions{app: a, service: c})
		},
	}
}

func runDaemonStatus(ctx context.Context, o daemonStatusOptions) error {
	st, err := o.service.Status(ctx)
	if err != nil {
		return err
	}
	if o.app.json {
		return o.app.printJSON(st)
	}
	return o.app.printDaemon(st)
}

// printDaemon writes the lines about the daemon itself, and more.
func (a *app) printDaemon(st api.Status, more ...[]string) error {
	running := fmt.Sprintf("pid %d, version %s, up %s", st.Pid, st.Version, age(a.now().Sub(st.StartedAt)))
	if st.Stopping {
		running += ", stopping"
	}
	model := st.Provider
	if m := st.Models[td.Worker]; m != "" && !st.Rehearsal {
		model += ", " + m
	}
	rows := [][]string{{"daemon", running}, {"model", model}, {"state", st.State}, {"tasks", counts(st.Tasks)}}
	if st.Listen != "" {
		rows = append(rows, []string{"API", "at " + st.Listen + " over TCP, with the token in " + wire.TokenPath(st.State)})
	}
	for _, line := range callWords(st.Calls, a.now()) {
		rows = append(rows, []string{"calls", line})
	}
	if st.Degraded != "" {
		rows = append(rows, []string{"degraded", a.style.red(plainText(st.Degraded))})
	}
	return table(a.stdout, append(rows, more...))
}

// callWords is what is worth saying of the calls of models: nothing, when none waits and all can be made.
func callWords(c api.Calls, now time.Time) (lines []string) {
	if c.Waiting > 0 {
		lines = append(lines, fmt.Sprintf("%d under way, %d waiting for their turn", c.InFlight, c.Waiting))
	}
	for _, m := range c.Off {
		lines = append(lines, fmt.Sprintf("%s is off until %s after %s", plainLine(m.Model, 80), clock(now, m.Until), plural(m.Failures, "failure")))
	}
	for _, k := range c.Resting {
		lines = append(lines, fmt.Sprintf("a key of %s (%s) rests until %s: %s", plainLine(k.Provider, 40), k.Key, clock(now, k.Until), k.Why))
	}
	return lines
}

func counts(n map[td.State]int) string {
	text := ""
	for _, s := range td.States {
		if n[s] > 0 {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("%d %s", n[s], s)
		}
	}
	if text == "" {
		return "none"
	}
	return text
}
