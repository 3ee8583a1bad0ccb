package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type loopForkOptions struct {
	app    *app
	ref    string
	at     string
	model  string
	prompt string
}

func newLoopForkCmd(a *app) *cobra.Command {
	o := loopForkOptions{app: a}
	cmd := &cobra.Command{
		Use: "fork <task> --at <step> [prompt]", Short: "Go on from a step of a task in a task of its own",
		Long: `Add a task that goes on from a step of another one, with another model or another prompt: its conversation begins with
that of the other up to the step, and it works in a worktree of its own that holds what the workspace held then. The
other task is not touched. What the fork does stays on its branch.`,
		Args:    args(cobra.MinimumNArgs(1), "a task"),
		Example: "  taskdaemon loop fork t-4k7q2m9x --at t3.0 --model expert \"use a map instead\"", Annotations: talks(exitNotFound, exitConflict),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref, o.prompt = args[0], strings.Join(args[1:], " ")
			return runLoopFork(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.at, "at", "", "the step, as loop steps lists it")
	cmd.Flags().StringVar(&o.model, "model", "", "another model or tier")
	return cmd
}

func runLoopFork(ctx context.Context, o loopForkOptions) error {
	a := o.app
	if o.at == "" {
		return td.Errorf(td.Invalid, "no step named").WithHint("taskdaemon loop steps %s", o.ref)
	}
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	t, err := svc.Fork(ctx, o.ref, api.Fork{At: td.StepKey(o.at), Model: o.model, Prompt: o.prompt, By: a.by()})
	if err != nil {
		return err
	}
	a.notePeer(svc)
	if a.json {
		return a.printJSON(t)
	}
	if _, err := fmt.Fprintln(a.stdout, t.Handle); err != nil {
		return written(err)
	}
	a.say("works in %s%s", t.Dir, a.typeable("; to watch: taskdaemon loop attach "+t.Handle))
	return nil
}
