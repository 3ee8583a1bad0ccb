package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type taskSendOptions struct {
	app  *app
	ref  string
	text string
}

func newTaskSendCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "send <task> <words… | ->", Short: "Say something to a task",
		Long: `Say something to a task; it reads it before its next turn. A first word with a slash acts:

  /pause            stop until it is resumed
  /cancel [reason]  end it for good
  /retry            drop the last answer and ask the model again
  /model NAME       use another model or tier from the next call on
  /context          show how full the conversation is`,
		Args:        args(cobra.MinimumNArgs(2), "a task and what to say"),
		Example:     `  taskdaemon task send t-4k7q2m9x "use the standard library only"`,
		Annotations: talks(exitNotFound, exitConflict),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := taskSendOptions{app: a, ref: args[0], text: strings.Join(args[1:], " ")}
			if o.text == "-" {
				text, err := readInput(a.stdin)
				if err != nil {
					return err
				}
				o.text = text
			}
			return runTaskSend(cmd.Context(), o)
		},
	}
}

func runTaskSend(ctx context.Context, o taskSendOptions) error {
	verb, rest, _ := strings.Cut(strings.TrimSpace(o.text), " ")
	rest = strings.TrimSpace(rest)
	switch {
	case !strings.HasPrefix(verb, "/") || strings.Contains(verb[1:], "/"): // a path is no command
		return o.app.command(ctx, o.ref, api.Command{Type: td.CmdMessage, Text: o.text}, "has your message")
	case verb == "/pause":
		return runControl(ctx, controlOptions{o.app, controls["pause"], o.ref, rest})
	case verb == "/resume":
		return runControl(ctx, controlOptions{o.app, controls["resume"], o.ref, rest})
	case verb == "/cancel":
		return runControl(ctx, controlOptions{o.app, controls["cancel"], o.ref, rest})
	case verb == "/retry":
		return o.app.command(ctx, o.ref, api.Command{Type: td.CmdRetry}, "asks the model again")
	case verb == "/model" && rest != "":
		return o.app.command(ctx, o.ref, api.Command{Type: td.CmdModel, Text: rest}, "uses "+plainLine(rest, 60)+" from the next call on")
	case verb == "/model":
		return td.Errorf(td.Invalid, "/model wants the name of a model or tier").WithHint("taskdaemon task send %s /model expert", o.ref)
	case verb == "/mode":
		return o.app.command(ctx, o.ref, api.Command{Type: td.CmdMode, Text: rest}, "is in permission mode "+plainLine(rest, 40)+" from the next call on")
	case verb == "/context":
		return runLoopInspect(ctx, loopInspectOptions{app: o.app, ref: o.ref, context: true})
	case verb == "/compact":
		return o.app.command(ctx, o.ref, api.Command{Type: td.CmdCompact}, "makes its conversation smaller before the next call")
	}
	return td.Errorf(td.Invalid, "unknown command %s: want /pause, /cancel, /retry, /model, /mode, /compact or /context", plainLine(verb, 40)).
		WithHint("taskdaemon task send --help")
}
