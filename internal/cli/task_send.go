package cli

import (
	"context"
	"fmt"
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
	case verb == "/context":
		return runContext(ctx, o)
	case verb == "/compact":
		return td.Errorf(td.Refused, "/compact is not supported: conversations are not compacted yet").
			WithHint("taskdaemon task send %s /context", o.ref)
	}
	return td.Errorf(td.Invalid, "unknown command %s: want /pause, /cancel, /retry, /model or /context", plainLine(verb, 40)).
		WithHint("taskdaemon task send --help")
}

// contextStats is how full a conversation is.
type contextStats struct {
	Task     string   `json:"task"`
	Model    string   `json:"model,omitempty"`
	Messages int      `json:"messages"`
	Turns    int      `json:"turns"`
	Last     td.Usage `json:"last_call"` // its input is what the model was sent
	Total    td.Usage `json:"total"`
	Cost     td.Money `json:"cost_micro_usd"`
}

func runContext(ctx context.Context, o taskSendOptions) error {
	a := o.app
	svc, err := a.service(ctx)
	if err != nil {
		return err
	}
	h, err := svc.History(ctx, o.ref)
	if err != nil {
		return err
	}
	a.notePeer(svc)
	st := contextStats{
		Task: h.Task.Handle, Model: h.Task.LastModel, Messages: len(h.Messages), Turns: h.Task.Turns,
		Total: h.Task.Usage, Cost: h.Task.Cost,
	}
	for _, ev := range h.Events {
		if end, ok := ev.Body.(td.StepEnded); ok && end.Model != nil {
			st.Last = end.Model.Usage
		}
	}
	if a.json {
		return a.printJSON(st)
	}
	sent := st.Last.Input + st.Last.CacheRead + st.Last.CacheWrite
	return table(a.stdout, [][]string{
		{"task", st.Task},
		{"model", st.Model},
		{"conversation", plural(st.Messages, "message") + ", " + plural(st.Turns, "turn")},
		{"last call", fmt.Sprintf("%d tokens sent (%d from cache), %d answered", sent, st.Last.CacheRead, st.Last.Output)},
		{"in all", usageWords(st.Total)},
		{"cost", money(st.Cost)},
	})
}
