package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// control is a command without words of its own.
type control struct {
	name  string
	kind  td.CommandType
	short string
	long  string
	done  string
}

// controls are the same under task, loop and, for resume, at the top.
var controls = map[string]control{
	"pause": {
		"pause", td.CmdPause, "Stop a task until it is resumed",
		"Stop a task at its next safe point, until it is resumed. Work that is recorded is kept.", "pauses",
	},
	"resume": {
		"resume", td.CmdResume, "Let a task go on",
		"Let a paused or blocked task go on, or try once more one that failed, was cancelled or abandoned.", "goes on",
	},
	"cancel": {
		"cancel", td.CmdCancel, "End a task",
		"End a task and every process it runs. It does not go on by itself; resume takes it up again. Words after the task are the reason.", "is cancelled",
	},
	"stop": {
		"stop", td.CmdCancel, "End a task (task cancel)",
		"End a task and every process it runs. It does not go on by itself; resume takes it up again. Words after the task are the reason.", "is cancelled",
	},
}

type controlOptions struct {
	app     *app
	control control
	ref     string
	words   string
	alone   bool // nothing shows the task meanwhile, and how it ends
}

// newControlCmd makes a command that stands below a group, or below none.
func newControlCmd(a *app, group string, c control) *cobra.Command {
	return &cobra.Command{
		Use: c.name + " <task> [reason]", Short: c.short, Long: c.long,
		Args:        args(cobra.MinimumNArgs(1), "a task"),
		Example:     "  taskdaemon " + group + c.name + " t-4k7q2m9x",
		Annotations: talks(exitNotFound, exitConflict),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runControl(cmd.Context(), controlOptions{a, c, args[0], strings.Join(args[1:], " "), true})
		},
	}
}

func runControl(ctx context.Context, o controlOptions) error {
	cmd, done := api.Command{Type: o.control.kind, Text: o.words}, o.control.done
	svc, t, err := o.app.hand(ctx, o.ref, cmd)
	if err != nil {
		return err
	}
	if cmd.Type == td.CmdCancel && o.alone {
		if t, err = ended(ctx, svc, t); err != nil {
			return err
		}
		if !t.Status.State.Terminal() {
			done = "is being cancelled: what it does at the moment takes a while to end"
		}
	}
	return o.app.told(t, cmd, done)
}

// command hands a wish to a task and says so.
func (a *app) command(ctx context.Context, ref string, cmd api.Command, done string) error {
	_, t, err := a.hand(ctx, ref, cmd)
	if err != nil {
		return err
	}
	return a.told(t, cmd, done)
}

// hand gives a wish to a task. The daemon has it on disk when this returns and acts on it at the next safe point.
func (a *app) hand(ctx context.Context, ref string, cmd api.Command) (api.Service, td.Task, error) {
	svc, err := a.service(ctx)
	if err != nil {
		return nil, td.Task{}, err
	}
	cmd.By = a.by()
	t, err := svc.Command(ctx, ref, cmd)
	if err == nil {
		a.notePeer(svc)
	}
	return svc, t, err
}

func (a *app) told(t td.Task, cmd api.Command, done string) error {
	if a.json {
		return a.printJSON(t)
	}
	a.say("%s %s", t.Handle, done)
	if cmd.Type == td.CmdCancel && t.Worktree != nil {
		a.say("what it did stays in %s; %s", t.Worktree.Path, a.typeable("taskdaemon worktree prune removes it, with those of all ended tasks"))
	}
	return nil
}

// endLimit is how long a person waits to read that a task has ended.
const endLimit = 10 * time.Second

// ended is a task that was told to end, once it has: whoever reads that it is cancelled may clear up after it. It may take longer.
func ended(ctx context.Context, svc api.Service, t td.Task) (td.Task, error) {
	handle := t.Handle
	for end := time.Now().Add(endLimit); !t.Status.State.Terminal() && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return t, nil // it has been told to, and whoever asked has gone away
		case <-time.After(20 * time.Millisecond):
		}
		now, err := svc.Task(ctx, handle)
		if ctx.Err() != nil {
			return t, nil
		}
		if err != nil {
			return t, err
		}
		t = now
	}
	return t, nil
}
