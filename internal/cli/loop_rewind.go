package cli

import (
	"context"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type loopRewindOptions struct {
	app *app
	ref string
	to  string
}

func newLoopRewindCmd(a *app) *cobra.Command {
	o := loopRewindOptions{app: a}
	cmd := &cobra.Command{
		Use: "rewind <task> --to <step>", Short: "Take a task back to one of its steps, files and conversation",
		Long: `Take a task back to one of its steps: the workspace holds what it held after that step, tracked and untracked files,
and the conversation ends there. What git ignores and the branch stay as they are. What the workspace held before is
kept in a commit, which is printed. Files of more than 64 MiB are in no snapshot: they stay as they are, and are named.
Later messages stay in the records. The task is paused then: say something to it, and resume it.`,
		Args:    args(cobra.ExactArgs(1), "one task"),
		Example: "  taskdaemon loop rewind t-4k7q2m9x --to t3.0", Annotations: talks(exitNotFound, exitConflict),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			return runLoopRewind(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.to, "to", "", "the step, as loop steps lists it")
	return cmd
}

func runLoopRewind(ctx context.Context, o loopRewindOptions) error {
	a := o.app
	if o.to == "" {
		return td.Errorf(td.Invalid, "no step named").WithHint("taskdaemon loop steps %s", o.ref)
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	got, err := svc.Rewind(ctx, o.ref, api.Rewind{To: td.StepKey(o.to), By: a.by()})
	if err != nil {
		return err
	}
	a.notePeer(svc)
	if a.json {
		return a.printJSON(got)
	}
	h := got.Task.Handle
	if !got.Done {
		a.say("%s goes back to %s at its next safe point", h, got.To)
		return nil
	}
	a.say("%s is back at %s", h, got.To)
	for _, name := range got.LeftOut {
		a.say("not rewound, too large for snapshots: %s", plainLine(name, 200))
	}
	a.say("what the workspace held before: git show %s%s", got.Kept, a.typeable("; to go on: taskdaemon resume "+h))
	return nil
}
