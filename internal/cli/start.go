package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

func newStartCmd(a *app) *cobra.Command {
	o := runOptions{app: a}
	cmd := &cobra.Command{
		Use: "start [prd | task]", Short: "Work through a PRD in the background",
		Long: `Have the daemon work through a PRD, or through all planned tasks of the project, and return at once: what is ready is
started, and whatever becomes ready after it, until all have ended or none may run. It is the same as run, without
watching; run shows it at any time, and run stop stops it.

It works on as many ready tasks at once as limits.loops and limits.loops_per_project allow, or on as many as --parallel
says; on one at a time where tasks have no worktrees of their own.`,
		Example: "  taskdaemon start login\n  taskdaemon start login --parallel 3", Args: args(cobra.MaximumNArgs(1), "at most one PRD or task"),
		Annotations: runExits(),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.take(cmd, args)
			return runStart(cmd.Context(), o)
		},
	}
	o.wishes(cmd, 0, "work on so many tasks at once; as many as limits.loops allows when not given")
	return cmd
}

func runStart(ctx context.Context, o runOptions) error {
	a := o.app
	if err := o.read(); err != nil {
		return err
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	run, err := svc.StartRun(ctx, o.in)
	if err != nil {
		return err
	}
	a.notePeer(svc)
	if !run.Open() {
		return a.endRun(run, nil)
	}
	if a.json {
		return a.printJSON(run)
	}
	a.printStarted(run)
	(&runner{runOptions: o, run: run}).sayAttached(" already")
	a.sayLater(run)
	a.say("next: %s", a.typeable("taskdaemon status, or "+strings.TrimSpace("taskdaemon run "+o.in.Target)+" to see it"))
	return nil
}

// sayLater says why a run that is ordered has not started all that it could.
func (a *app) sayLater(run api.Run) {
	if len(run.Later) == 0 {
		return
	}
	a.say("%s", a.talk.warn("run "+run.Run+" is ordered and starts later:"))
	for _, o := range run.Later {
		a.say("%s", a.obstacleLine(o))
	}
	a.say("%s", a.typeable("to take it back: taskdaemon run stop "+run.Run))
}

// obstacleLine is one reason why a run cannot start something, with what to type.
func (a *app) obstacleLine(o td.Obstacle) string {
	line := "  " + plainLine(o.Reason, 300)
	if o.Hint != "" {
		line += " → " + a.typeable(plainLine(o.Hint, mostTyped))
	}
	return line
}

// printStarted says what a run began with, and what has to wait.
func (a *app) printStarted(run api.Run) {
	var ready []string
	for _, t := range run.Started {
		ready = append(ready, t.Handle)
	}
	if len(ready) > 0 {
		fmt.Fprintf(a.stdout, "Spawned %s (%s ready)\n", plural(len(ready), "loop"), strings.Join(ready, ", "))
	}
	for _, t := range run.AtWork {
		fmt.Fprintf(a.stdout, "%s is at work already\n", t.Handle)
	}
	var waiting []string
	for _, p := range run.InTheWay {
		if p.Obstacle != "" {
			waiting = append(waiting, p.Handle)
		}
	}
	if len(waiting) > 0 {
		fmt.Fprintf(a.stdout, "%s blocked on dependencies\n", strings.Join(waiting, ", "))
	}
}
