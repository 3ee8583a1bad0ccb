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
  /resume           go on
  /cancel [reason]  end it; /resume takes it up again
  /retry            drop the last answer and ask the model again
  /model NAME       use another model or tier from the next call on
  /mode MODE        use another permission mode from the next call on
  /compact          make the conversation smaller before the next call
  /context          show how full the conversation is

They act in loop attach, run and task add --attach, too. Any other first word with a slash is refused, unless it is a path.`,
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
	if isSlash(o.text) {
		return o.app.slash(ctx, o.ref, o.text)
	}
	return o.app.command(ctx, o.ref, api.Command{Type: td.CmdMessage, Text: o.text}, "has your message")
}
