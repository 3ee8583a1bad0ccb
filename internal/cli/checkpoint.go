package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"taskdaemon/internal/td"
)

type checkpointOptions struct {
	app *app
	ref string
}

func newCheckpointCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "checkpoint <task>", Short: "Bring a task's mirrors up to date and say where it stands",
		Long: `Snapshot the workspace, bring the conversation's git history up to date, and print the journal's
position. The task is not disturbed.`,
		Args:    args(cobra.ExactArgs(1), "one task"),
		Example: "  taskdaemon checkpoint t-4k7q2m9x", Annotations: talks(exitNotFound, exitStorage),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCheckpoint(cmd.Context(), checkpointOptions{app: a, ref: args[0]})
		},
	}
}

func runCheckpoint(ctx context.Context, o checkpointOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	cp, err := svc.Checkpoint(ctx, o.ref)
	if err != nil {
		return err
	}
	a.notePeer(svc)
	if a.json {
		return a.printJSON(cp)
	}
	err = table(a.stdout, [][]string{
		{"task", cp.Task.Handle + " (" + stateWords(cp.Task) + ")"},
		{"journal", fmt.Sprintf("event %d of the task, %d of all", cp.Seq, cp.Cursor)},
		{"conversation", cp.Branch + " at " + cp.Commit},
		{"workspace", cmp.Or(cp.Snapshot, "not under git")},
	})
	if err == nil {
		a.say("read it: %s", td.Typed("git --git-dir %s log %s", cp.Repo, cp.Branch))
	}
	return err
}
