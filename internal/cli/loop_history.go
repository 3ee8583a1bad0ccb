package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

type loopHistoryOptions struct {
	app    *app
	ref    string
	events bool
	full   bool
}

func newLoopHistoryCmd(a *app) *cobra.Command {
	o := loopHistoryOptions{app: a}
	cmd := &cobra.Command{
		Use: "history <task>", Short: "Print the conversation of a task",
		Long: `Print the conversation of a task: of its present iteration, or of the last one until the next begins. What
retention has let go is read from the git mirror. With --events the records instead, one JSON object a line;
with --json conversation and records as one object.`,
		Args:    args(cobra.ExactArgs(1), "one task"),
		Example: "  taskdaemon loop history t-4k7q2m9x", Annotations: talks(exitNotFound),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			return runLoopHistory(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.events, "events", false, "the records as they are, as JSON lines")
	cmd.Flags().BoolVar(&o.full, "full", false, "do not clip tool results")
	return cmd
}

func runLoopHistory(ctx context.Context, o loopHistoryOptions) error {
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
	switch {
	case o.events:
		for _, ev := range h.Events {
			if err := encodeJSON(a.stdout, ev, ""); err != nil {
				return err
			}
		}
		return nil
	case a.json:
		return a.printJSON(h)
	}
	a.sayGone(h)
	if len(h.Messages) == 0 && h.Gone > 0 {
		return nil
	}
	if len(h.Messages) == 0 {
		a.say("%s has said nothing yet: it is %s", h.Task.Handle, stateWords(h.Task))
		return nil
	}
	for _, m := range h.Messages {
		if err := o.print(a.stdout, m); err != nil {
			return written(err)
		}
	}
	if h.Ended {
		a.say("%s", a.talk.dim("this iteration has ended; the next one begins a new conversation"))
	}
	a.say("%s", a.talk.dim(fmt.Sprintf("%s is %s; %s, %s", h.Task.Handle, stateWords(h.Task), plural(h.Task.Turns, "turn"), money(h.Task.Booked()))))
	return nil
}

// sayGone says that records are nowhere any more.
func (a *app) sayGone(h api.History) {
	if h.Gone > 0 {
		are := "are lost: retention removed them"
		if h.Gone == 1 {
			are = "is lost: retention removed it"
		}
		a.say("%s of %s %s from the journal, and conversations.git does not have them; to check it: taskdaemon doctor", plural(h.Gone, "record"), h.Task.Handle, are)
	}
}

func (o loopHistoryOptions) print(w io.Writer, m td.Message) error {
	speaker := ""
	for _, b := range m.Blocks {
		if by := o.speaker(m.Role, b); by != speaker && by != "" {
			speaker = by
			if _, err := fmt.Fprintln(w, by); err != nil {
				return err
			}
		}
		o.block(w, b)
	}
	_, err := fmt.Fprintln(w)
	return err
}

// speaker is the heading of what somebody says: of the agent, of a person, or of taskdaemon, which also hands on what hooks and other loops say. The result of a call needs
// none.
func (o loopHistoryOptions) speaker(role td.Role, b td.Block) string {
	s := o.app.style
	switch {
	case role == td.Assistant:
		return s.bold("● agent")
	case b.Type == td.ToolResultBlock:
		return ""
	case b.Aside:
		return s.cyan("» taskdaemon")
	}
	return s.cyan("» you")
}

func (o loopHistoryOptions) block(w io.Writer, b td.Block) {
	s := o.app.style
	switch b.Type {
	case td.TextBlock:
		fmt.Fprintln(w, quotedWhole(b.Text))
	case td.ToolUseBlock:
		fmt.Fprintln(w, s.bold("▸ "+plainLine(b.Name, 40))+" "+callLine(b))
	case td.ToolResultBlock:
		bar := s.dim(margin)
		if b.IsError {
			bar = s.red(margin)
		}
		head, tail := 12, 6
		if o.full {
			head = len(b.Text)
		}
		for _, line := range plainClip(b.Text, head, tail) {
			fmt.Fprintln(w, bar+line)
		}
	}
}
