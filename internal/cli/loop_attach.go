package cli

import (
	"context"

	"github.com/spf13/cobra"
)

type loopAttachOptions struct {
	app  *app
	ref  string
	tail int
}

func newLoopAttachCmd(a *app) *cobra.Command {
	o := loopAttachOptions{app: a}
	cmd := &cobra.Command{
		Use: "attach <task>", Short: "Watch a task live",
		Long: `Watch a task live: what the model says, the tools it calls, their output and results, changes of
state, and questions with what to type. It ends with the task, and exits with its outcome; Ctrl-C
detaches and the task runs on. It outlives the daemon: if that is killed, it waits for the next one and
goes on where it was.

On a terminal, questions may be answered in place, and other lines are sent to the task as messages. Where several questions are
open, begin with the number or id of one. /pause, /cancel and the other commands of task send act.
With --json every event is one line.`,
		Args:        args(cobra.ExactArgs(1), "one task"),
		Example:     "  taskdaemon loop attach t-4k7q2m9x",
		Annotations: talks(exitNotFound, exitCancelled),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			return runLoopAttach(cmd.Context(), o)
		},
	}
	cmd.Flags().IntVarP(&o.tail, "tail", "n", 20, "records to begin with; -1 is all")
	return cmd
}

func runLoopAttach(ctx context.Context, o loopAttachOptions) error {
	a := o.app
	svc, t, err := a.task(ctx, o.ref)
	if err != nil {
		return err
	}
	a.notePeer(svc)
	w := watch{app: a, service: svc, task: t, out: a.stdout, style: a.style, json: a.json}
	if !a.json {
		var closeDesk func()
		w.desk, closeDesk = a.openDesk(ctx, svc)
		defer closeDesk()
	}
	if o.tail >= 0 && uint64(o.tail) < t.Head {
		w.skip = t.Head - uint64(o.tail)
	}
	if !a.json && !t.Status.State.Terminal() {
		a.say("%s", a.talk.dim(t.Handle+" "+plainLine(t.Title, 60)+"; Ctrl-C detaches, the task runs on"))
	}
	stop := a.callForInput(ctx, svc)
	last, err := w.run(ctx)
	stop()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		a.say("detached; the task runs on: %s", a.typeable("taskdaemon loop attach "+t.Handle))
		return nil
	}
	a.notify(last)
	return outcomeOf(last)
}
